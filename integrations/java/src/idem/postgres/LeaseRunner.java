package idem.postgres;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * A {@link LeaseMachine} with a clock and threads. One thread watches all leases; it neither waits for a database nor
 * runs code of an application. Each renewal has a thread of its own while it lasts, so that one that hangs delays
 * neither the watcher nor the renewals of other leases. Safe for use by several threads.
 */
final class LeaseRunner {
    /** False, or {@link IdemException.StaleFence}: the lease has passed on. */
    interface Renewal {
        boolean renew() throws SQLException;
    }

    private static final Logger LOGGER = System.getLogger("idem.postgres");
    private static final ScheduledThreadPoolExecutor WATCHER = new ScheduledThreadPoolExecutor(1, threads("idem-lease-watcher"));
    private static final Executor RENEWERS = Executors.newCachedThreadPool(threads("idem-lease-renewer"));

    static {
        WATCHER.setRemoveOnCancelPolicy(true);
    }

    private static ThreadFactory threads(String name) {
        return task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        };
    }

    private final LeaseMachine machine;
    private final long origin = System.nanoTime();
    private final CompletableFuture<Boolean> begun = new CompletableFuture<>(); // false: lost before the work
    private final CompletableFuture<Void> lost = new CompletableFuture<>();
    private boolean isClaiming;
    private Renewal renewal;
    private Future<?> watch;

    LeaseRunner(Duration lease) {
        machine = new LeaseMachine(lease.toNanos());
    }

    /**
     * The claim is about to be sent, on a connection that is there: the wait for one is not a part of the lease. A second
     * call is that of a repeated claim, whose first one may have been granted.
     */
    void claiming() {
        if (isClaiming) return;
        isClaiming = true;
        machine.claim(now());
    }

    /** The claim was granted. Returns when the work may begin; false: the lease is lost, and it must not. */
    boolean begin(Renewal renewal) throws InterruptedException {
        this.renewal = renewal;
        synchronized (this) {
            follow(machine.acquired(now()));
        }
        try {
            return begun.get();
        } catch (InterruptedException error) {
            end(false);
            throw error;
        } catch (java.util.concurrent.ExecutionException error) {
            throw new AssertionError(error);
        }
    }

    /** Completed, on a thread of this class, when the lease is lost while the work runs. */
    CompletableFuture<Void> lost() {
        return lost.copy();
    }

    /** True: somebody else may hold the lease by now. Exact, even when the watcher is late. */
    synchronized boolean isLost() {
        follow(machine.tick(now()));
        return machine.isLost();
    }

    /** A fenced call of the work was refused. */
    synchronized void stale() {
        follow(machine.stale(now()));
    }

    /**
     * The work has ended, and there are no more renewals. COMPLETE or RELEASE; NOTHING: the lease has passed on, or this
     * was called before.
     */
    synchronized LeaseMachine.Ask end(boolean returned) {
        LeaseMachine.Ask ask = returned ? machine.returned(now()) : machine.threw(now());
        schedule();
        return ask;
    }

    private long now() {
        return System.nanoTime() - origin;
    }

    private void follow(LeaseMachine.Ask ask) {
        switch (ask) {
        case RENEW: RENEWERS.execute(this::renew); break;
        case WORK: begun.complete(true); break;
        case LOST_EXPIRED:
        case LOST_STALE:
            if (!begun.complete(false)) RENEWERS.execute(() -> lost.complete(null));
            break;
        default: break;
        }
        schedule();
    }

    private void schedule() {
        if (watch != null) watch.cancel(false);
        watch = machine.due() == LeaseMachine.NEVER ? null
            : WATCHER.schedule(this::isLost, machine.due() - now(), TimeUnit.NANOSECONDS);
    }

    private void renew() {
        boolean held;
        try {
            held = renewal.renew();
        } catch (IdemException.StaleFence error) {
            held = false;
        } catch (SQLException | RuntimeException error) {
            LOGGER.log(Level.WARNING, "could not renew a lease", error);
            synchronized (this) {
                machine.failed(now());
                schedule();
            }
            return;
        }
        synchronized (this) {
            follow(held ? machine.renewed(now()) : machine.stale(now()));
        }
    }
}
