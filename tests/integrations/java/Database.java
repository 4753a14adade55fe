import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/** A look into the database of the tests, past the library. */
final class Database {
    private Database() {}

    static Connection connect() throws SQLException {
        return DriverManager.getConnection(System.getProperty("database.url"));
    }

    /** The first column of the first row. */
    static String value(String sql, Object... values) throws SQLException {
        try (Connection connection = connect(); PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getString(1) : null;
            }
        }
    }

    static String orders(String name) throws SQLException {
        return value("SELECT count(*) FROM orders WHERE name = ?", name);
    }
}
