package idem.postgres;

/** What became of a step that an earlier attempt intended, as far as the other system knows. */
public final class Fate {
    enum Kind { DONE, NOT_DONE, UNKNOWN }

    final Kind kind;
    final String output;

    private Fate(Kind kind, String output) {
        this.kind = kind;
        this.output = output;
    }

    /** It happened, with this output: JSON text. */
    public static Fate done(String output) {
        return new Fate(Kind.DONE, output);
    }

    /** It did not happen, and will not: the step is taken now. */
    public static Fate notDone() {
        return new Fate(Kind.NOT_DONE, null);
    }

    /** Nobody can tell: {@link FlowException.InDoubt}, and the key is kept. */
    public static Fate unknown() {
        return new Fate(Kind.UNKNOWN, null);
    }

    @Override
    public String toString() {
        return Description.of(this, "kind", kind, "output", output);
    }
}
