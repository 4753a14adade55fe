import com.google.gson.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.util.PGobject;

/** JDBC, with the protocol of check.py: a line in, a line out. */
class Jdbc {
    static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    static final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    static final Gson gson = new GsonBuilder().serializeNulls().create();

    static class Rollback extends Exception {}

    public static void main(String[] arguments) throws Exception {
        Map<String, String> env = System.getenv();
        Properties properties = new Properties();
        properties.setProperty("user", env.get("PGUSER"));
        properties.setProperty("password", env.get("PGPASSWORD"));
        if (env.containsKey("IDEM_POOLED")) properties.setProperty("prepareThreshold", "0");
        String url = "jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE");
        try (Connection db = DriverManager.getConnection(url, properties)) {
            loop(db);
        }
    }

    static void loop(Connection db) throws Exception {
        for (String line; (line = in.readLine()) != null;) {
            JsonObject request = JsonParser.parseString(line).getAsJsonObject();
            switch (request.get("do").getAsString()) {
            case "commit": return;
            case "rollback": throw new Rollback();
            case "begin": answer(() -> transaction(db)); break;
            default: answer(() -> run(db, request.get("sql").getAsString(), request.getAsJsonArray("args")));
            }
        }
    }

    interface Work { Map<String, ?> run() throws Exception; }

    static void answer(Work work) throws Exception {
        Map<String, ?> answer;
        try {
            answer = work.run();
        } catch (Rollback e) {
            answer = Map.of();
        } catch (SQLException e) {
            Map<String, String> error = new HashMap<>();
            error.put("sqlstate", e.getSQLState());
            error.put("type", e.getClass().getSimpleName());
            error.put("message", e.getMessage());
            answer = Map.of("error", error);
        }
        out.println(gson.toJson(answer));
    }

    static Map<String, ?> transaction(Connection db) throws Exception {
        db.setAutoCommit(false);
        try {
            out.println("{}");
            loop(db);
            db.commit();
            return Map.of();
        } catch (Exception e) {
            db.rollback();
            throw e;
        } finally {
            db.setAutoCommit(true);
        }
    }

    static Map<String, ?> run(Connection db, String sql, JsonArray args) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql.replaceAll("\\$\\d+", "?"))) {
            for (int i = 0; i < args.size(); i++) set(db, statement, i + 1, args.get(i).getAsJsonArray());
            List<String> columns = new ArrayList<>();
            List<List<List<Object>>> rows = new ArrayList<>();
            if (statement.execute()) {
                ResultSet result = statement.getResultSet();
                int count = result.getMetaData().getColumnCount();
                for (int i = 1; i <= count; i++) columns.add(result.getMetaData().getColumnLabel(i));
                while (result.next()) {
                    List<List<Object>> row = new ArrayList<>();
                    for (int i = 1; i <= count; i++) row.add(value(result.getObject(i)));
                    rows.add(row);
                }
            }
            return Map.of("columns", columns, "rows", rows);
        }
    }

    static void set(Connection db, PreparedStatement statement, int i, JsonArray argument) throws SQLException {
        JsonElement value = argument.get(1);
        switch (argument.get(0).getAsString()) {
        case "null": statement.setNull(i, Types.NULL); break;
        case "bool": statement.setBoolean(i, value.getAsBoolean()); break;
        case "int": statement.setInt(i, value.getAsInt()); break;
        case "float": statement.setDouble(i, value.getAsDouble()); break;
        case "bigint": statement.setLong(i, Long.parseLong(value.getAsString())); break;
        case "bytes": statement.setBytes(i, HexFormat.of().parseHex(value.getAsString())); break;
        case "time": statement.setObject(i, OffsetDateTime.parse(value.getAsString())); break;
        case "duration": statement.setObject(i, Duration.ofSeconds(Long.parseLong(value.getAsString().replace(" s", "")))); break;
        // The types that JDBC has no name for: a string whose type the server finds out.
        case "interval": statement.setObject(i, value.getAsString(), Types.OTHER); break;
        case "json": statement.setObject(i, value.toString(), Types.OTHER); break;
        case "texts": statement.setArray(i, db.createArrayOf("text", strings(value))); break;
        case "bigints": statement.setArray(i, db.createArrayOf("bigint", strings(value))); break;
        case "jsons": statement.setArray(i, db.createArrayOf("jsonb", strings(value))); break;
        default: statement.setString(i, value.getAsString());
        }
    }

    static Object[] strings(JsonElement array) {
        List<String> strings = new ArrayList<>();
        for (JsonElement element : array.getAsJsonArray()) strings.add(element.isJsonPrimitive() ? element.getAsString() : element.toString());
        return strings.toArray();
    }

    /** Its type and what it says. */
    static List<Object> value(Object value) throws SQLException {
        if (value == null) return Arrays.asList("null", null);
        Object plain = value;
        if (value instanceof byte[]) plain = HexFormat.of().formatHex((byte[]) value);
        else if (value instanceof java.sql.Array) plain = ((java.sql.Array) value).getArray();
        else if (value instanceof PGobject) plain = ((PGobject) value).getValue();
        else if (!(value instanceof Number) && !(value instanceof Boolean)) plain = value.toString();
        return Arrays.asList(value.getClass().getSimpleName(), plain);
    }
}
