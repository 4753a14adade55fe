package idem.postgres;

import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * One statement: its parameters by their Java types, its rows, and its errors as {@link IdemException}. The driver declares texts as varchar and arrays as
 * text[], so a function of the server is named with pg_catalog: an unqualified name also finds one with exactly these types in another schema of the
 * search_path.
 */
final class Sql {
    interface Reader<T> {
        T read(ResultSet row) throws SQLException;
    }

    private Sql() {}

    static <T> T one(Connection connection, String sql, Reader<T> reader, Object... values) throws SQLException {
        return list(connection, sql, reader, values).get(0);
    }

    static <T> List<T> list(Connection connection, String sql, Reader<T> reader, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) bind(connection, statement, i + 1, values[i]);
            try (ResultSet rows = statement.executeQuery()) {
                List<T> list = new ArrayList<>();
                while (rows.next()) list.add(reader.read(rows));
                return list;
            }
        } catch (SQLException error) {
            throw IdemException.of(error, sql);
        }
    }

    /** The statement casts what is text to interval, jsonb or a class of tables. */
    private static void bind(Connection connection, PreparedStatement statement, int i, Object value) throws SQLException {
        if (value == null) statement.setNull(i, Types.NULL);
        else if (value instanceof byte[]) statement.setBytes(i, (byte[]) value);
        else if (value instanceof String[]) statement.setArray(i, connection.createArrayOf("text", (String[]) value));
        else if (value instanceof Long[]) statement.setArray(i, connection.createArrayOf("int8", (Long[]) value));
        else if (value instanceof Duration) statement.setString(i, ((Duration) value).toMillis() + " ms");
        else statement.setObject(i, value);
    }

    static Object[] array(ResultSet row, String column) throws SQLException {
        Array array = row.getArray(column);
        return array == null ? new Object[0] : (Object[]) array.getArray();
    }

    static String quoted(String identifier) {
        return '"' + identifier.replace("\"", "\"\"") + '"';
    }
}
