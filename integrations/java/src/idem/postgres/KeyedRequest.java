package idem.postgres;

import java.util.Objects;

/** An HTTP request as far as its key is concerned: docs/http.md, idem_http_begin. */
public final class KeyedRequest {
    final String scope;
    final String method;
    final String route;
    final String header;
    final byte[] body;
    private byte[] fingerprint;
    String contentType;

    /**
     * @param scope the space in which the key is unique: the client and the API; not empty
     * @param route the path with its query, or the name of an operation
     * @param header the header field as it came; null: there is none
     * @param body as it came; part of the fingerprint
     */
    public KeyedRequest(String scope, String method, String route, String header, byte[] body) {
        this.scope = Objects.requireNonNull(scope);
        this.method = Objects.requireNonNull(method);
        this.route = Objects.requireNonNull(route);
        this.header = header;
        this.body = Objects.requireNonNull(body);
    }

    /** The header field, for scopes that compare bodies of JSON by their value. Null: none. */
    public KeyedRequest contentType(String contentType) {
        this.contentType = contentType;
        return this;
    }

    /** What tells this request from others with its key, in place of route and body; any number of bytes. Null: these. */
    public KeyedRequest fingerprint(byte[] fingerprint) {
        this.fingerprint = fingerprint == null ? null : Digest.of(fingerprint);
        return this;
    }

    byte[] fingerprint() {
        return fingerprint;
    }

    /** With a method with which the scope does not use keys, its key is none. */
    KeyedRequest keyless() {
        return new KeyedRequest(scope, method, route, null, body);
    }

    @Override
    public String toString() {
        return Description.of(this, "scope", scope, "method", method, "route", route, "header", header, "body", body);
    }
}
