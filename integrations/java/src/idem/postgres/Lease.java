package idem.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletionStage;
import javax.sql.DataSource;

/**
 * A key that is held under a lease, which is renewed until the work ends. Its steps are not repeated by a later
 * attempt. Safe for use by several threads, one step at a time.
 */
public final class Lease {
    /** Work on another system. Returns its output, JSON text; null stands for {@code {}}. */
    public interface Act {
        String run(Gate gate) throws Exception;
    }

    /** Asks the other system what became of a step that an earlier attempt intended. */
    public interface Reconcile {
        Fate run(Gate gate) throws Exception;
    }

    private final DataSource pool;
    private final String schema;
    private final String scope;
    private final String key;
    private final long fence;
    private final String owner; // null: none
    private final LeaseRunner runner;
    private Map<String, String> steps; // with the outputs; null: not read yet
    private Integer attempt; // null: not read yet
    private boolean kept; // what was done must not be repeated: the key is not released
    private boolean ended; // and held until then
    private boolean completed; // in a transaction of the work's own, which may be rolled back

    Lease(DataSource pool, String schema, String scope, String key, long fence, String owner, LeaseRunner runner) {
        this.pool = pool;
        this.schema = schema;
        this.scope = scope;
        this.key = key;
        this.fence = fence;
        this.owner = owner;
        this.runner = runner;
    }

    /**
     * The claim was granted; the ticket, if there is one, saves a look. Returns when the work may begin; false: the lease
     * is lost, and it must not.
     *
     * @param renewals the pool that renewals take their connections from
     */
    boolean begin(Ticket ticket, Duration length, DataSource renewals) throws InterruptedException {
        if (ticket != null) {
            steps = new LinkedHashMap<>(ticket.steps());
            attempt = ticket.attempt();
        }
        return runner.begin(
            () -> Transaction.single(renewals, connection -> functions(connection).renew(key, fence, length)) != null);
    }

    /** The key, as the functions take it. It is unique within its {@link #scope()}. */
    public String key() {
        return key;
    }

    public String scope() {
        return scope;
    }

    /** The number to hand on to other systems with each write. It grows with each holder. */
    public long fence() {
        return fence;
    }

    /** From 1. */
    public synchronized int attempt() throws SQLException {
        if (attempt == null) look();
        return attempt;
    }

    /** Long work asks from time to time and stops when it is true: another holder may be doing the work. */
    public boolean isLost() {
        return runner.isLost();
    }

    /** Completed when the lease is lost while the work runs, such as to cancel a request. */
    public CompletionStage<Void> lost() {
        return runner.lost();
    }

    /** The steps of the attempts so far, as {@link Ticket#steps()}. */
    public synchronized Map<String, String> steps() throws SQLException {
        if (steps == null) look();
        return Collections.unmodifiableMap(new LinkedHashMap<>(steps));
    }

    /** As below; a step that may have happened is taken again, with the same {@link Gate#key()}. */
    public String step(String name, Act act) throws Exception {
        return step(name, act, gate -> Fate.notDone());
    }

    /**
     * Takes a step, unless an attempt has: it is noted as intended, taken, and noted as done, each in a transaction of
     * its own. Returns its output, JSON text as jsonb prints it, from now on the same in each attempt.
     *
     * @throws FlowException.InDoubt reconcile does not know. The key is kept.
     * @throws FlowException.NotStored the act has run, and its output is no JSON or too large. The key is kept.
     * @throws FlowException.LeaseLost another holder may be doing the work. The act did not run, or its output is not
     *     stored.
     */
    public String step(String name, Act act, Reconcile reconcile) throws Exception {
        String known = steps().get(name);
        if (known != null) return known;
        Gate gate = new Gate(scope + "/" + key + "/" + name, fence, this);
        if (!fenced(idem -> idem.step(key, fence, name))) {
            known = look().get(name);
            if (known != null) return known;
            Fate fate = reconcile.run(gate);
            if (fate.kind == Fate.Kind.UNKNOWN) {
                kept = true;
                throw new FlowException.InDoubt(key, name);
            }
            if (fate.kind == Fate.Kind.DONE) return store(name, fate.output);
        }
        if (isLost()) throw lost(null);
        return store(name, act.run(gate));
    }

    /** Work on rows: they and its output, JSON text, commit together, once for all attempts. Returns the output. */
    public String write(String name, JdbcIdem.Work<String> work) throws Exception {
        String known = steps().get(name);
        if (known != null) return known;
        if (isLost()) throw lost(null);
        Transaction transaction = Transaction.begin(pool);
        try (transaction) {
            String output = orEmpty(work.run(functions(transaction.joined())));
            String stored = functions(transaction.connection).storeStep(key, fence, name, output);
            transaction.commit();
            return remember(name, stored);
        } catch (IdemException.StaleFence error) {
            runner.stale();
            throw lost(error);
        } catch (SQLException error) {
            if (!transaction.isUncertain(error)) throw error;
            kept = true;
            for (long pause : Transaction.LOOKS) {
                Thread.sleep(pause);
                try {
                    if ((known = look().get(name)) != null) return known;
                } catch (SQLException second) {
                    error.addSuppressed(second);
                }
            }
            throw new FlowException.CommitUnknown(key, error);
        }
    }

