package idem.postgres;

import java.time.Duration;

/** Why a flow of {@link JdbcIdem} has no answer. */
public abstract class FlowException extends Exception {
    private static final long serialVersionUID = 1;

    private final String key;

    FlowException(String key, String message, Throwable cause) {
        super("key \"" + key + "\": " + message, cause);
        this.key = key;
    }

    public String key() {
        return key;
    }

    /** Another holder is not done, and the wait is over. Nothing was done. */
    public static final class InFlight extends FlowException {
        private static final long serialVersionUID = 1;

        private final Duration retryAfter;

        InFlight(String key, Duration retryAfter) {
            super(key, "another holder is not done", null);
            this.retryAfter = retryAfter;
        }

        /** What is left of the other holder's lease; null if nobody can tell. */
        public Duration retryAfter() {
            return retryAfter;
        }
    }

    /** The key was used for another request. Nothing was done. */
    public static final class Mismatch extends FlowException {
        private static final long serialVersionUID = 1;

        Mismatch(String key) {
            super(key, "it belongs to another request, with another fingerprint", null);
        }
    }

    /** Nobody can tell whether a step happened, or whether the work of the earlier holder did: an operator decides. */
    public static final class InDoubt extends FlowException {
        private static final long serialVersionUID = 1;

        private final String step;

        InDoubt(String key, String step) {
            super(key, step == null ? "it is in doubt" : "step \"" + step + "\" is in doubt", null);
            this.step = step;
        }

        /** Null: the whole key. */
        public String step() {
            return step;
        }
    }

    /** The lease has ended, or was taken over. What was done outside of the database is done. */
    public static final class LeaseLost extends FlowException {
        private static final long serialVersionUID = 1;

        LeaseLost(String key, Throwable cause) {
            super(key, "the lease is lost", cause);
        }
    }

    /** The connection was lost in COMMIT, and looking did not tell. Call again: the key tells. */
    public static final class CommitUnknown extends FlowException {
        private static final long serialVersionUID = 1;

        CommitUnknown(String key, Throwable cause) {
            super(key, "the connection was lost in COMMIT, which may have succeeded", cause);
        }
    }

    /** {@link Lease#complete} was called in a transaction that was rolled back, or is still open. */
    public static final class RolledBack extends FlowException {
        private static final long serialVersionUID = 1;

        RolledBack(String key) {
            super(key, "the transaction in which it was completed has not committed", null);
        }
    }

    /**
     * The work has run, and its output cannot be stored. The key is kept: a retry would repeat the work. It is in progress
     * until its lease ends.
     */
    public static final class NotStored extends FlowException {
        private static final long serialVersionUID = 1;

        private final String step;

        NotStored(String key, String step, Throwable cause) {
            super(key, "the output of " + (step == null ? "the work" : "step \"" + step + "\"") + " cannot be stored."
                + " The key is kept, because the work has run", cause);
            this.step = step;
        }

        /** Null: the answer of the work. */
        public String step() {
            return step;
        }
    }
}
