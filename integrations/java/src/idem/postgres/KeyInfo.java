package idem.postgres;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Instant;
import java.util.Map;

/** A key as {@link IdemFunctions#lookup} shows it. jsonb is JSON text. */
public final class KeyInfo {
    private final String state;
    private final Integer statusCode;
    private final String response;
    private final boolean responseOmitted;
    private final int attempt;
    private final Instant createdAt;
    private final Instant expiresAt;
    private final Instant leaseUntil;
    private final Map<String, String> steps;

    KeyInfo(ResultSet row) throws SQLException {
        state = row.getString("state");
        statusCode = row.getObject("status_code", Integer.class);
        response = row.getString("response");
        responseOmitted = row.getBoolean("response_omitted");
        attempt = row.getInt("attempt");
        createdAt = Ticket.instant(row, "created_at");
        expiresAt = Ticket.instant(row, "expires_at");
        leaseUntil = Ticket.instant(row, "lease_until");
        steps = Ticket.steps(row);
    }

    /** in_progress, completed, released or in_doubt. */
    public String state() {
        return state;
    }

    public Integer statusCode() {
        return statusCode;
    }

    /** The stored response as JSON text, or null. */
    public String response() {
        return response;
    }

    public boolean responseOmitted() {
        return responseOmitted;
    }

    public int attempt() {
        return attempt;
    }

    public Instant createdAt() {
        return createdAt;
    }

    /** When the retention ends; hundreds of millions of years ahead: never. */
    public Instant expiresAt() {
        return expiresAt;
    }

    /** Null in transactional mode. */
    public Instant leaseUntil() {
        return leaseUntil;
    }

    /** As {@link Ticket#steps()}. */
    public Map<String, String> steps() {
        return steps;
    }

    @Override
    public String toString() {
        return Description.of(this, "state", state, "statusCode", statusCode, "response", response,
            "responseOmitted", responseOmitted, "attempt", attempt, "createdAt", createdAt, "expiresAt", expiresAt,
            "leaseUntil", leaseUntil, "steps", steps);
    }
}
