package idem.postgres;

/** What the work of a flow answers, now or at an earlier call. */
public final class Answer {
    private final Integer statusCode;
    private final String response;
    private final boolean replayed;
    private final boolean omitted;

    private Answer(Integer statusCode, String response, boolean replayed, boolean omitted) {
        this.statusCode = statusCode;
        this.response = response;
        this.replayed = replayed;
        this.omitted = omitted;
    }

    /**
     * @param statusCode null: none
     * @param response JSON text, such as {@code {"sent": true}} or {@code "sent"} with its quotes; null: none. Text that
     *     is not JSON is SQLSTATE 22P02. U+0000 and lone surrogates are stored, and replayed, although jsonb refuses them.
     */
    public static Answer of(Integer statusCode, String response) {
        return new Answer(statusCode, response, false, false);
    }

    static Answer replayOf(Ticket ticket) {
        return new Answer(ticket.statusCode(), Json.restored(ticket.response()), true, ticket.responseOmitted());
    }

    Answer stored(boolean isStored) {
        return new Answer(statusCode, response, replayed, !isStored);
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

    /**
     * The work is done, and its response was too large to be stored: a replay has none. That is no null of the work's.
     */
    public boolean isOmitted() {
        return omitted;
    }

    /** A later call gets this response. */
    public boolean isStored() {
        return !omitted;
    }

    @Override
    public String toString() {
        return Description.of(this, "statusCode", statusCode, "response", response, "replayed", replayed,
            "omitted", omitted ? true : null);
    }
}
