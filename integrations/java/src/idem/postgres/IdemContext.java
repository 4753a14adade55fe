package idem.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.Objects;
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
    private final String key;
    private final Lease lease;
    private Transaction transaction; // null: not begun
    private IdemDataSource.Shared shared; // null: nothing has joined the transaction
    private Connection connection;

    IdemContext(HttpOptions<?> options, KeyedRequest request, String key, Transaction transaction, Lease lease) {
        this.options = options;
        this.request = request;
        this.key = key;
        this.transaction = transaction;
        this.lease = lease;
    }

    /** The context of the handler that this thread runs; null outside of a handler. */
    public static IdemContext current() {
        return CURRENT.get();
    }

    HttpReply run(HttpFlow.Handler handler) throws Exception {
        CURRENT.set(this);
        try {
            return Objects.requireNonNull(handler.run(this), "the handler returned no HttpReply");
        } finally {
            CURRENT.remove();
        }
    }

    /** The connection of the transaction that commits with the response. The handler cannot end or close it. */
    public Connection connection() throws SQLException {
        if (connection == null) connection = join();
        return connection;
    }

    /** Another connection of the same transaction. */
    Connection join() throws SQLException {
        if (shared == null) shared = new IdemDataSource.Shared(transaction().connection);
        return shared.join();
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

    /** The key, as the functions take it: both forms of the header field, quoted and bare, are one key. Null: none. */
    public String key() {
        return key;
    }

    /** The header field as it came; null: there is none. */
    public String header() {
        return request.header;
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
