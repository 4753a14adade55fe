import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.DriverManager;

/** Sends each file as one call of JDBC; then claims a key twice. */
final class Install {
    public static void main(String[] arguments) throws Exception {
        try (var connection = DriverManager.getConnection(arguments[0]); var statement = connection.createStatement()) {
            for (int i = 1; i < arguments.length; i++) {
                statement.execute(Files.readString(Path.of(arguments[i])));
            }
            var claims = new StringBuilder();
            for (int i = 0; i < 2; i++) {
                try (var rows = statement.executeQuery("SELECT idem.idem_claim('order 7')")) {
                    rows.next();
                    claims.append(rows.getBoolean(1)).append(i == 0 ? " " : "\n");
                }
            }
            System.out.print(claims);
        }
    }
}
