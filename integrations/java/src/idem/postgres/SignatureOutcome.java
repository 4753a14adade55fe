package idem.postgres;

/** What became of a signed request or a webhook: docs/requests.md. */
public enum SignatureOutcome {
    /** Genuine, fresh and new: do the work in this transaction. */
    ACCEPTED,
    /** A request that was accepted before. */
    REPLAYED,
    /** A webhook that was accepted before. */
    DUPLICATE,
    /** Genuine, but signed too long ago, or too far ahead. */
    STALE,
    /** No secret of its signer's signed it. */
    INVALID
}
