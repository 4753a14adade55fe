import idem.postgres.Fate;
import idem.postgres.HttpOptions;
import idem.postgres.HttpReply;
import idem.postgres.IdemContext;
import idem.postgres.IdemDataSource;
import idem.postgres.Lease;
import idem.postgres.servlet.IdemFilter;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import javax.servlet.DispatcherType;
import javax.servlet.Filter;
import javax.servlet.FilterChain;
import javax.servlet.ServletContext;
import javax.servlet.ServletException;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import javax.servlet.http.Cookie;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletRequestWrapper;
import javax.servlet.http.HttpServletResponse;
import javax.sql.DataSource;

/**
 * The application under test. POST /MODE/orders inserts an order and answers with its number; POST /MODE/case?do=CASE does what may go
 * wrong. MODE says how the filter is set up. GET /outcomes: what onOutcome was told.
 */
final class App {
    static final List<Connection> LATE = new CopyOnWriteArrayList<>();
    static final List<String> OUTCOMES = new CopyOnWriteArrayList<>();

    private App() {}

    static void register(ServletContext context, DataSource database) {
        DataSource pool = LostReplies.over(database);
        filter(context, "account", new Account(), "/*");
        HttpOptions<HttpServletRequest> tx = options(pool).maxResponse(1000).fingerprint(IdemFilter.multipart()).keyFrom(App::keyInBody)
            .skip(request -> request.getHeader("X-Skip") != null).storeErrors(Set.of(404)).onError(App::ownError);
        idem(context, "tx", tx);
        filter(context, "idem-again", new IdemFilter(tx), "/tx/*");
        idem(context, "strict", options(pool).maxResponse(1000).oversize(HttpOptions.Oversize.ROLLBACK));
        idem(context, "optional", options(pool).keyRequired(false).methods(Set.of("POST")));
        idem(context, "leased", options(pool).lease(Duration.ofSeconds(12)));
        idem(context, "waiting", options(pool).wait(Duration.ofSeconds(20)));
        idem(context, "small",
            options(pool).maxBody(10).header("X-Key").onOutcome(outcome -> { throw new IllegalStateException("hook"); }));
        idem(context, "missing", options(pool).schema("missing"));
        idem(context, "gone", options(LostReplies.unreachable()));
        HttpServlet orders = new Orders(), cases = new Cases(new IdemDataSource(pool));
        for (String mode : List.of("tx", "strict", "optional", "leased", "waiting", "small", "missing", "gone")) {
            context.addServlet(mode + "-orders", orders).addMapping("/" + mode + "/orders");
            context.addServlet(mode + "-case", cases).addMapping("/" + mode + "/case");
        }
        context.addServlet("outcomes", new HttpServlet() {
            @Override
            protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
                response.getWriter().print(String.join("\n", OUTCOMES));
            }
        }).addMapping("/outcomes");
    }

    private static HttpOptions<HttpServletRequest> options(DataSource pool) {
        return IdemFilter.options(pool)
            .scope(request -> request.getRemoteUser().equals("nobody") ? "" : "orders:" + request.getRemoteUser())
            .onOutcome(outcome -> OUTCOMES.add(outcome.scope() + " " + outcome.key() + " " + outcome.header() + " "
                + outcome.method() + " " + outcome.route() + " "
                + outcome.action() + " " + outcome.status() + (outcome.fence() == null ? "" : " fence")
                    + (outcome.duration().isNegative() ? " negative" : "")));
    }

    private static String keyInBody(HttpServletRequest request) {
        try {
            String body = new String(request.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return body.startsWith("key=") ? body.substring(4) : null;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** For clients that ask for it. */
    private static HttpReply ownError(HttpReply problem, HttpServletRequest request) {
        if (request.getHeader("X-Own") == null) return problem;
        return new HttpReply(200, Map.of("Content-Type", List.of("text/plain")), ("own " + problem.code()).getBytes());
    }

    private static void idem(ServletContext context, String mode, HttpOptions<HttpServletRequest> options) {
        filter(context, "idem-" + mode, new IdemFilter(options), "/" + mode + "/*");
    }

    private static void filter(ServletContext context, String name, Filter filter, String pattern) {
        var registration = context.addFilter(name, filter);
        registration.setAsyncSupported(true);
        registration.addMappingForUrlPatterns(EnumSet.of(DispatcherType.REQUEST, DispatcherType.FORWARD, DispatcherType.ERROR), true, pattern);
    }

    /** Authenticates: the user is who X-Account says. */
    private static final class Account implements Filter {
        @Override
        public void init(javax.servlet.FilterConfig config) {}

        @Override
        public void destroy() {}

        @Override
        public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain) throws IOException,
            ServletException {
            ((HttpServletResponse) response).setHeader("X-Outer", "kept");
            if (((HttpServletRequest) request).getHeader("X-Read-Early") != null) request.getParameter("a");
            chain.doFilter(new HttpServletRequestWrapper((HttpServletRequest) request) {
                @Override
                public String getRemoteUser() {
                    return getHeader("X-Account");
                }
            }, response);
        }
    }

    private static final class Orders extends HttpServlet {
        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            try {
                String name = request.getParameter("name"), kind = request.getParameter("kind");
                pause(request.getParameter("sleep"));
                long id = insert(IdemFilter.context(request).connection(), name);
                send(response, kind, id);
            } catch (SQLException error) {
                throw new IOException(error);
            }
        }

        /** No two answers are alike, so that a second run of the handler shows. */
        private static void send(HttpServletResponse response, String kind, long id) throws IOException {
            byte[] json = ("{\"zebra\": 1,  \"id\":" + id + ", \"apple\": [1.50, null], \"nonce\": \"" + UUID.randomUUID()
                + "\", \"名\": \"\\u00e9\"}\n")
                .getBytes(StandardCharsets.UTF_8);
            response.setHeader("Location", "/orders/" + id);
            response.setHeader("ETag", "\"" + UUID.randomUUID() + "\"");
            response.addHeader("Link", "</a>; rel=\"next\"");
            response.addHeader("Link", "</b>; rel=\"last\"");
            switch (kind) {
            case "none":
                response.setStatus(204);
                return;
            case "pdf":
                response.setContentType("application/pdf");
                ByteArrayOutputStream pdf = new ByteArrayOutputStream();
                pdf.write("%PDF-1.7\r\n%".getBytes(StandardCharsets.US_ASCII));
                for (int i = 0; i < 256; i++) pdf.write(i);
                pdf.write(json);
                response.getOutputStream().write(pdf.toByteArray());
                return;
            default:
                response.setStatus(201);
                response.setContentType("application/json");
                response.getOutputStream().write(json);
                response.getOutputStream().flush();
            }
        }
    }

    static long insert(Connection connection, String name) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO orders (name) VALUES (?) RETURNING id")) {
            statement.setString(1, name);
            ResultSet row = statement.executeQuery();
            row.next();
            return row.getLong(1);
        }
    }

    static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    static void pause(String milliseconds) {
        try {
            if (milliseconds != null) Thread.sleep(Long.parseLong(milliseconds));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Each case inserts an order first, to show whether it is rolled back. */
    private static final class Cases extends HttpServlet {
        private final DataSource joined;

        Cases(DataSource joined) {
            this.joined = joined;
        }

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException {
            String name = request.getParameter("name");
            try {
                IdemContext context = IdemFilter.context(request);
                if (context == null) {
                    response.getWriter().print("no context");
                    return;
                }
                run(request.getParameter("do"), name, context, request, response);
            } catch (SQLException error) {
                throw new ServletException(error);
            }
        }

        private void run(String what, String name, IdemContext context, HttpServletRequest request,
            HttpServletResponse response)
            throws IOException, SQLException, ServletException {
            if (!what.startsWith("step")) insert(context.connection(), name);
            Connection connection = what.startsWith("step") ? null : context.connection();
            switch (what) {
            case "throw": throw new IllegalStateException("the handler failed");
            case "402":
                response.setStatus(402);
                response.addCookie(new Cookie("session", "secret"));
                response.addHeader("X-Unstored", "once");
                response.getWriter().print("declined");
                break;
            case "503":
                response.setStatus(503);
                response.getWriter().print("busy");
                break;
            case "error": response.sendError(409, "no \"more\""); break;
            case "404": response.sendError(404, "no such order"); break;
            case "gzip":
                response.setHeader("Content-Encoding", "gzip");
                response.getOutputStream().write(new byte[] {0x1f, (byte) 0x8b});
                break;
            case "large":
            case "large-writer":
                response.setStatus(201);
                response.setHeader("ETag", "\"1\"");
                for (int i = 0; i < 30; i++) {
                    if (what.equals("large")) response.getOutputStream().write(new byte[100]);
                    else response.getWriter().print("x".repeat(100));
                    if (i == 29) response.addHeader("X-Late", "1");
                    response.flushBuffer();
                }
                break;
            case "forward":
                request.getRequestDispatcher("/tx/case?do=text&name=" + name + "-forwarded").forward(request, response);
                break;
            case "late": LATE.add(connection); break;
            case "late-use":
                try {
                    LATE.get(0).createStatement();
                    response.getWriter().print("used");
                } catch (IllegalStateException error) {
                    response.getWriter().print(error.getMessage());
                }
                break;
            case "kill-now": // the server ends this session while the handler works
                try {
                    execute(connection, "SELECT pg_terminate_backend(pg_backend_pid())");
                } catch (SQLException expected) {
                    throw new IllegalStateException("the handler hides it");
                }
                break;
            case "kill-silent": // and the handler does not notice
                try (Connection other = joined.unwrap(DataSource.class).getConnection();
                     ResultSet session = connection.createStatement().executeQuery("SELECT pg_backend_pid()")) {
                    session.next();
                    execute(other, "SELECT pg_terminate_backend(" + session.getInt(1) + ")");
                }
                response.getWriter().print("silent");
                break;
            case "redirect": response.sendRedirect("/shop/7"); break;
            case "redirect-status": servlet61(response, "sendRedirect", "/shop/7", 303); break;
            case "redirect-body":
                response.getWriter().print("moved");
                servlet61(response, "sendRedirect", "/shop/7", false);
                break;
            case "redirect-all":
                response.getWriter().print("moved");
                servlet61(response, "sendRedirect", "/shop/7", 308, true);
                break;
            case "charset":
                response.setContentType("text/plain");
                servlet61(response, "setCharacterEncoding", StandardCharsets.UTF_8);
                response.getWriter().print("é ✓");
                break;
            case "429":
                response.setStatus(429);
                response.getWriter().print("slow down");
                break;
            case "text":
                response.setContentType("text/plain;charset=utf-8");
                response.getWriter().print("é ✓");
                break;
            case "json":
                response.setContentType("application/json");
                response.getWriter().print("[\"é ✓\"]");
                break;
            case "form": response.getWriter().print(String.join(",", request.getParameterValues("a")) + " "
                + request.getRemoteUser()); break;
            case "stream":
                for (int i = 0; i < 3; i++) {
                    response.getWriter().println(i);
                    response.flushBuffer();
                }
                break;
            case "swallowed-stream":
                try {
                    for (int i = 0; i < 3; i++) {
                        response.getOutputStream().write(i);
                        response.getOutputStream().flush();
                    }
                } catch (IllegalStateException expected) {
                    response.reset();
                }
                break;
            case "events":
                response.setContentType("text/event-stream");
                response.getWriter().print("data: 1\n\n");
                break;
            case "async": request.startAsync(); break;
            case "serialization": execute(connection,
                "DO $$BEGIN RAISE EXCEPTION 'try again' USING ERRCODE = '40001'; END$$"); break;
            case "caught":
                try {
                    execute(connection, "SELECT 1 / 0");
                } catch (SQLException expected) {
                    response.setStatus(Integer.parseInt(request.getParameter("status")));
                }
                break;
            case "commit": connection.commit(); break;
            case "deferred": execute(connection, "INSERT INTO child VALUES (-1)"); break; // fails at COMMIT
            case "joined":
                joined(name, response);
                break;
            case "closed":
                closed(name, response);
                break;
            case "killed": // the server ends this session in COMMIT
                execute(connection, "INSERT INTO killer VALUES (1)");
                break;
            case "lost": // COMMIT succeeds, and its answer is lost
                LostReplies.NEXT.set(true);
                response.setStatus(201);
                response.getWriter().print("committed " + UUID.randomUUID());
                break;
            case "slow":
                pause("700");
                response.getWriter().print("slow");
                break;
            case "stolen": // the key passes on while the handler works
                try (Connection other = joined.getConnection();
                     PreparedStatement forget = other.prepareStatement("SELECT idem.idem_forget(?, ?)")) {
                    forget.setString(1, context.lease().orElseThrow().key());
                    forget.setString(2, context.scope());
                    forget.execute();
                }
                break;
            case "key":
                response.getWriter().print(context.key() + " " + context.header()
                    + context.lease().map(lease -> " " + lease.scope() + "/" + lease.key()).orElse(""));
                break;
            case "step": step(context.lease().orElseThrow(), name, context, request, response); break;
            default: throw new IllegalArgumentException(what);
            }
        }

        /** A part that is undone, and one that stays. */
        private void joined(String name, HttpServletResponse response) throws SQLException, IOException {
            try (Connection first = joined.getConnection()) {
                first.setAutoCommit(false);
                insert(first, name + " undone");
                try {
                    execute(first, "SELECT 1 / 0");
                } catch (SQLException expected) {
                    first.rollback();
                }
                first.setAutoCommit(true);
            }
            try (Connection second = joined.getConnection()) {
                second.setAutoCommit(false);
                insert(second, name + " kept");
                second.commit();
                insert(second, name + " undone");
                second.rollback();
            }
            response.getWriter().print("joined");
        }

        /** Connections that are closed without a commit. */
        private void closed(String name, HttpServletResponse response) throws SQLException, IOException {
            String kept = name + " kept", undone = name + " undone", insert = "INSERT INTO orders (name) VALUES (?)";
            try (Connection failed = joined.getConnection()) {
                failed.setAutoCommit(false);
                insert(failed, undone);
                execute(failed, "SELECT 1 / 0");
            } catch (SQLException expected) {
                response.setStatus(402);
            }
            try (Connection batch = joined.getConnection(); PreparedStatement row = batch.prepareStatement(insert)) {
                batch.setAutoCommit(false);
                row.setString(1, kept);
                row.execute();
                batch.commit();
                row.setString(1, undone);
                row.execute();
            }
            try (Connection outer = joined.getConnection()) {
                outer.setAutoCommit(false);
                insert(outer, kept);
                outer.commit();
                try (Connection inner = joined.getConnection()) {
                    insert(inner, kept);
                }
                outer.isValid(0);
            }
            try (Connection outer = joined.getConnection()) {
                outer.setAutoCommit(false);
                insert(outer, undone);
                outer.rollback();
                insert(IdemContext.current().connection(), kept);
            }
            try (Connection last = joined.getConnection(); Connection first = joined.getConnection()) {
                first.setAutoCommit(false);
                last.setAutoCommit(false); // the close of the first one takes its savepoint away
                insert(last, undone);
                insert(first, undone);
            }
            Connection twice = joined.getConnection();
            twice.setAutoCommit(false);
            twice.close();
            insert(twice, kept);
            twice.close();
            response.getWriter().print("closed");
        }

        /** Calls a method as a framework for Servlet 6.1 does: the API of the tests may not have it. */
        private static void servlet61(HttpServletResponse response, String method, Object... arguments) throws ServletException {
            Class<?>[] types = new Class<?>[arguments.length];
            for (int i = 0; i < types.length; i++) types[i] = arguments[i] instanceof Integer ? int.class
                : arguments[i] instanceof Boolean ? boolean.class
                : arguments[i] instanceof Charset ? Charset.class : String.class;
            try {
                Method found = response.getClass().getMethod(method, types);
                found.setAccessible(true);
                found.invoke(response, arguments);
            } catch (ReflectiveOperationException error) {
                throw new ServletException(error);
            }
        }

        private void step(Lease lease, String name, IdemContext context, HttpServletRequest request,
            HttpServletResponse response)
            throws SQLException, IOException {
            String crash = request.getParameter("crash");
            StringBuilder done = new StringBuilder();
            try {
                lease.step("charge", gate -> {
                    done.append("charge ");
                    return "{\"charge\": \"ch_1\"}";
                });
                if (crash != null) lease.step("crash", gate -> {
                    if (crash.equals("exit")) Runtime.getRuntime().halt(1); // as SIGKILL: nothing is cleaned up
                    throw new IllegalStateException("the gateway is gone");
                }, gate -> Fate.done("1"));
            } catch (RuntimeException | SQLException | IOException error) {
                throw error;
            } catch (Exception error) {
                throw new IOException(error);
            }
            pause(request.getParameter("sleep"));
            insert(context.connection(), name);
            response.getWriter().print(done + "book " + lease.steps().get("charge") + (lease.isLost() ? " lost" : "")
                + (lease.fence() > 0 ? " fence" : ""));
        }
    }
}
