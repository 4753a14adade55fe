package idem.postgres;

/** The answer of {@link IdemFunctions#webhookReceive}. */
public final class WebhookAnswer {
    private final SignatureOutcome outcome;
    private final String messageId;

    WebhookAnswer(SignatureOutcome outcome, String messageId) {
        this.outcome = outcome;
        this.messageId = messageId;
    }

    public SignatureOutcome outcome() {
        return outcome;
    }

    /** Identifies the webhook among those of its source. Null when invalid. */
    public String messageId() {
        return messageId;
    }

    @Override
    public String toString() {
        return Description.of(this, "outcome", outcome, "messageId", messageId);
    }
}
