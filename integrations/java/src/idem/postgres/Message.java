package idem.postgres;

import java.time.Duration;

/** A message for {@link IdemFunctions#publish(Message)}. What is not set is not given. */
public final class Message {
    final String topic;
    final String payload;
    String key;
    String headers;
    Duration delay;
    String dedupId;

    private Message(String topic, String payload) {
        this.topic = topic;
        this.payload = payload;
    }

    /** The payload is JSON text. */
    public static Message of(String topic, String payload) {
        return new Message(topic, payload);
    }

    /** Messages of a topic with the same key are given out in order. */
    public Message key(String key) {
        this.key = key;
        return this;
    }

    /** JSON text. */
    public Message headers(String headers) {
        this.headers = headers;
        return this;
    }

    /** Not given out before. */
    public Message delay(Duration delay) {
        this.delay = delay;
        return this;
    }

    /** A second publication of the topic with it publishes nothing. */
    public Message dedupId(String dedupId) {
        this.dedupId = dedupId;
        return this;
    }

    @Override
    public String toString() {
        return Description.of(this, "topic", topic, "payload", payload, "key", key, "headers", headers, "delay", delay,
            "dedupId", dedupId);
    }
}
