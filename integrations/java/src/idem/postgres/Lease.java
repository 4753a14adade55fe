package idem.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import javax.sql.DataSource;

/**
 * A key that is held under a lease. It is renewed every third of its length until the work ends. Safe for use by
 * several threads.
 */
public final class Lease {
    private final DataSource pool;
    private final String schema;
    private final String scope;
    private final String key;
    private final long fence;
    private final Heartbeat heartbeat;
    private boolean completed;

    /** @param granted System.nanoTime() before the claim */
    Lease(DataSource pool, String schema, String scope, String key, long fence, Duration length, long granted)
        throws SQLException {
        this.pool = pool;
        this.schema = schema;
        this.scope = scope;
        this.key = key;
        this.fence = fence;
        if (System.nanoTime() - granted > length.toNanos() / 3) { // the claim has waited for another holder
            granted = System.nanoTime();
            Transaction.single(pool, connection -> on(connection).renew(key, fence, length));
        }
        heartbeat = new Heartbeat(pool, length, granted,
            connection -> on(connection).renew(key, fence, length) != null, () -> { });
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

    /** Long work asks from time to time and stops when it is true: another holder may be doing the work. */
    public boolean isLost() {
        return heartbeat.isLost();
    }

    /** The steps of the attempts so far, as {@link Ticket#steps()}. */
    public Map<String, String> steps() throws SQLException {
        return Transaction.single(pool, connection -> on(connection).lookup(key).map(KeyInfo::steps).orElse(Map.of()));
    }

    /** Notes, in a transaction of its own, that a step is about to be taken. True: this call changed it. */
    public boolean step(String name) throws SQLException {
        return step(name, null);
    }

    /** Notes, in a transaction of its own, that a step is done, with its output as JSON text. */
    public boolean step(String name, String output) throws SQLException {
        return Transaction.single(pool, connection -> on(connection).step(key, fence, name, output));
    }

    /**
     * Completes the key in a transaction of the caller's, so that its rows and the response commit together. Without
     * this call the flow completes the key after the work.
     *
     * @throws IdemException.StaleFence another holder has taken over: roll back
     */
    public void complete(Connection transaction, Answer answer) throws SQLException {
        Objects.requireNonNull(answer, "answer is required");
        end();
        on(transaction).complete(key, answer.response(), answer.statusCode(), fence);
        completed = true;
    }

    boolean isCompleted() {
        return completed;
    }

    /** No more renewals. */
    void end() {
        heartbeat.close();
    }

    /** Gives the key back undone. Its steps are kept. */
    void release() throws SQLException {
        end();
        Transaction.single(pool, connection -> {
            on(connection).release(key, fence);
            return null;
        });
    }

    private IdemFunctions on(Connection connection) {
        return new IdemFunctions(connection, schema, scope);
    }

    @Override
    public String toString() {
        return Description.of(this, "scope", scope, "key", key, "fence", fence);
    }
}
