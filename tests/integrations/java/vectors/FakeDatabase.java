package idem.postgres;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import javax.sql.DataSource;

/** A pool whose connections answer as a script says, and note the calls. */
final class FakeDatabase {
    final List<String> calls = new ArrayList<>();
    final List<Long> looks = new ArrayList<>(); // nanoseconds after the lost COMMIT
    private final LinkedList<Map<?, ?>> script = new LinkedList<>();
    private final boolean keyed;
    private long lostAt;

    FakeDatabase(List<?> script, boolean keyed) {
        for (Object entry : script) this.script.add((Map<?, ?>) entry);
        this.keyed = keyed;
    }

    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(FakeDatabase.class.getClassLoader(), new Class<?>[] {type}, handler));
    }

    DataSource pool() {
        return proxy(DataSource.class, (proxy, method, arguments) -> new Session().connection());
    }

    private final class Session {
        private boolean autoCommit = true;
        private boolean broken;
        private boolean looking;

        Connection connection() {
            return proxy(Connection.class, (proxy, method, arguments) -> {
                switch (method.getName()) {
                case "getAutoCommit": return autoCommit;
                case "setAutoCommit": autoCommit = (Boolean) arguments[0]; return null;
                case "commit": commit(); return null;
                case "rollback":
                    if (!looking) calls.add("rollback");
                    return null;
                case "isClosed": return broken;
                case "prepareStatement": return statement((String) arguments[0]);
                case "createStatement": // the handler's
                    return proxy(Statement.class, (p, m, a) -> { throw lost(); });
                case "createArrayOf":
                case "close": return null;
                default: throw new UnsupportedOperationException(method.getName());
                }
            });
        }

        private SQLException lost() {
            broken = true;
            return new SQLException("the connection is lost", "08006");
        }

        private PreparedStatement statement(String sql) {
            return proxy(PreparedStatement.class, (proxy, method, arguments) -> {
                if (!method.getName().equals("executeQuery")) return null;
                Object answer = answer(sql);
                if (autoCommit && !script.isEmpty() && script.getFirst().get("call").equals("commit")) commit();
                return row(answer);
            });
        }

        private Object answer(String sql) throws SQLException {
            if (sql.contains("idem_http_begin")) {
                looking = lostAt != 0;
                if (looking) looks.add(System.nanoTime() - lostAt);
                return call(looking ? "replay" : "begin", looking ? "replay" : "begin");
            }
            if (sql.contains("idem_http_complete")) return call("complete", sql.contains("omit => true") ? "complete omit" : "complete");
            if (sql.contains("idem_release")) return call("release", "release");
            throw new UnsupportedOperationException(sql);
        }

        private void commit() throws SQLException {
            Object answer = call("commit", "commit");
            if (answer.equals("rolled_back")) throw new SQLException("The database returned ROLLBACK", "25P02");
        }

        private Object call(String name, String noted) throws SQLException {
            calls.add(noted);
            Map<?, ?> entry = script.isEmpty() ? Map.of() : script.removeFirst();
            if (!name.equals(entry.get("call"))) throw new AssertionError(name + " where the script has " + entry);
            Object answer = entry.get("answer");
            if (answer instanceof Map && ((Map<?, ?>) answer).containsKey("sqlstate"))
                throw new SQLException("no", (String) ((Map<?, ?>) answer).get("sqlstate"));
            if (answer instanceof Map && ((Map<?, ?>) answer).containsKey("lost")) {
                if (name.equals("commit")) lostAt = System.nanoTime();
                throw lost();
            }
            return answer;
        }
    }

    private ResultSet row(Object answer) {
        boolean[] read = {false};
        return proxy(ResultSet.class, (proxy, method, arguments) -> {
            switch (method.getName()) {
            case "next": return !read[0] && (read[0] = true);
            case "getArray": return headers((Map<?, ?>) answer);
            case "close": return null;
            default: break;
            }
            if (arguments[0] instanceof Integer) return answer;
            Object value = ((Map<?, ?>) answer).get(arguments[0]);
            switch ((String) arguments[0]) {
            case "key": return keyed ? "k" : null;
            case "body_bytes": return body((Map<?, ?>) answer);
            case "status": return ((Double) value).intValue();
            case "fence": return value == null ? null : ((Double) value).longValue();
            default: return value;
            }
        });
    }

    private static byte[] body(Map<?, ?> answer) {
        Object text = answer.get("code") == null ? answer.get("body") : "{\"code\": \"" + answer.get("code") + "\"}";
        return ((String) text).getBytes(StandardCharsets.UTF_8);
    }

    private static Array headers(Map<?, ?> answer) {
        List<String[]> fields = new ArrayList<>();
        if ("replay".equals(answer.get("action"))) fields.add(new String[] {"Idempotent-Replayed", "true"});
        if ("in_flight".equals(answer.get("code"))) fields.add(new String[] {"Retry-After", "1"});
        return proxy(Array.class, (proxy, method, arguments) -> fields.toArray(new String[0][]));
    }
}
