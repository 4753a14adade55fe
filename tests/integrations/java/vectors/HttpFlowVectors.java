package idem.postgres;

import idem.postgres.servlet.IdemFilter;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.servlet.DispatcherType;
import javax.servlet.FilterChain;
import javax.servlet.ReadListener;
import javax.servlet.ServletException;
import javax.servlet.ServletInputStream;
import javax.servlet.ServletOutputStream;
import javax.servlet.WriteListener;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;

/** Replays tests/vectors/http_flow.json through the servlet filter: HttpFlowVectors FILE. Prints TAP. */
final class HttpFlowVectors {
    private static final Map<String, String> SKIPPED = Map.of("a silent handler whose connection is lost ends the request",
        "a thread that blocks cannot be ended from outside: its request ends, and the pool gets its connection back, when it returns");

    private final Map<?, ?> vector;
    private final Map<?, ?> does;
    private final FakeDatabase database;
    private final List<String> wrong = new ArrayList<>();
    private final ByteArrayOutputStream body = new ByteArrayOutputStream();
    private final Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    private Integer status;
    private int ran;
    private int background;
    private int callsAtFirstByte = -1;
    private Connection handle;
    private Throwable thrown;

    private HttpFlowVectors(Map<?, ?> vector) {
        this.vector = vector;
        does = (Map<?, ?>) vector.get("handler");
        database = new FakeDatabase((List<?>) vector.get("database"), vector.get("key") != null);
    }

    public static void main(String[] arguments) throws Exception {
        java.util.logging.Logger.getLogger("idem.postgres").setLevel(java.util.logging.Level.OFF);
        Map<?, ?> file = (Map<?, ?>) Json.parse(Files.readString(Path.of(arguments[0])));
        int number = 0, failures = 0;
        for (Object each : (List<?>) file.get("cases")) {
            Map<?, ?> vector = (Map<?, ?>) each;
            String name = vector.get("name") + (SKIPPED.containsKey(vector.get("name")) ? " # SKIP " + SKIPPED.get(vector.get("name")) : "");
            List<String> wrong = SKIPPED.containsKey(vector.get("name")) ? List.of() : new HttpFlowVectors(vector).replay();
            System.out.println((wrong.isEmpty() ? "ok " : "not ok ") + ++number + " - " + name);
            wrong.forEach(line -> System.out.println("# " + line));
            if (!wrong.isEmpty()) failures++;
        }
        System.out.println("1.." + number);
        System.exit(failures);
    }

    private List<String> replay() throws Exception {
        IdemFilter filter = new IdemFilter(options());
        HttpServletResponse response = response();
        FilterChain chain = (request, sent) -> {
            ran++;
            handle((HttpServletRequest) request, (HttpServletResponse) sent);
        };
        boolean twice = does.get("mounted") != null;
        try {
            filter.doFilter(request(), response,
                twice ? (request, sent) -> new IdemFilter(options()).doFilter(request, sent, chain) : chain);
        } catch (Throwable error) { // AssertionError: a call that is not in the script
            thrown = error;
        }
        check((Map<?, ?>) vector.get("expect"));
        return wrong;
    }

    private HttpOptions<HttpServletRequest> options() {
        Map<?, ?> given = (Map<?, ?>) vector.get("options");
        HttpOptions<HttpServletRequest> options = IdemFilter.options(database.pool()).scope(request -> "shop");
        if (given.get("lease") != null) options.lease(Duration.ofMillis(number(given.get("lease"))));
        if (given.get("maxResponse") != null) options.maxResponse(number(given.get("maxResponse")));
        if ("rollback".equals(given.get("oversize"))) options.oversize(HttpOptions.Oversize.ROLLBACK);
        Set<Integer> stored = new HashSet<>();
        if (given.get("storeErrors") != null) ((List<?>) given.get("storeErrors")).forEach(each -> stored.add(number(each)));
        return options.storeErrors(stored);
    }

