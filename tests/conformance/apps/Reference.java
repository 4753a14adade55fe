import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import idem.postgres.HttpOptions;
import idem.postgres.IdemContext;
import idem.postgres.servlet.IdemFilter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import javax.servlet.DispatcherType;
import javax.servlet.ServletContext;
import javax.servlet.ServletException;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import javax.sql.DataSource;

/** What the reference apps in Java share, and the servlets of Jetty and Tomcat: ../README.md has the routes. */
final class Reference {
    static final String PROFILE = System.getenv().getOrDefault("PROFILE", "ietf");
    static final HikariDataSource POOL = pool(3, "conformance"); // the middleware's
    private static final DataSource OWN = pool(2, "own"); // of the hooks and counts
    private static final Map<String, Integer> RUNS = new ConcurrentHashMap<>(); // how often a handler ran

    private Reference() {}

    private static HikariDataSource pool(int size, String name) {
        HikariConfig config = new HikariConfig();
        String socket = System.getenv("PGHOST") + "/.s.PGSQL." + System.getenv("PGPORT");
        config.setJdbcUrl("jdbc:postgresql://localhost/" + System.getenv("PGDATABASE") + "?sslmode=disable&prepareThreshold=0&user="
            + System.getenv("PGUSER") + "&ApplicationName=" + name
            + "&socketFactory=org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg&socketFactoryArg=" + socket);
        config.setMaximumPoolSize(size);
        return new HikariDataSource(config);
    }

    static int port() {
        return Integer.parseInt(System.getenv().getOrDefault("PORT", "0"));
    }

    static void prepare() throws SQLException {
        value(OWN, "SELECT idem.idem_http_scope_set('conformance', profile => ?)", PROFILE);
        value(OWN, "CREATE TABLE IF NOT EXISTS effects (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text)");
    }

    /** acp and ucp have a space of keys for each operation of a client. */
    static HttpOptions<HttpServletRequest> options() {
        boolean isApart = Set.of("acp", "ucp").contains(PROFILE);
        return IdemFilter.options(POOL).scope(request -> "conformance/" + (request.getHeader("Authorization") == null ? ""
            : request.getHeader("Authorization")) + (isApart ? " " + request.getMethod() + " " + request.getRequestURI() : ""));
    }

    static HttpOptions<HttpServletRequest> leasedOptions() {
        return options().lease(Duration.ofSeconds(1)).wait(Duration.ofSeconds(10));
    }

    private static String value(DataSource pool, String sql, String... values) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            return value(connection, sql, values);
        }
    }

    private static String value(Connection connection, String sql, String... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) statement.setString(i + 1, values[i]);
            if (!statement.execute()) return null;
            ResultSet row = statement.getResultSet();
            return row.next() ? row.getString(1) : null;
        }
    }

    static String insert(Connection connection, String key) throws SQLException {
        return value(connection, "INSERT INTO effects (key) VALUES (?) RETURNING id", key);
    }

    static String begin(IdemContext context) {
        String key = context.key() == null ? "" : context.key();
        RUNS.merge(key, 1, Integer::sum);
        return key;
    }

    static void pause(JsonObject body) throws InterruptedException {
        if (body.has("pause")) Thread.sleep(body.get("pause").getAsLong());
    }

    static String text(JsonObject body, Object id) {
        String text = "{\"id\":" + id + (body.has("item") ? ",\"item\":" + body.get("item") : "") + "}";
        return body.has("bytes") ? text + " ".repeat(Math.max(0, body.get("bytes").getAsInt() - text.length())) : text;
    }

    static int status(JsonObject body) {
        return body.has("status") ? body.get("status").getAsInt() : 201;
    }

    static String effects(String key) throws SQLException {
        String count = value(OWN, "SELECT count(*) FROM effects WHERE key = ?", key);
        return "{\"count\":" + count + ",\"runs\":" + RUNS.getOrDefault(key, 0) + "}";
    }

    static void kill() {
        Runtime.getRuntime().halt(137);
    }

    static void loseCommit() throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-USR1", System.getenv("CUTTER")).inheritIO().start().waitFor();
    }

    static void disconnect() throws SQLException {
        value(OWN, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'conformance'");
    }

    /** Through the handle of a transaction that is over. */
    static void insertLate(Connection handle, String key) {
        CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS).execute(() -> {
            try {
                insert(handle, key);
            } catch (SQLException | RuntimeException refused) {
                return;
            }
        });
    }

    static JsonObject body(HttpServletRequest request) throws IOException {
        return JsonParser.parseString(new String(request.getInputStream().readAllBytes(), StandardCharsets.UTF_8)).getAsJsonObject();
    }

    /** What Jetty and Tomcat serve. */
    static void register(ServletContext context) {
        filter(context, "work", options(), "/orders", "/other", "/stream", "/late", "/double");
        filter(context, "again", options(), "/double");
        filter(context, "leased", leasedOptions(), "/leased");
        context.addServlet("routes", new Routes()).addMapping("/");
    }

    private static void filter(ServletContext context, String name, HttpOptions<HttpServletRequest> options, String... routes) {
        context.addFilter(name, new IdemFilter(options)).addMappingForUrlPatterns(EnumSet.of(DispatcherType.REQUEST), true, routes);
    }

    private static final class Routes extends HttpServlet {
        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException {
            try {
                serve(request.getRequestURI(), request, response);
            } catch (SQLException | InterruptedException error) {
                throw new ServletException(error);
            }
        }

        private static void serve(String path, HttpServletRequest request, HttpServletResponse response) throws IOException, SQLException,
            InterruptedException {
            IdemContext context = IdemFilter.context(request);
            switch (path) {
            case "/effects":
                response.setContentType("application/json");
                response.getWriter().print(effects(request.getParameter("key")));
                return;
            case "/hooks/kill": kill(); return;
            case "/hooks/disconnect":
                disconnect();
                response.setStatus(204);
                return;
            case "/hooks/lose-commit":
                loseCommit();
                response.setStatus(204);
                return;
            case "/stream": stream(context, response); return;
            case "/orders":
            case "/other":
            case "/late":
            case "/double":
            case "/leased": work(path, context, body(request), response); return;
            default: response.sendError(404);
            }
        }

        private static void work(String path, IdemContext context, JsonObject body, HttpServletResponse response) throws IOException,
            SQLException, InterruptedException {
            String key = begin(context), id;
            boolean isLeased = path.equals("/leased");
            if (isLeased) pause(body);
            id = insert(context.connection(), key);
            if (isLeased) id = Long.toString(context.lease().orElseThrow().fence());
            else pause(body);
            if (path.equals("/late")) insertLate(context.connection(), key);
            if (body.has("throw")) {
                response.sendError(body.get("throw").getAsInt());
                return;
            }
            response.setStatus(status(body));
            response.setContentType("application/json");
            response.setHeader("Location", "/orders/" + id);
            response.getOutputStream().write(text(body, id).getBytes(StandardCharsets.UTF_8));
        }

        private static void stream(IdemContext context, HttpServletResponse response) throws IOException, SQLException,
            InterruptedException {
            String id = insert(context.connection(), begin(context));
            response.setStatus(201);
            response.setContentType("text/plain");
            for (String part : new String[] {"a", "b", "c " + id}) {
                response.getOutputStream().write(part.getBytes(StandardCharsets.UTF_8));
                response.flushBuffer();
                Thread.sleep(5);
            }
        }
    }
}
