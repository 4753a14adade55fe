package idem.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import javax.sql.DataSource;

/**
 * Flows on a pool: work that is done once, work under a lease, locks with a heartbeat. {@link #on} has the single
 * functions.
 *
 * <p>A flow whose connection is lost throws, and may have committed. Call it again: the key tells. Safe for use by
 * several threads.
 */
public final class JdbcIdem {
    /** Work in a transaction. What it throws rolls back, frees the key, and is thrown to the caller. */
    public interface Work<T> {
        T run(IdemFunctions idem) throws Exception;
    }

    /** Work outside of a transaction. What it throws releases the key, and is thrown to the caller. */
    public interface LeasedWork {
        Answer run(Lease lease) throws Exception;
    }

    private final DataSource pool;
    private final String schema;
    private final String scope;

    /** With the extension in the schema idem, and in the scope ''. */
    public JdbcIdem(DataSource pool) {
        this(pool, "idem", "");
    }

    public JdbcIdem(DataSource pool, String schema, String scope) {
        this.pool = Objects.requireNonNull(pool);
        this.schema = Objects.requireNonNull(schema);
        this.scope = Objects.requireNonNull(scope);
    }

    /** The same pool and schema, in another scope. */
    public JdbcIdem inScope(String scope) {
        return new JdbcIdem(pool, schema, scope);
    }

    /** The functions on a connection of the caller's, in its transaction. */
    public IdemFunctions on(Connection connection) {
        return new IdemFunctions(connection, schema, scope);
    }

    /** Runs the work in a transaction and commits it. */
    public <T> T transaction(Work<T> work) throws Exception {
        try (Transaction transaction = Transaction.begin(pool)) {
            T result = work.run(on(transaction.connection));
            transaction.commit();
            return result;
        }
    }

    /**
     * Does the work if its key is new; claim, work and answer commit together. Otherwise returns the stored answer.
     *
     * @throws NullPointerException the work returned null instead of an {@link Answer}. Everything is rolled back.
     */
    public Answer once(Claim claim, Work<Answer> work) throws Exception {
        if (claim.lease != null) throw new IllegalArgumentException("once() takes no lease; leased() does");
        return transaction(idem -> {
            Ticket ticket = idem.begin(claim);
            if (!ticket.outcome().isHeld()) return replay(claim, ticket);
            Answer answer = required(work.run(idem));
            idem.complete(claim.key, answer.response(), answer.statusCode());
            return answer;
        });
    }

    /**
     * As once, for work outside the database: the claim, which needs a lease, is committed first, and renewed while
     * the work runs.
     *
     * @throws IdemException.StaleFence the lease was lost, and another holder has taken over
     */
    public Answer leased(Claim claim, LeasedWork work) throws Exception {
        if (claim.lease == null) throw new IllegalArgumentException("leased() needs a lease");
        long granted = System.nanoTime();
        Ticket ticket = call(idem -> idem.begin(claim));
        if (!ticket.outcome().isHeld()) return replay(claim, ticket);
        Lease lease = new Lease(pool, schema, scope, claim.key, ticket.fence(), claim.lease, granted);
        Answer answer;
        try {
            answer = work.run(lease);
            if (!lease.isCompleted()) required(answer);
        } catch (Throwable error) {
            release(lease, error);
            throw error;
        }
        lease.end();
        if (!lease.isCompleted()) call(idem -> idem.complete(claim.key, answer.response(), answer.statusCode(), lease.fence()));
        return answer;
    }

    /** As {@link #lock(String, Duration, Duration, Runnable)}, without waiting for another holder. */
    public Optional<HeldLock> lock(String name, Duration lease, Runnable onLost) throws SQLException {
        return lock(name, lease, null, onLost);
    }

    /**
     * Acquires a lock and renews it until it is closed. Empty: another holder has it.
     *
     * @param wait how long to wait for another holder; null: not at all
     * @param onLost runs once, on another thread, when the lock has passed on or could not be renewed in time
     */
    public Optional<HeldLock> lock(String name, Duration lease, Duration wait, Runnable onLost) throws SQLException {
        Objects.requireNonNull(onLost, "onLost is required");
        long granted = System.nanoTime();
        OptionalLong fence = call(idem -> idem.lock(name, lease, null, wait));
        if (fence.isEmpty()) return Optional.empty();
        if (wait != null) { // the lease began at some time within the wait
            granted = System.nanoTime();
            call(idem -> idem.lockRenew(name, fence.getAsLong(), lease));
        }
        return Optional.of(new HeldLock(pool, this, name, fence.getAsLong(), lease, granted, onLost));
    }

    private interface Call<T> {
        T on(IdemFunctions idem) throws SQLException;
    }

    /** A transaction of its own. */
    private <T> T call(Call<T> call) throws SQLException {
        return Transaction.single(pool, connection -> call.on(on(connection)));
    }

    private static Answer required(Answer answer) {
        return Objects.requireNonNull(answer,
            "the work returned null: return an Answer, or Answer.of(null, null) to store none");
    }

    private static Answer replay(Claim claim, Ticket ticket) throws NotAcquiredException {
        if (ticket.outcome() != Outcome.COMPLETED) throw new NotAcquiredException(claim.key, ticket);
        return Answer.replayOf(ticket);
    }

    private static void release(Lease lease, Throwable error) {
        if (lease.isCompleted()) {
            lease.end();
            return;
        }
        try {
            lease.release();
        } catch (SQLException second) { // the lease runs out
            error.addSuppressed(second);
        }
    }
}
