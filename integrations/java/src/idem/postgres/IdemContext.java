package idem.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.Optional;

/**
 * What a handler gets with its request. For use by the thread that runs the handler, until it returns.
 *
 * <p>In transactional mode {@link #connection()} is the transaction that holds the key. In leased mode no transaction
 * is open: the first call of {@link #connection()} begins the one in which the response will be stored, so that rows
 * and response commit together. Call it after the work outside the database.
 */
public final class IdemContext {
    private static final ThreadLocal<IdemContext> CURRENT = new ThreadLocal<>();

    private final HttpOptions<?> options;
    private final KeyedRequest request;
    private Transaction transaction; // null: not begun
    private Connection connection;
    private Lease lease;

    IdemContext(HttpOptions<?> options, KeyedRequest request, Transaction transaction) {
        this.options = options;
        this.request = request;
        this.transaction = transaction;
    }

    /** The context of the handler that this thread runs; null outside of a handler. */
    public static IdemContext current() {
        return CURRENT.get();
    }

    HttpReply run(HttpFlow.Handler handler) throws Exception {
        CURRENT.set(this);
        try {
            return handler.run(this);
        } finally {
            CURRENT.remove();
        }
    }

    void hold(Lease lease) {
        this.lease = lease;
    }

    /** The connection of the transaction that commits with the response. The handler cannot end or close it. */
    public Connection connection() throws SQLException {
        if (connection == null) connection = IdemDataSource.joined(transaction().connection);
        return connection;
    }

    /** idem's functions on {@link #connection()}, in the request's scope. */
    public IdemFunctions functions() throws SQLException {
        return functions(connection());
    }

    Transaction transaction() throws SQLException {
        if (transaction == null) transaction = Transaction.begin(options.pool);
        return transaction;
    }

    IdemFunctions functions(Connection connection) {
        return new IdemFunctions(connection, options.schema, request.scope);
    }

    public String scope() {
        return request.scope;
    }

    /** The header field as it came; null if the request has none. */
    public String key() {
        return request.key;
    }

    boolean isLeased() {
        return options.lease != null;
    }

    /** The lease, with its fence and the steps. Empty in transactional mode, and for a request without a key. */
    public Optional<Lease> lease() {
        return Optional.ofNullable(lease);
    }

    boolean hasTransaction() {
        return transaction != null;
    }

    /** Rolls back what was not committed, and ends the renewals. */
    void close() {
        if (lease != null) lease.end();
        if (transaction != null) transaction.close();
    }
}
