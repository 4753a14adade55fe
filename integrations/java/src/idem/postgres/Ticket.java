package idem.postgres;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** The answer of {@link IdemFunctions#begin} and {@link IdemFunctions#execute}. jsonb is JSON text. */
public final class Ticket {
    private final Outcome outcome;
    private final Long fence;
    private final Integer attempt;
    private final Instant leaseUntil;
    private final Integer statusCode;
    private final String response;
    private final boolean responseOmitted;
    private final Duration retryAfter;
    private final Map<String, String> steps;

    /** With the columns of idem_ticket, and step_list as {@link #STEPS} selects it. */
    Ticket(ResultSet row) throws SQLException {
        outcome = Outcome.of(row.getString("outcome"));
        fence = row.getObject("fence", Long.class);
        attempt = row.getObject("attempt", Integer.class);
        leaseUntil = instant(row, "lease_until");
        statusCode = row.getObject("status_code", Integer.class);
        response = row.getString("response");
        responseOmitted = row.getBoolean("response_omitted");
        Integer milliseconds = row.getObject("retry_after_ms", Integer.class);
        retryAfter = milliseconds == null ? null : Duration.ofMillis(milliseconds);
        steps = steps(row);
    }

    /** The members of the column steps as {{name, output}, …}. */
    static final String STEPS = "ARRAY(SELECT ARRAY[s.key, nullif(s.value, 'null')::text]"
        + " FROM pg_catalog.jsonb_each(t.steps) s) AS step_list";

    static Map<String, String> steps(ResultSet row) throws SQLException {
        Map<String, String> steps = new LinkedHashMap<>();
        for (Object step : Sql.array(row, "step_list")) steps.put(((String[]) step)[0], Json.restored(((String[]) step)[1]));
        return Collections.unmodifiableMap(steps);
    }

    static Instant instant(ResultSet row, String column) throws SQLException {
        java.sql.Timestamp time = row.getTimestamp(column);
        return time == null ? null : time.toInstant();
    }

    public Outcome outcome() {
        return outcome;
    }

    /** Null without a lease. */
    public Long fence() {
        return fence;
    }

    /** From 1; null where it is not told. */
    public Integer attempt() {
        return attempt;
    }

    public Instant leaseUntil() {
        return leaseUntil;
    }

    public Integer statusCode() {
        return statusCode;
    }

    /** The stored response as JSON text, or null. */
    public String response() {
        return response;
    }

    /** The work is done, but its response was too large to be stored, or was removed. */
    public boolean responseOmitted() {
        return responseOmitted;
    }

    /** What is left of the other holder's lease; null if nobody can tell. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /**
     * The steps of the earlier attempts and their outputs as JSON text. An output that is null: intended, may have
     * happened.
     */
    public Map<String, String> steps() {
        return steps;
    }

    @Override
    public String toString() {
        return Description.of(this, "outcome", outcome, "fence", fence, "attempt", attempt, "leaseUntil", leaseUntil,
            "statusCode", statusCode, "response", response, "responseOmitted", responseOmitted,
            "retryAfter", retryAfter, "steps", steps);
    }
}
