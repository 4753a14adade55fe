package idem.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.UnaryOperator;

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
    private Connection connection;
    private boolean over;
    private final List<Runnable> afterCommit = new ArrayList<>();
    UnaryOperator<HttpReply> onOverflow;

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

    /**
     * The connection of the transaction that commits with the response. The handler cannot end or close it. After the
     * response each use of it throws an IllegalStateException.
     */
    public Connection connection() throws SQLException {
        if (connection == null) connection = join();
        return connection;
    }

    /** Another connection of the same transaction. */
    Connection join() throws SQLException {
        return transaction().joined();
    }

    /**
     * Runs after the COMMIT, on the same thread and before the response is sent; not if the transaction is rolled back.
     * What it throws is logged.
     */
    public void afterCommit(Runnable task) {
        afterCommit.add(Objects.requireNonNull(task));
    }

    /**
     * For middlewares: the handler's response is over {@link HttpOptions#maxResponse}. The key is completed without its
     * body, and committed. Returns the head, with idem's header fields, with which the middleware sends the body from now
     * on; or, if it is not {@link HttpReply#isOf} the given one, another reply to send instead.
     */
    public HttpReply overflow(HttpReply head) {
        return onOverflow.apply(head);
    }

    /** idem's functions on {@link #connection()}, in the request's scope. */
    public IdemFunctions functions() throws SQLException {
        return functions(connection());
    }

    Transaction transaction() throws SQLException {
        if (over)
            throw new IllegalStateException("the transaction is over: take a connection of your own for work after the response");
        if (transaction == null) transaction = Transaction.begin(options.pool);
        return transaction;
    }

    void commit() throws SQLException {
        transaction.commit();
        over = true;
        for (Runnable task : afterCommit) {
            try {
                task.run();
            } catch (RuntimeException error) {
                options.logger.log(System.Logger.Level.ERROR, "a task after the COMMIT failed", error);
            }
        }
    }

    /** The transaction had no rows of the handler's: the next call begins another one. */
    void forgetTransaction() {
        transaction.close();
        transaction = null;
    }

    boolean isBroken() {
        return transaction != null && transaction.isBroken();
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

    /** Rolls back what was not committed. */
    void close() {
        over = true;
        if (transaction != null) transaction.close();
    }
}