    private void handle(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException {
        IdemContext context = IdemFilter.context(request);
        try {
            if (does.get("writes_late") != null) handle = context.connection();
            if (does.get("background") != null) context.afterCommit(() -> background++);
            if (does.get("loses_connection") != null) context.connection().createStatement().execute("SELECT 1");
        } catch (SQLException error) {
            throw new ServletException(error);
        }
        if (does.get("throws") != null) throw new IllegalStateException((String) does.get("throws"));
        if (does.get("throws_sqlstate") != null) throw new ServletException(new SQLException("no", (String) does.get("throws_sqlstate")));
        if (does.get("throws_status") != null) response.sendError(number(does.get("throws_status")));
        if (does.get("streams") != null) {
            Map<?, ?> streams = (Map<?, ?>) does.get("streams");
            response.setStatus(number(streams.get("status")));
            for (Object chunk : (List<?>) streams.get("chunks")) {
                response.getOutputStream().write(new byte[number(chunk)]);
                response.getOutputStream().flush();
            }
        }
        if (does.get("responds") != null) {
            Map<?, ?> responds = (Map<?, ?>) does.get("responds");
            response.setStatus(number(responds.get("status")));
            if (responds.get("headers") != null)
                ((Map<?, ?>) responds.get("headers")).forEach((name, value) -> response.setHeader((String) name, (String) value));
            response.getOutputStream().write(((String) responds.get("body")).getBytes(StandardCharsets.UTF_8));
        }
    }

    private void check(Map<?, ?> expect) {
        compare("calls", database.calls, expect.get("calls"));
        compare("ran", ran, number(expect.get("ran")));
        Object sent = expect.get("sent");
        if (sent == null) {
            compare("the client is gone", thrown instanceof IOException, true);
        } else if (sent.equals("framework")) {
            boolean isStatus = does.get("throws_status") != null;
            compare("the framework's answer", isStatus ? status : thrown.getMessage(),
                isStatus ? (Object) number(does.get("throws_status")) : does.get("throws"));
        } else {
            if (thrown != null) wrong.add(thrown.toString());
            ((Map<?, ?>) sent).forEach((name, value) -> compare((String) name, sent((String) name), value instanceof Double ? number(value) : value));
        }
        if (does.get("streams") != null && status != null && status == 200)
            compare("calls before the first byte", callsAtFirstByte, database.calls.size());
        long[] times = database.looks.stream().mapToLong(nanoseconds -> nanoseconds / 1_000_000).toArray();
        if (times.length == 3)
            compare("looks at 0, 200 and 1000 ms: " + java.util.Arrays.toString(times), times[1] >= 200 && times[1] < 1000 && times[2] >= 1000, true);
    }

    private Object sent(String name) {
        switch (name) {
        case "status": return status;
        case "body": return body.toString(StandardCharsets.UTF_8);
        case "code": return body.toString(StandardCharsets.UTF_8).replaceAll("(?s).*\"code\": \"(\\w+)\".*", "$1");
        case "length": return body.size();
        case "retry_after": return headers.containsKey("Retry-After");
        case "replayed": return "true".equals(headers.get("Idempotent-Replayed"));
        case "background": return background;
        case "late_write":
            try {
                handle.createStatement();
                return "accepted";
            } catch (IllegalStateException error) {
                return error.getMessage().startsWith("the transaction is over") ? "refused" : error.getMessage();
            } catch (SQLException error) {
                return error.getMessage();
            }
        default: throw new IllegalArgumentException(name);
        }
    }

    private void compare(String name, Object found, Object wanted) {
        if (!wanted.equals(found)) wrong.add(name + ": " + found + ", not " + wanted);
    }

    private static int number(Object value) {
        return ((Double) value).intValue();
    }

    private HttpServletRequest request() {
        Map<String, Object> attributes = new HashMap<>();
        Object key = vector.get("key");
        return FakeDatabase.proxy(HttpServletRequest.class, (proxy, method, arguments) -> {
            switch (method.getName()) {
            case "getMethod": return key == null ? "PUT" : "POST";
            case "getRequestURI": return "/orders";
            case "getHeaders": return Collections.enumeration(key == null ? List.of() : List.of(key));
            case "getContentLengthLong": return -1L;
            case "getDispatcherType": return DispatcherType.REQUEST;
            case "getAttribute": return attributes.get(arguments[0]);
            case "setAttribute": return attributes.put((String) arguments[0], arguments[1]);
            case "removeAttribute": return attributes.remove(arguments[0]);
            case "getInputStream": return new Body("body".equals(does.get("gone")));
            case "getQueryString":
            case "getContentType":
            case "getCharacterEncoding": return null;
            default: throw new UnsupportedOperationException(method.getName());
            }
        });
    }

    private HttpServletResponse response() {
        return FakeDatabase.proxy(HttpServletResponse.class, (proxy, method, arguments) -> {
            switch (method.getName()) {
            case "setStatus": return status = (Integer) arguments[0];
            case "setHeader": return headers.put((String) arguments[0], (String) arguments[1]);
            case "getHeaders":
            case "getHeaderNames": return List.of();
            case "getOutputStream": return new Sent();
            case "setContentLength":
            case "addHeader": return null;
            default: throw new UnsupportedOperationException(method.getName());
            }
        });
    }

    private static final class Body extends ServletInputStream {
        private final boolean gone;

        Body(boolean gone) {
            this.gone = gone;
        }

        @Override
        public int read() throws IOException {
            if (gone) throw new IOException("the client is gone");
            return -1;
        }

        @Override
        public boolean isFinished() {
            return true;
        }

        @Override
        public boolean isReady() {
            return true;
        }

        @Override
        public void setReadListener(ReadListener listener) {}
    }

    private final class Sent extends ServletOutputStream {
        @Override
        public void write(int b) throws IOException {
            if ("work".equals(does.get("gone"))) throw new IOException("the client is gone");
            if (callsAtFirstByte < 0) callsAtFirstByte = database.calls.size();
            body.write(b);
        }

        @Override
        public boolean isReady() {
            return true;
        }

        @Override
        public void setWriteListener(WriteListener listener) {}
    }
}
