package idem.postgres.servlet;

import idem.postgres.HttpFlow;
import idem.postgres.HttpOptions;
import idem.postgres.HttpReply;
import idem.postgres.IdemContext;
import idem.postgres.KeyedRequest;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.servlet.DispatcherType;
import javax.servlet.Filter;
import javax.servlet.FilterChain;
import javax.servlet.FilterConfig;
import javax.servlet.ServletException;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import javax.sql.DataSource;

/**
 * Requests with an Idempotency-Key, once each. The handler runs in the transaction that claims the key, its response
 * is stored in the same transaction, and sent after the commit. {@link #context} has the transaction.
 *
 * <p>The filter reads the body: it comes after the filters that authenticate, and before those that call getParameter
 * or read. A filter that compresses comes before it. Handlers that are asynchronous are refused with 500; leave their
 * routes out.
 */
public final class IdemFilter implements Filter {
    private static final String ATTRIBUTE = IdemFilter.class.getName();
    private static final Pattern BOUNDARY = Pattern.compile("^multipart/.*boundary=\"?([^\";]+)", Pattern.CASE_INSENSITIVE);

    private final HttpOptions<HttpServletRequest> options;

    /** @throws IllegalStateException the options have no scope, or do not go together */
    public IdemFilter(HttpOptions<HttpServletRequest> options) {
        new HttpFlow(options); // checks them
        this.options = options;
    }

    /** Options for the constructor, still without a scope. */
    public static HttpOptions<HttpServletRequest> options(DataSource pool) {
        return new HttpOptions<>(pool);
    }

    /**
     * The context of a request, for its handler. Null: the filter does not handle this request (such as a GET without a
     * key).
     */
    public static IdemContext context(ServletRequest request) {
        return (IdemContext) request.getAttribute(ATTRIBUTE);
    }

    @Override
    public void init(FilterConfig config) {}

    @Override
    public void destroy() {}

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
        throws IOException, ServletException {
        HttpServletRequest http = (HttpServletRequest) request;
        List<String> fields = Collections.list(http.getHeaders(options.header()));
        String field = fields.isEmpty() ? null : String.join(", ", fields);
        if (context(request) != null || !isFirst(request.getDispatcherType()) || !options.handles(http, http.getMethod(), field)) {
            chain.doFilter(request, response);
            return;
        }
        LookupRequest looked = new LookupRequest(http, options.maxBody());
        HttpOptions<HttpServletRequest> route;
        HttpFlow flow;
        try {
            route = options.ofRoute(looked);
            flow = route == null ? null : new HttpFlow(route);
        } catch (RuntimeException error) {
            options.logger().log(Level.ERROR, "could not look up a route, or its options", error);
            send(options.shaped(HttpReply.internalError(), http), http, (HttpServletResponse) response);
            return;
        }
        if (route == null) chain.doFilter(looked.kept(), response);
        else handle(route, flow, http, looked, field, (HttpServletResponse) response, chain);
    }

    /** The dispatch of an error page, or of an asynchronous handler, belongs to a request that was handled, or passed by. */
    private static boolean isFirst(DispatcherType type) {
        return type != DispatcherType.ERROR && type != DispatcherType.ASYNC;
    }

    /**
     * A fingerprint for requests that may be multipart: of their path with its query and of their body without the
     * boundary, which is another one in each attempt. For other requests null: the usual fingerprint.
     */
    public static Function<HttpServletRequest, byte[]> multipart() {
        return request -> {
            Matcher boundary = BOUNDARY.matcher(request.getContentType() == null ? "" : request.getContentType());
            if (!boundary.find()) return null;
            String body = new String(((BufferedRequest) request).body(), StandardCharsets.ISO_8859_1);
            return (pathWithQuery(request) + "\n" + body.replace(boundary.group(1), "")).getBytes(StandardCharsets.UTF_8);
        };
    }

    private static void handle(HttpOptions<HttpServletRequest> options, HttpFlow flow, HttpServletRequest request, LookupRequest looked,
        String field, HttpServletResponse response, FilterChain chain) throws IOException, ServletException {
        BufferedResponse made = new BufferedResponse(response, options.maxResponse());
        BufferedRequest buffered;
        KeyedRequest keyed;
        try {
            byte[] body = BufferedRequest.read(looked, options.maxBody());
            if (body == null) {
                String detail = "The body has more than " + options.maxBody() + " bytes.";
                send(options.shaped(HttpReply.problem(413, "body_too_large", detail), request), request, response);
                return;
            }
            keyed = options.keyed(new BufferedRequest(request, body, made), request.getMethod(), pathWithQuery(request), field, body)
                .contentType(request.getContentType());
            buffered = new BufferedRequest(request, body, made); // the functions above may have read the other one
        } catch (RuntimeException error) {
            options.logger().log(Level.ERROR, "could not read a request, or tell its scope or route", error);
            send(options.shaped(HttpReply.internalError(), request), request, response);
            return;
        }
        HttpReply reply;
        try {
            reply = flow.handle(keyed, context -> {
                request.setAttribute(ATTRIBUTE, context);
                made.onOverflow(context::overflow);
                try {
                    chain.doFilter(buffered, made);
                } finally {
                    request.removeAttribute(ATTRIBUTE);
                }
                return made.reply();
            });
        } catch (Exception error) {
            if (made.refusal() == null || made.isPassing()) throw thrown(error);
            options.logger().log(Level.ERROR, pathWithQuery(request) + ": " + made.refusal(), error);
            reply = HttpReply.problem(500, "asynchronous", made.refusal());
        }
        if (made.isPassing()) return;
        if (made.isReply(reply)) made.sendCookies();
        send(options.shaped(reply, buffered), request, response);
    }

    private static ServletException thrown(Exception error) throws IOException {
        if (error instanceof IOException) throw (IOException) error;
        if (error instanceof RuntimeException) throw (RuntimeException) error;
        return error instanceof ServletException ? (ServletException) error : new ServletException(error);
    }

    private static String pathWithQuery(HttpServletRequest request) {
        String query = request.getQueryString();
        return query == null ? request.getRequestURI() : request.getRequestURI() + "?" + query;
    }

    private static void send(HttpReply reply, HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setStatus(reply.status());
        BufferedResponse.sendHeaders(reply, response);
        boolean hasBody = reply.body() != null && reply.body().length > 0;
        if (hasBody || !BufferedResponse.isBodiless(reply.status()) && !request.getMethod().equals("HEAD"))
            response.setContentLength(hasBody ? reply.body().length : 0);
        if (hasBody) response.getOutputStream().write(reply.body());
    }
}
