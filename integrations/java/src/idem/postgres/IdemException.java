package idem.postgres;

import java.sql.SQLException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An error that idem raises: {@link #getSQLState()} begins with ID; or {@link NotInstalled}. The transaction is aborted, as
 * after any error.
 */
public class IdemException extends SQLException {
    private static final long serialVersionUID = 1;
    private static final Pattern SCHEMA = Pattern.compile("\"([^\"]+)\"\\.idem_");

    private IdemException(SQLException error) {
        this(error, error.getMessage());
    }

    private IdemException(SQLException error, String message) {
        super(message, error.getSQLState(), error);
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

    /** 3F000, 42883: idem is missing, or older than this jar. The message says what to call. */
    public static final class NotInstalled extends IdemException {
        private static final long serialVersionUID = 1;

        private NotInstalled(SQLException error) {
            super(error, error.getMessage() + ": idem is not installed here, or older than this jar; call IdemSchema.install");
        }
    }

    /** The error of a call of idem, whose schema the statement names. The work's own SQL, in idem_execute, may miss another schema. */
    static SQLException of(SQLException error, String statement) {
        String message = String.valueOf(error.getMessage());
        Matcher schema = SCHEMA.matcher(statement);
        boolean isMissing = "42883".equals(error.getSQLState()) ? message.contains("idem_")
            : "3F000".equals(error.getSQLState()) && schema.find() && message.contains(schema.group(1));
        return isMissing ? new NotInstalled(error) : of(error);
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
