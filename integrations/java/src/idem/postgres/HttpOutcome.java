package idem.postgres;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Locale;

/** What became of one request: for metrics. */
public final class HttpOutcome {
    private final KeyedRequest request;
    private final String key;
    private final HttpAnswer.Action action;
    private final HttpReply reply; // null: the handler threw
    private final Duration duration;
    private final Long fence;
    private final Integer attempt;

    HttpOutcome(KeyedRequest request, String key, HttpAnswer.Action action, HttpReply reply, Duration duration, Long fence,
        Integer attempt) {
        this.request = request;
        this.key = key;
        this.action = action;
        this.reply = reply;
        this.duration = duration;
        this.fence = fence;
        this.attempt = attempt;
    }

    public String scope() {
        return request.scope;
    }

    /** As {@link IdemContext#key()}. Null: the request has none, it is malformed, or the database was not reached. */
    public String key() {
        return key;
    }

    /** For telemetry, which must not show keys: SHA-256 in hexadecimal digits. Null: as key. */
    public String keyHash() {
        return key == null ? null : Digest.hexadecimal(key.getBytes(StandardCharsets.UTF_8));
    }

    /** run, replay, or what kind of error it was, such as in_flight or unavailable; threw: the handler's exception. */
    public String outcome() {
        if (reply == null) return "threw";
        return reply.code() == null ? action.name().toLowerCase(Locale.ROOT) : reply.code();
    }

    public boolean isReplayed() {
        return action == HttpAnswer.Action.REPLAY;
    }

    /** The header field as it came; null: there is none. */
    public String header() {
        return request.header;
    }

    public String method() {
        return request.method;
    }

    public String route() {
        return request.route;
    }

    /** Run: the handler ran. Reject: the answer is an error, of idem's or the middleware's. */
    public HttpAnswer.Action action() {
        return action;
    }

    /** Of the answer; 500 if the handler threw. */
    public int status() {
        return reply == null ? 500 : reply.status();
    }

    /** From the beginning of the transaction to its end. */
    public Duration duration() {
        return duration;
    }

    /** Leased mode only; else null. */
    public Long fence() {
        return fence;
    }

    /** The number of this attempt at the key, from 1. Leased mode only, and where {@link HttpOptions#onOutcome} is given; else null. */
    public Integer attempt() {
        return attempt;
    }

    @Override
    public String toString() {
        return Description.of(this, "scope", request.scope, "key", key, "header", request.header,
            "method", request.method, "route", request.route, "action", action, "status", status(), "duration", duration,
            "fence", fence, "attempt", attempt);
    }
}
