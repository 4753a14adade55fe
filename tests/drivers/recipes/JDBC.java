import java.sql.*;

class Recipe {
    public static void main(String[] args) throws SQLException {
        String key = args[0];
        int id = Integer.parseInt(args[1]), amount = 10;
        var env = System.getenv();
        String url = "jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE");
        try (Connection db = DriverManager.getConnection(url, env.get("PGUSER"), env.get("PGPASSWORD"))) {
            // RECIPE
        }
    }
}
