package idem.postgres;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;

/** Renews one lease every third of its length, each time on a connection of the pool. */
final class Heartbeat implements AutoCloseable {
    private static final Logger LOGGER = System.getLogger("idem.postgres");
    private static final ScheduledThreadPoolExecutor THREADS = new ScheduledThreadPoolExecutor(2, task -> {
        Thread thread = new Thread(task, "idem-heartbeat");
        thread.setDaemon(true);
        return thread;
    });

    static {
        THREADS.setRemoveOnCancelPolicy(true);
    }

    private final DataSource pool;
    private final Transaction.Call<Boolean> renewal;
    private final long length; // of the lease, in nanoseconds
    private final Runnable onLost;
    private final ScheduledFuture<?> beats;
    private long validUntil; // by System.nanoTime
    private boolean ended;
    private boolean lost;

    /**
     * @param renewal false, or {@link IdemException.StaleFence}: the lease has passed on
     * @param granted System.nanoTime() before the lease was asked for
     * @param onLost runs once, on the thread that finds out, when the lease has passed on or was not renewed in time
     */
    Heartbeat(DataSource pool, Duration lease, long granted, Transaction.Call<Boolean> renewal, Runnable onLost) {
        this.pool = pool;
        this.renewal = renewal;
        this.onLost = onLost;
        length = lease.toNanos();
        validUntil = granted + length;
        beats = THREADS.scheduleWithFixedDelay(this::beat, length / 3, length / 3, TimeUnit.NANOSECONDS);
    }

    /** True: somebody else may hold the lease by now. */
    boolean isLost() {
        synchronized (this) {
            if (!lost && System.nanoTime() - validUntil < 0) return false;
        }
        lose();
        return true;
    }

    private void beat() {
        long now = System.nanoTime();
        try {
            if (Transaction.single(pool, renewal)) prolong(now + length);
            else lose();
        } catch (IdemException.StaleFence error) {
            lose();
        } catch (SQLException | RuntimeException error) { // the next beat tries again
            LOGGER.log(Level.WARNING, "could not renew a lease", error);
            isLost();
        }
    }

    private synchronized void prolong(long until) {
        validUntil = until;
    }

    private void lose() {
        synchronized (this) {
            if (ended || lost) return;
            lost = true;
        }
        beats.cancel(false);
        onLost.run();
    }

    /** The lease is not renewed any more. */
    @Override
    public void close() {
        synchronized (this) {
            ended = true;
        }
        beats.cancel(false);
    }
}
