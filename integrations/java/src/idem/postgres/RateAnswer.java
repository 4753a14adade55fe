package idem.postgres;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;

/** The answer of {@link IdemFunctions#allow}. */
public final class RateAnswer {
    private final boolean allowed;
    private final int remaining;
    private final Duration retryAfter;

    RateAnswer(ResultSet row) throws SQLException {
        allowed = row.getBoolean("allowed");
        remaining = row.getInt("remaining");
        Integer milliseconds = row.getObject("retry_after_ms", Integer.class);
        retryAfter = milliseconds == null ? null : Duration.ofMillis(milliseconds);
    }

    public boolean isAllowed() {
        return allowed;
    }

    /** Whole units that are left. */
    public int remaining() {
        return remaining;
    }

    /** Until there is room; null when allowed. */
    public Duration retryAfter() {
        return retryAfter;
    }

    @Override
    public String toString() {
        return Description.of(this, "allowed", allowed, "remaining", remaining, "retryAfter", retryAfter);
    }
}
