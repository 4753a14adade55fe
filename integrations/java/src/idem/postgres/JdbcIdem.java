package idem.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;
import javax.sql.DataSource;

/**
 * Flows on a pool: work that is done once, work under a lease, locks that are renewed. {@link #on} has the single
 * functions.
 *
 * <p>One caller for each key at a time asks the database; the others of this process wait for it without a connection.
 * With a lease, that caller also waits without one. Safe for use by several threads.
 */
public final class JdbcIdem {
    /** Work in a transaction, whose connection is dead afterwards. What it throws rolls back and is thrown to the caller. */
    public interface Work<T> {
        T run(IdemFunctions idem) throws Exception;
    }

    /** Work outside of a transaction. What it throws releases the key, and is thrown to the caller. */
    public interface LeasedWork {
        Answer run(Lease lease) throws Exception;
    }

    private static final int ATTEMPTS = 4;
    private static final Duration WAIT = Duration.ofSeconds(10), LEASE = Duration.ofSeconds(30);

    private final DataSource pool;
    private final DataSource renewals;
    private final String schema;
    private final String scope;

    /** With the extension in the schema idem, and in the scope ''. */
    public JdbcIdem(DataSource pool) {
        this(pool, "idem", "");
    }

    public JdbcIdem(DataSource pool, String schema, String scope) {
        this(pool, pool, schema, scope);
    }

    private JdbcIdem(DataSource pool, DataSource renewals, String schema, String scope) {
        this.pool = IdemDataSource.unwrap(Objects.requireNonNull(pool));
        this.renewals = Objects.requireNonNull(renewals);
        this.schema = Objects.requireNonNull(schema);
        this.scope = Objects.requireNonNull(scope);
    }

    /** The same pool and schema, in another scope. */
    public JdbcIdem inScope(String scope) {
        return new JdbcIdem(pool, renewals, schema, scope);
    }

    /**
     * The same, with leases and locks that are renewed on connections of another pool. One connection is enough. Work
     * that exhausts the first pool then loses no lease.
     */
    public JdbcIdem renewingOn(DataSource renewals) {
        return new JdbcIdem(pool, renewals, schema, scope);
    }

    /** The functions on a connection of the caller's, in its transaction. */
    public IdemFunctions on(Connection connection) {
        return new IdemFunctions(connection, schema, scope);
    }

    /** Runs the work in a transaction and commits it. */
    public <T> T transaction(Work<T> work) throws Exception {
        try (Transaction transaction = Transaction.begin(pool)) {
            T result = work.run(on(transaction.joined()));
            transaction.commit();
            return result;
        }
    }

    /**
     * Does the work if its key is new; claim, work and answer commit together. Otherwise returns the stored answer. The
     * work runs again, up to four times, after a serialization failure, a deadlock, or a connection that is lost outside
     * of it.
     *
     * @throws FlowException the key is in flight, in doubt, or of another request; or nobody knows what COMMIT did
     * @throws NullPointerException the work returned null instead of an {@link Answer}. Everything is rolled back.
     */
    public Answer once(Claim claim, Work<Answer> work) throws Exception {
        if (claim.lease != null) throw new IllegalArgumentException("once() takes no lease; leased() does");
        Patience patience = patience(claim.wait);
        try (Flight flight = Flight.enter(patience, pool, schema, "key", scope, claim.key)) {
            Exception lost = null; // of a COMMIT that may have succeeded: the next claim tells
            for (int attempt = 1;; attempt++) {
                Transaction transaction = null;
                boolean[] inWork = {false};
                try (Transaction opened = transaction = Transaction.begin(pool)) {
                    return once(opened, claim, work, inWork);
                } catch (Exception error) {
                    // What another process holds is asked again and again, so that no waiter keeps a connection.
                    boolean isBusy = error instanceof FlowException.InFlight && !inWork[0];
                    if (isBusy && patience.pause(((FlowException.InFlight) error).retryAfter())) {
                        attempt--;
                        continue;
                    }
                    if (transaction != null && transaction.isUncertain(error)) lost = error;
                    else if (lost == null || inWork[0]) lost = null;
                    boolean passes = error == lost || SqlState.isRetryable(error) || !inWork[0] && SqlState.isUnavailable(error);
                    if (!passes && !(lost != null && error instanceof FlowException.InFlight) || attempt == ATTEMPTS)
                        throw lost == null ? error : new FlowException.CommitUnknown(claim.key, lost);
                }
                Thread.sleep(100L * attempt);
            }
        }
    }

