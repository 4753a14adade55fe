package idem.postgres;

/** What became of a token that was redeemed: docs/tokens.md. */
public enum TokenOutcome {
    /** Do the work in this transaction. */
    ACCEPTED,
    /** The work is done. */
    DUPLICATE,
    /** Another transaction has redeemed the token and has not ended. */
    IN_FLIGHT,
    EXPIRED,
    /** Not issued by this database for this subject and scope, or revoked. */
    INVALID
}