    /**
     * Completes the key in a transaction of the caller's, so that its rows and the response commit together. Without
     * this call the flow completes the key after the work. A rollback of that transaction is noticed when the work
     * returns: {@link FlowException.RolledBack}.
     *
     * @throws IdemException.StaleFence another holder has taken over: roll back
     */
    public void complete(Connection transaction, Answer answer) throws SQLException {
        Objects.requireNonNull(answer, "answer is required");
        functions(transaction).complete(key, Json.stored(answer.response()), answer.statusCode(), fence);
        runner.end(true);
        completed = true;
    }

    boolean isCompleted() {
        return completed;
    }

    /** The work has returned: the answer as it is stored. */
    Answer finish(Answer answer) throws FlowException, SQLException, InterruptedException {
        if (completed) {
            Answer found = stored(answer, null);
            if (found != null) return found;
            throw new FlowException.RolledBack(key);
        }
        if (!end()) throw lost(null);
        kept = true;
        SQLException unknown = null;
        for (Patience patience = new Patience(Duration.ofSeconds(10));;) {
            try {
                boolean isStored = call(idem -> idem.complete(key, Json.stored(answer.response()), answer.statusCode(), fence));
                return answer.stored(isStored);
            } catch (IdemException.StaleFence error) {
                Answer found = unknown == null ? null : stored(answer, unknown);
                if (found != null) return found;
                throw lost(error);
            } catch (SQLException error) {
                if (!SqlState.isPassing(error)) throw new FlowException.NotStored(key, null, error);
                unknown = error;
                if (!patience.pause(null)) throw new FlowException.CommitUnknown(key, error);
            }
        }
    }

    /** What an own completion has stored; null: nothing. */
    private Answer stored(Answer answer, SQLException cause) throws FlowException {
        try {
            Boolean omitted = call(idem -> idem.omittedOf(key, owner));
            return omitted == null ? null : answer.stored(!omitted);
        } catch (SQLException error) {
            if (cause != null) error.addSuppressed(cause);
            throw new FlowException.CommitUnknown(key, error);
        }
    }

    /** No more renewals. False: the lease has passed on, so that there is nothing to complete or to release. */
    boolean end() {
        ended |= runner.end(true) == LeaseMachine.Ask.COMPLETE;
        return ended;
    }

    /** The work threw: gives the key back undone, unless what was done must not be repeated. Its steps are kept. */
    void abandon(boolean keep, Throwable error) {
        boolean isHeld = runner.end(false) == LeaseMachine.Ask.RELEASE || ended || completed;
        if (isHeld && !keep && !kept) release(error);
    }

    /** An error of the release is noted in the other one: the lease runs out. */
    private void release(Throwable error) {
        try {
            call(idem -> idem.releaseSoon(key, fence));
        } catch (SQLException second) {
            error.addSuppressed(second);
        }
    }

    private String store(String name, String output) throws FlowException, InterruptedException {
        kept = true;
        for (Patience patience = new Patience(Duration.ofSeconds(5));;) {
            try {
                String stored = fenced(idem -> idem.storeStep(key, fence, name, orEmpty(output)));
                kept = false;
                return remember(name, stored);
            } catch (SQLException error) {
                if (!SqlState.isPassing(error) || !patience.pause(null)) throw new FlowException.NotStored(key, name, error);
            }
        }
    }

    private static String orEmpty(String output) {
        return output == null ? "{}" : output;
    }

    private synchronized String remember(String name, String output) {
        steps.put(name, output);
        return output;
    }

    private synchronized Map<String, String> look() throws SQLException {
        KeyInfo info = call(idem -> idem.lookup(key)).orElse(null);
        steps = info == null ? new LinkedHashMap<>() : new LinkedHashMap<>(info.steps());
        attempt = info == null ? 1 : info.attempt();
        return steps;
    }

    private interface Call<T> {
        T on(IdemFunctions idem) throws SQLException;
    }

    /** In a transaction of its own. */
    private <T> T call(Call<T> call) throws SQLException {
        return Transaction.single(pool, connection -> call.on(functions(connection)));
    }

    private <T> T fenced(Call<T> call) throws SQLException, FlowException {
        if (isLost()) throw lost(null);
        try {
            return call(call);
        } catch (IdemException.StaleFence error) {
            runner.stale();
            throw lost(error);
        }
    }

    private FlowException lost(Throwable cause) {
        return new FlowException.LeaseLost(key, cause);
    }

    private IdemFunctions functions(Connection connection) {
        return new IdemFunctions(connection, schema, scope);
    }

    @Override
    public String toString() {
        return Description.of(this, "scope", scope, "key", key, "fence", fence);
    }
}
