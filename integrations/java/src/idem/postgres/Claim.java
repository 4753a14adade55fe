package idem.postgres;

import java.time.Duration;

/**
 * A key and how it is claimed, for {@link IdemFunctions#begin} and the flows of {@link JdbcIdem}. What is not set is
 * not given.
 */
public final class Claim {
    final String key;
    Duration ttl;
    Duration lease;
    Duration wait;
    String owner;
    boolean keepOnError;
    String fingerprintFunction;
    Object fingerprintValue;

    private Claim(String key) {
        this.key = key;
    }

    public static Claim of(String key) {
        return new Claim(key);
    }

    /** How long the key is kept; else the scope's ttl. */
    public Claim ttl(Duration ttl) {
        this.ttl = ttl;
        return this;
    }

    /** Leased mode, and how long the lease lasts. {@link JdbcIdem#leased}: 30 seconds without it. */
    public Claim lease(Duration lease) {
        this.lease = lease;
        return this;
    }

    /** How long to wait for another holder; else not at all, and 10 seconds in the flows of {@link JdbcIdem}. */
    public Claim wait(Duration wait) {
        this.wait = wait;
        return this;
    }

    /** A nonce of the caller's, such as a random UUID for each request: the same claim again gets its fence again. */
    public Claim owner(String owner) {
        this.owner = owner;
        return this;
    }

    /** {@link JdbcIdem#leased}: work that throws keeps the key until the lease ends, instead of releasing it. */
    public Claim keepOnError() {
        keepOnError = true;
        return this;
    }

    /** The request as JSON text. The order of members and white space do not count. */
    public Claim fingerprintOfJson(String json) {
        return fingerprint("idem_fingerprint(?::jsonb)", json);
    }

    public Claim fingerprintOfText(String text) {
        return fingerprint("idem_fingerprint_text(?)", text);
    }

    public Claim fingerprintOfBytes(byte[] bytes) {
        return fingerprint("idem_fingerprint_bytes(?)", bytes);
    }

    private Claim fingerprint(String function, Object value) {
        fingerprintFunction = function;
        fingerprintValue = value;
        return this;
    }

    /** The SQL of the fingerprint, with one parameter. */
    String fingerprint(String schema) {
        return fingerprintFunction == null ? "?::bytea" : schema + "." + fingerprintFunction;
    }

    @Override
    public String toString() {
        return Description.of(this, "key", key, "ttl", ttl, "lease", lease, "wait", wait, "owner", owner);
    }
}
