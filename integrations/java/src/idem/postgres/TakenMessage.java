package idem.postgres;

import java.sql.ResultSet;
import java.sql.SQLException;

/** A message that {@link IdemFunctions#take} gave out. jsonb is JSON text. */
public final class TakenMessage {
    private final long id;
    private final String topic;
    private final String key;
    private final String payload;
    private final String headers;
    private final int attempt;
    private final long fence;

    TakenMessage(ResultSet row) throws SQLException {
        id = row.getLong("id");
        topic = row.getString("topic");
        key = row.getString("key");
        payload = row.getString("payload");
        headers = row.getString("headers");
        attempt = row.getInt("attempt");
        fence = row.getLong("fence");
    }

    public long id() {
        return id;
    }

    public String topic() {
        return topic;
    }

    /** Null if the message has no place in an order. */
    public String key() {
        return key;
    }

    public String payload() {
        return payload;
    }

    public String headers() {
        return headers;
    }

    /** From 1. */
    public int attempt() {
        return attempt;
    }

    /** The same for all messages of one call of take. */
    public long fence() {
        return fence;
    }

    @Override
    public String toString() {
        return Description.of(this, "id", id, "topic", topic, "key", key, "payload", payload, "headers", headers,
            "attempt", attempt, "fence", fence);
    }
}
