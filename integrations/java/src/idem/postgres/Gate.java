package idem.postgres;

/** What a step hands on to another system. */
public final class Gate {
    private final String key;
    private final long fence;
    private final Lease lease;

    Gate(String key, long fence, Lease lease) {
        this.key = key;
        this.fence = fence;
        this.lease = lease;
    }

    /** {@code scope/key/step}: unique among all clients, and the same in each attempt. */
    public String key() {
        return key;
    }

    /** It grows with each holder. */
    public long fence() {
        return fence;
    }

    /** As {@link Lease#isLost}. */
    public boolean isLost() {
        return lease.isLost();
    }

    @Override
    public String toString() {
        return Description.of(this, "key", key, "fence", fence);
    }
}
