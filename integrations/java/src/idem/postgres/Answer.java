package idem.postgres;

/** What the work of a flow answers, now or at an earlier call. */
public final class Answer {
    private final Integer statusCode;
    private final String response;
    private final boolean replayed;

    private Answer(Integer statusCode, String response, boolean replayed) {
        this.statusCode = statusCode;
        this.response = response;
        this.replayed = replayed;
    }

    /**
     * @param statusCode null: none
     * @param response JSON text, such as {@code {"sent": true}} or {@code "sent"} with its quotes; null: none. Text that
     *     is not JSON is SQLSTATE 22P02.
     */
    public static Answer of(Integer statusCode, String response) {
        return new Answer(statusCode, response, false);
    }

    static Answer replayOf(Ticket ticket) {
        return new Answer(ticket.statusCode(), ticket.response(), true);
    }

    public Integer statusCode() {
        return statusCode;
    }

    /** JSON text. A replay has it as jsonb prints it. */
    public String response() {
        return response;
    }

    /** The work was done by an earlier call. */
    public boolean isReplayed() {
        return replayed;
    }

    @Override
    public String toString() {
        return Description.of(this, "statusCode", statusCode, "response", response, "replayed", replayed);
    }
}
