package idem.postgres;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;

/**
 * One transaction on a connection of a pool. Closing it rolls back what was not committed, and gives the connection
 * back.
 */
final class Transaction implements AutoCloseable {
    private static final Logger LOGGER = System.getLogger("idem.postgres");

    /** Pauses in milliseconds before each look for what a lost COMMIT has done: 0, 200 and 1000 after the loss. */
    static final long[] LOOKS = {0, 200, 800};

    interface Call<T> {
        T on(Connection connection) throws SQLException;
    }

    final Connection connection;
    private final boolean autoCommit; // as the pool has it
    private IdemDataSource.Shared shared; // null: nothing has joined the transaction
    private boolean open = true;
    private boolean committing;
    private boolean committed;
    private boolean closed;

    private Transaction(Connection connection) throws SQLException {
        this.connection = connection;
        autoCommit = connection.getAutoCommit();
        connection.setAutoCommit(false);
    }

    static Transaction begin(DataSource pool) throws SQLException {
        Connection connection = IdemDataSource.unwrap(pool).getConnection();
        try {
            return new Transaction(connection);
        } catch (SQLException error) {
            connection.close();
            throw error;
        }
    }

    /** One call that commits at once. */
    static <T> T single(DataSource pool, Call<T> call) throws SQLException {
        try (Transaction transaction = begin(pool)) {
            transaction.connection.setAutoCommit(true);
            transaction.open = false;
            return call.on(transaction.connection);
        }
    }

    /** A connection for the work, which can neither end nor close it, and which is dead when the transaction is over. */
    Connection joined() {
        if (shared == null) shared = new IdemDataSource.Shared(connection);
        return shared.join();
    }

    /** After an error the transaction may have committed, unless {@link SqlState#isDefinite}. */
    void commit() throws SQLException {
        end();
        committing = true;
        connection.commit();
        committed = true;
    }

    /** Whether the error is that of a COMMIT that may have succeeded. */
    boolean isUncertain(Throwable error) {
        return committing && !committed && error instanceof SQLException && !SqlState.isDefinite((SQLException) error);
    }

    /** The connection is lost, as far as the driver knows. */
    boolean isBroken() {
        try {
            return !closed && connection.isClosed();
        } catch (SQLException error) {
            return true;
        }
    }

    private void end() {
        open = false;
        if (shared != null) shared.end();
    }

    @Override
    public void close() {
        if (closed) return;
        closed = true;
        boolean rollback = open;
        end();
        try (connection) {
            if (rollback) connection.rollback();
            connection.setAutoCommit(autoCommit);
        } catch (SQLException error) { // the connection is broken, and the server has rolled back, or will
            LOGGER.log(Level.DEBUG, "could not roll back", error);
        }
    }
}
