package idem.postgres;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import javax.sql.DataSource;

/** A lock that is held. It is renewed until it is closed, which unlocks it. */
public final class HeldLock implements AutoCloseable {
    private final DataSource pool;
    private final JdbcIdem idem;
    private final String name;
    private final long fence;
    private final LeaseRunner runner;

    HeldLock(DataSource pool, JdbcIdem idem, String name, long fence, LeaseRunner runner) {
        this.pool = pool;
        this.idem = idem;
        this.name = name;
        this.fence = fence;
        this.runner = runner;
    }

    /**
     * Returns when the work may begin; false: the lock has passed on, or its lease has ended.
     *
     * @param renewals the pool that renewals take their connections from
     */
    boolean begin(Duration lease, DataSource renewals, Runnable onLost) throws InterruptedException {
        runner.lost().thenRun(onLost);
        return runner.begin(
            () -> Transaction.single(renewals, connection -> idem.on(connection).lockRenew(name, fence, lease)));
    }

    /** The number to hand on to other systems with each write. It grows with each holder. */
    public long fence() {
        return fence;
    }

    /** Long work asks from time to time and stops when it is true: another holder may have the lock. */
    public boolean isLost() {
        return runner.isLost();
    }

    /** Keeps the lock until the caller's transaction ends; {@link IdemException.StaleFence} if it has passed on. */
    public void assertFence(Connection transaction) throws SQLException {
        idem.on(transaction).assertFence(name, fence);
    }

    /** Unlocks, unless the lock has passed on. */
    @Override
    public void close() throws SQLException {
        if (runner.end(true) == LeaseMachine.Ask.COMPLETE)
            Transaction.single(pool, connection -> idem.on(connection).unlock(name, fence));
    }

    @Override
    public String toString() {
        return Description.of(this, "name", name, "fence", fence);
    }
}