    private Answer once(Transaction transaction, Claim claim, Work<Answer> work, boolean[] inWork) throws Exception {
        IdemFunctions idem = on(transaction.connection);
        Ticket ticket = idem.begin(claim, null, claim.owner, null);
        if (ticket.outcome() == Outcome.IN_DOUBT) transaction.commit(); // records the doubt
        if (!ticket.outcome().isHeld()) return replay(claim, ticket);
        inWork[0] = true;
        Answer answer = required(work.run(on(transaction.joined())));
        inWork[0] = false;
        boolean isStored = idem.complete(claim.key, Json.stored(answer.response()), answer.statusCode());
        transaction.commit();
        return answer.stored(isStored);
    }

    /**
     * As once, for work outside the database: the claim is committed first, and renewed while the work runs. An exception
     * of the work releases the key, unless {@link Claim#keepOnError} says otherwise, or a step cannot be repeated.
     *
     * @throws FlowException as once; the lease was lost; the answer cannot be stored; or it was stored in a transaction
     *     that did not commit
     */
    public Answer leased(Claim claim, LeasedWork work) throws Exception {
        Patience patience = patience(claim.wait);
        try (Flight flight = Flight.enter(patience, pool, schema, "key", scope, claim.key)) {
            Duration length = claim.lease == null ? LEASE : claim.lease;
            String owner = claim.owner == null ? UUID.randomUUID().toString() : claim.owner;
            for (;;) {
                LeaseRunner runner = new LeaseRunner(length);
                Ticket ticket = repeated(runner, idem -> idem.begin(claim, length, owner, null));
                if (ticket.outcome().isHeld()) {
                    Lease lease = new Lease(pool, schema, scope, claim.key, ticket.fence(), owner, runner);
                    if (lease.begin(ticket, length, renewals)) return run(lease, claim, work);
                    if (!patience.pause(null)) throw new FlowException.LeaseLost(claim.key, null);
                } else if (ticket.outcome() != Outcome.IN_FLIGHT || !patience.pause(ticket.retryAfter())) {
                    return replay(claim, ticket);
                }
            }
        }
    }

    private static Answer run(Lease lease, Claim claim, LeasedWork work) throws Exception {
        try {
            Answer answer = work.run(lease);
            return lease.finish(lease.isCompleted() && answer == null ? Answer.of(null, null) : required(answer));
        } catch (Throwable error) {
            lease.abandon(claim.keepOnError, error);
            throw error;
        }
    }

    /** As {@link #lock(String, Duration, Duration, Runnable)}, without waiting for another holder. */
    public Optional<HeldLock> lock(String name, Duration lease, Runnable onLost) throws SQLException, InterruptedException {
        return lock(name, lease, null, onLost);
    }

    /**
     * Acquires a lock and renews it until it is closed. Empty: another holder has it.
     *
     * @param wait how long to wait for another holder; null: not at all
     * @param onLost runs once, on another thread, when the lock has passed on or could not be renewed in time
     */
    public Optional<HeldLock> lock(String name, Duration lease, Duration wait, Runnable onLost)
        throws SQLException, InterruptedException {
        Objects.requireNonNull(onLost, "onLost is required");
        Patience patience = new Patience(wait == null ? Duration.ZERO : wait);
        String owner = UUID.randomUUID().toString();
        try (Flight flight = Flight.enter(patience, pool, schema, "lock", scope, name)) {
            do {
                LeaseRunner runner = new LeaseRunner(lease);
                OptionalLong fence = repeated(runner, idem -> idem.lock(name, lease, owner, null));
                if (fence.isEmpty()) continue;
                HeldLock lock = new HeldLock(pool, this, name, fence.getAsLong(), runner);
                if (lock.begin(lease, renewals, onLost)) return Optional.of(lock);
            } while (patience.pause(null));
            return Optional.empty();
        }
    }

    private interface Call<T> {
        T on(IdemFunctions idem) throws SQLException;
    }

    /** A claim in a transaction of its own. The same owner gets the same claim again when its answer was lost. */
    private <T> T repeated(LeaseRunner runner, Call<T> call) throws SQLException, InterruptedException {
        for (int attempt = 1;; attempt++) {
            try {
                return Transaction.single(pool, connection -> {
                    runner.claiming();
                    return call.on(on(connection));
                });
            } catch (SQLException error) {
                if (attempt == ATTEMPTS || !SqlState.isPassing(error)) throw error;
                Thread.sleep(50L * attempt);
            }
        }
    }

    private static Patience patience(Duration wait) {
        return new Patience(wait == null ? WAIT : wait);
    }

    private static Answer required(Answer answer) {
        return Objects.requireNonNull(answer,
            "the work returned null: return an Answer, or Answer.of(null, null) to store none");
    }

    private static Answer replay(Claim claim, Ticket ticket) throws FlowException {
        switch (ticket.outcome()) {
        case COMPLETED: return Answer.replayOf(ticket);
        case MISMATCH: throw new FlowException.Mismatch(claim.key);
        case IN_DOUBT: throw new FlowException.InDoubt(claim.key, null);
        default: throw new FlowException.InFlight(claim.key, ticket.retryAfter());
        }
    }
}
