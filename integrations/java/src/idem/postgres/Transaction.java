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

    interface Call<T> {
        T on(Connection connection) throws SQLException;
    }

    final Connection connection;
    private final boolean autoCommit; // as the pool has it
    private boolean open = true;
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

    /** After an error the transaction may have committed, unless {@link SqlState#isDefinite}. */
    void commit() throws SQLException {
        open = false;
        connection.commit();
    }

    @Override
    public void close() {
        if (closed) return;
        closed = true;
        try (connection) {
            if (open) connection.rollback();
            connection.setAutoCommit(autoCommit);
        } catch (SQLException error) { // the connection is broken, and the server has rolled back, or will
            LOGGER.log(Level.DEBUG, "could not roll back", error);
        }
    }
}
