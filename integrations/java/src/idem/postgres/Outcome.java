package idem.postgres;

/** What became of a claim: docs/keys.md, "Outcomes". */
public enum Outcome {
    /** The key is the caller's: do the work. */
    ACQUIRED,
    /** The key is the caller's, and an earlier holder may have done a part of the work. */
    TAKEN_OVER,
    /** Another holder is not done. */
    IN_FLIGHT,
    /** The work is done and committed. */
    COMPLETED,
    /** The key belongs to a request with another fingerprint. */
    MISMATCH,
    /** The holder's lease ran out, and an operator has to decide. */
    IN_DOUBT;

    /** Whether the caller holds the key now. */
    public boolean isHeld() {
        return this == ACQUIRED || this == TAKEN_OVER;
    }

    static Outcome of(String word) {
        return valueOf(word.toUpperCase(java.util.Locale.ROOT));
    }
}
