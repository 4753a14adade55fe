package idem.postgres;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** One call for each key at a time in this process. The others wait here, in the order of their calls, on no connection. */
final class Flight implements AutoCloseable {
    private static final class Runway {
        private final Semaphore turn = new Semaphore(1, true);
        private int users; // under the lock of RUNWAYS
    }

    private static final Map<List<Object>, Runway> RUNWAYS = new HashMap<>();

    private final List<Object> about;
    private final Runway runway;
    private boolean entered;

    private Flight(List<Object> about) {
        this.about = about;
        synchronized (RUNWAYS) {
            runway = RUNWAYS.computeIfAbsent(about, any -> new Runway());
            runway.users++;
        }
    }

    /** After the wait limit, without a turn: the database tells the caller who holds the key. */
    static Flight enter(Patience patience, Object... about) throws InterruptedException {
        Flight flight = new Flight(List.of(about));
        try {
            flight.entered = flight.runway.turn.tryAcquire(patience.left().toNanos(), TimeUnit.NANOSECONDS);
            return flight;
        } catch (InterruptedException error) {
            flight.close();
            throw error;
        }
    }

    @Override
    public void close() {
        if (entered) runway.turn.release();
        synchronized (RUNWAYS) {
            if (--runway.users == 0) RUNWAYS.remove(about);
        }
    }
}
