package idem.postgres;

/** The key is another holder's (IN_FLIGHT), another request's (MISMATCH), or in doubt (IN_DOUBT). Nothing was done. */
public final class NotAcquiredException extends Exception {
    private static final long serialVersionUID = 1;

    private final transient Ticket ticket;

    NotAcquiredException(String key, Ticket ticket) {
        super("key \"" + key + "\" was not acquired: " + ticket.outcome());
        this.ticket = ticket;
    }

    /** Why, and when to come back. */
    public Ticket ticket() {
        return ticket;
    }
}
