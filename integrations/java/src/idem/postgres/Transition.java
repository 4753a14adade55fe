package idem.postgres;

/** What became of {@link IdemFunctions#transition}: docs/machines.md. */
public final class Transition {
    public enum Outcome { MOVED, ALREADY, CONFLICT, NOT_ALLOWED, NOT_FOUND }

    private final Outcome outcome;
    private final String state;

    Transition(Outcome outcome, String state) {
        this.outcome = outcome;
        this.state = state;
    }

    public Outcome outcome() {
        return outcome;
    }

    /** The row's state now; null if there is no such row. */
    public String state() {
        return state;
    }

    @Override
    public String toString() {
        return Description.of(this, "outcome", outcome, "state", state);
    }
}
