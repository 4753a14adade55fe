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

    /** The server cannot be reached, is starting, stopping, full or a standby; or the pool has no connection. */
    static boolean isUnavailable(Throwable error) {
        String state = of(error);
        return state.startsWith("08") || state.startsWith("57P") || state.startsWith("53") || state.equals("25006")
            || error instanceof SQLTransientConnectionException;
    }

    /** The same call may succeed a little later: also after a wait for a lock, or a cancellation. */
    static boolean isPassing(SQLException error) {
        String state = of(error);
        return isRetryable(error) || isUnavailable(error) || state.equals("55P03") || state.equals("57014");
    }

    /** Whether the server itself rejected a COMMIT, so that the transaction is rolled back. */
    static boolean isDefinite(SQLException error) {
        String state = of(error);
        return !state.isEmpty() && !state.startsWith("08") && !state.startsWith("57P");
    }
}
