package idem.postgres;

/** What became of a response: docs/http.md, idem_http_complete. */
public enum HttpStored {
    /** It is stored. */
    STORED,
    /** It is too large: only its status and headers are stored. Commit. */
    OMITTED,
    /** The scope does not store its status, and the leased key was released. Roll back. */
    RELEASED,
    /** The request has no key. */
    UNKEYED
}
