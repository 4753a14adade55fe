package idem.postgres;

import java.math.BigDecimal;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Locale;

/** What became of one row: docs/rows.md. What an outcome does not have is null. */
public final class RowAnswer {
    public enum Outcome { UPDATED, CONFLICT, ADJUSTED, OUT_OF_RANGE, LOCKED, BUSY, INSERTED, DUPLICATE, NOT_FOUND }

    private final Outcome outcome;
    private final String row;
    private final Long version;
    private final BigDecimal value;

    private RowAnswer(ResultSet result, String row, Long version, BigDecimal value) throws SQLException {
        outcome = Outcome.valueOf(result.getString("outcome").toUpperCase(Locale.ROOT));
        this.row = row;
        this.version = version;
        this.value = value;
    }

    static RowAnswer ofRow(ResultSet result) throws SQLException {
        return new RowAnswer(result, result.getString("row_data"), null, null);
    }

    static RowAnswer ofVersion(ResultSet result) throws SQLException {
        return new RowAnswer(result, result.getString("row_data"), result.getObject("version", Long.class), null);
    }

    static RowAnswer ofValue(ResultSet result) throws SQLException {
        return new RowAnswer(result, null, null, result.getBigDecimal("value"));
    }

    public Outcome outcome() {
        return outcome;
    }

    /** The row that is now in the table, as JSON text. */
    public String row() {
        return row;
    }

    /** Of {@link IdemFunctions#optimisticUpdate}. */
    public Long version() {
        return version;
    }

    /** Of {@link IdemFunctions#conditionalAdjust}. */
    public BigDecimal value() {
        return value;
    }

    @Override
    public String toString() {
        return Description.of(this, "outcome", outcome, "row", row, "version", version, "value", value);
    }
}
