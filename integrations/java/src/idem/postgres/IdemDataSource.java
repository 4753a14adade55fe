package idem.postgres;

import java.io.PrintWriter;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Savepoint;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Logger;
import javax.sql.DataSource;

/**
 * A pool for code that gets its connections from a {@link DataSource}, such as JdbcTemplate, {@code @Transactional}
 * methods and JPA. While a handler runs in transactional mode, its thread gets the transaction that holds the key;
 * otherwise a connection of the pool.
 *
 * <p>On such a connection {@code commit} keeps the work for the transaction that holds the key, and {@code rollback}
 * undoes it to where {@code setAutoCommit(false)} or the last {@code commit} was called (a savepoint). {@code close}
 * undoes what was not committed, as {@code rollback} does. Both also undo what other connections of the handler did
 * since that savepoint, because all of them are the same transaction; {@code close} does not when its connection has
 * created no statement since. Other threads get a connection of the pool, so the handler must not hand its work to
 * them. After the response each use of such a connection throws an IllegalStateException.
 */
public final class IdemDataSource implements DataSource {
    private final DataSource pool;

    public IdemDataSource(DataSource pool) {
        this.pool = pool;
    }

    static DataSource unwrap(DataSource pool) {
        return pool instanceof IdemDataSource ? ((IdemDataSource) pool).pool : pool;
    }

    @Override
    public Connection getConnection() throws SQLException {
        IdemContext context = IdemContext.current();
        return context == null || context.isLeased() ? pool.getConnection() : context.join();
    }

    /** The handler's transaction, for all connections that join it. */
    static final class Shared {
        private final Connection connection;
        private volatile boolean over;
        private final List<Joined> begun = new ArrayList<>(); // in the order of their savepoints
        private Joined user; // the last one that created a statement, began, committed or rolled back

        Shared(Connection connection) {
            this.connection = connection;
        }

        /** The transaction is over: its connection may be another request's by now. */
        void end() {
            over = true;
        }

        /** A connection that the handler can use, but neither end nor close. */
        Connection join() {
            return (Connection) Proxy.newProxyInstance(IdemDataSource.class.getClassLoader(),
                new Class<?>[] {Connection.class}, new Joined(this));
        }
    }

    private static final class Joined implements InvocationHandler {
        private final Shared shared;
        private final Connection connection;
        private Savepoint begin; // null: autocommit, as far as the caller knows
        private boolean used; // a statement was created since begin

        Joined(Shared shared) {
            this.shared = shared;
            connection = shared.connection;
        }

        @Override
        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            if (shared.over) return invokeOver(proxy, method, arguments);
            switch (method.getName()) {
            case "close": // the handler's transaction goes on
                if (begin != null && isUncommitted()) undo();
                end();
                return null;
            case "setReadOnly": return null;
            case "getAutoCommit": return begin == null;
            case "setAutoCommit":
                if (arguments[0].equals(begin == null)) return null;
                if (begin == null) begin();
                else end();
                return null;
            case "commit":
                requireBegin();
                begin();
                return null;
            case "rollback":
                if (arguments == null) {
                    requireBegin();
                    undo();
                    return null;
                }
                break;
            case "createStatement":
            case "prepareStatement":
            case "prepareCall":
            case "unwrap":
                used = true;
                shared.user = this;
                break;
            case "equals": return proxy == arguments[0];
            case "hashCode": return System.identityHashCode(proxy);
            default: break;
            }
            try {
                return method.invoke(connection, arguments);
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
        }

        private static Object invokeOver(Object proxy, Method method, Object[] arguments) {
            switch (method.getName()) {
            case "close": return null;
            case "isClosed": return true;
            case "equals": return proxy == arguments[0];
            case "hashCode": return System.identityHashCode(proxy);
            case "toString": return "a connection whose transaction is over";
            default:
                throw new IllegalStateException("the transaction is over: take a connection of your own for work after the"
                    + " response");
            }
        }

        private void begin() throws SQLException {
            begin = connection.setSavepoint();
            shared.begun.remove(this);
            shared.begun.add(this);
            markUnused();
        }

        private void end() {
            begin = null;
            shared.begun.remove(this);
        }

        /** The rollback takes the later savepoints away, so their connections go on from this one. */
        private void undo() throws SQLException {
            connection.rollback(begin);
            for (Joined later : shared.begun.subList(shared.begun.indexOf(this), shared.begun.size())) later.begin = begin;
            markUnused();
        }

        private void markUnused() {
            used = false;
            shared.user = this;
        }

        /**
         * Whether this connection may have worked since begin. A statement of before may have been executed again, unless
         * another connection has worked since. The transaction may be over, and its connection with it.
         */
        private boolean isUncommitted() throws SQLException {
            return (used || shared.user == this) && !connection.isClosed();
        }

        private void requireBegin() throws SQLException {
            if (begin == null)
                throw new SQLException("the transaction that holds the key cannot be ended by the handler: call"
                    + " setAutoCommit(false) for a part that can be rolled back, or throw to roll back all", "25000");
        }
    }

    @Override
    public Connection getConnection(String user, String password) throws SQLException {
        throw new SQLFeatureNotSupportedException("a connection of another user is not in the handler's transaction");
    }

    @Override
    public PrintWriter getLogWriter() throws SQLException {
        return pool.getLogWriter();
    }

    @Override
    public void setLogWriter(PrintWriter out) throws SQLException {
        pool.setLogWriter(out);
    }

    @Override
    public void setLoginTimeout(int seconds) throws SQLException {
        pool.setLoginTimeout(seconds);
    }

    @Override
    public int getLoginTimeout() throws SQLException {
        return pool.getLoginTimeout();
    }

    @Override
    public Logger getParentLogger() throws SQLFeatureNotSupportedException {
        return pool.getParentLogger();
    }

    @Override
    public <T> T unwrap(Class<T> type) throws SQLException {
        return type.isInstance(pool) ? type.cast(pool) : pool.unwrap(type);
    }

    @Override
    public boolean isWrapperFor(Class<?> type) throws SQLException {
        return type.isInstance(pool) || pool.isWrapperFor(type);
    }
}
