package idem.postgres;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** How long a caller waits for another holder: pauses with jitter, from 20 ms doubling to 250 ms, on no connection. */
final class Patience {
    private static final long FIRST = 20_000_000, LONGEST = 250_000_000; // nanoseconds

    private final long until;
    private long pause = FIRST;

    Patience(Duration wait) {
        until = System.nanoTime() + wait.toNanos();
    }

    /** Not negative. */
    Duration left() {
        return Duration.ofNanos(Math.max(0, until - System.nanoTime()));
    }

    /** Null for retryAfter: nobody can tell. False: the time is over, and this did not pause. */
    boolean pause(Duration retryAfter) throws InterruptedException {
        long left = left().toNanos();
        if (left == 0) return false;
        long jittered = pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2 + 1);
        if (retryAfter != null) jittered = Math.min(jittered, Math.max(retryAfter.toNanos(), 1_000_000));
        pause = Math.min(2 * pause, LONGEST);
        java.util.concurrent.TimeUnit.NANOSECONDS.sleep(Math.min(jittered, left));
        return true;
    }
}
