package idem.postgres;

import java.sql.SQLException;

/** An error that idem raises: {@link #getSQLState()} begins with ID. The transaction is aborted, as after any error. */
public class IdemException extends SQLException {
    private static final long serialVersionUID = 1;

    private IdemException(SQLException error) {
        super(error.getMessage(), error.getSQLState(), error);
    }

    /** ID001: the key or lock is not held with this fence, or the key is not this transaction's claim. Roll back. */
    public static final class StaleFence extends IdemException {
        private static final long serialVersionUID = 1;

        private StaleFence(SQLException error) {
            super(error);
        }
    }

    /** ID003: the state machine does not have this transition. */
    public static final class TransitionNotAllowed extends IdemException {
        private static final long serialVersionUID = 1;

        private TransitionNotAllowed(SQLException error) {
            super(error);
        }
    }

    /** ID004: the row has another version by now. */
    public static final class StaleVersion extends IdemException {
        private static final long serialVersionUID = 1;

        private StaleVersion(SQLException error) {
            super(error);
        }
    }

    /** ID005: another holder is not done, or the key is in doubt. */
    public static final class InFlight extends IdemException {
        private static final long serialVersionUID = 1;

        private InFlight(SQLException error) {
            super(error);
        }
    }

    /** ID006: done before. */
    public static final class Duplicate extends IdemException {
        private static final long serialVersionUID = 1;

        private Duplicate(SQLException error) {
            super(error);
        }
    }

    /**
     * The error by its type if it is one of idem's, such as of a guard on a table of your own; else the error itself.
     */
    public static SQLException of(SQLException error) {
        if (error instanceof IdemException || error.getSQLState() == null) return error;
        switch (error.getSQLState()) {
        case "ID001": return new StaleFence(error);
        case "ID003": return new TransitionNotAllowed(error);
        case "ID004": return new StaleVersion(error);
        case "ID005": return new InFlight(error);
        case "ID006": return new Duplicate(error);
        default: return error;
        }
    }
}
