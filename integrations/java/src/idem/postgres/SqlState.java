package idem.postgres;

import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;

/** What the SQLSTATE of an error says. */
final class SqlState {
    private SqlState() {}

    /** The SQLSTATE of the first SQLException in the chain of causes; "" if there is none. */
    static String of(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause())
            if (cause instanceof SQLException && ((SQLException) cause).getSQLState() != null)
                return ((SQLException) cause).getSQLState();
        return "";
    }

    /** A serialization failure or a deadlock: the same transaction may succeed when it is run again. */
    static boolean isRetryable(Throwable error) {
        String state = of(error);
        return state.equals("40001") || state.equals("40P01");
    }

    /** The server cannot be reached, is starting or stopping, or has no connection left; or the pool has none. */
    static boolean isUnavailable(Throwable error) {
        String state = of(error);
        return state.startsWith("08") || state.startsWith("57P0") || state.startsWith("53")
            || error instanceof SQLTransientConnectionException;
    }

    /** Whether the server itself rejected a COMMIT, so that the transaction is rolled back. */
    static boolean isDefinite(SQLException error) {
        String state = of(error);
        return !state.isEmpty() && !state.startsWith("08") && !state.startsWith("57P0");
    }
}
