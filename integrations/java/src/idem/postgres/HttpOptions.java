package idem.postgres;

import java.lang.System.Logger;
import java.time.Duration;
import java.util.Objects;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;
import javax.sql.DataSource;

/**
 * What a filter, or another middleware on {@link HttpFlow}, does with requests. Only the pool and {@link #scope} are
 * required.
 *
 * @param <R> the middleware's request
 */
public final class HttpOptions<R> implements Cloneable {
    final DataSource pool;
    DataSource renewals;
    Function<R, String> scope;
    Function<R, String> route;
    String header = "Idempotency-Key";
    Set<String> methods; // null: all but those that are safe
    boolean keyRequired = true;
    Duration lease;
    Duration wait;
    Duration ttl;
    int maxBody = 1 << 20;
    int maxResponse = 1 << 20;
    Oversize oversize = Oversize.OMIT;
    Set<Integer> storeErrors = Set.of();
    Function<R, byte[]> fingerprint = request -> null;
    Function<R, String> keyFrom; // null: none
    Predicate<R> skip = request -> false;
    BiFunction<HttpReply, R, HttpReply> onError = (problem, request) -> problem;
    BiFunction<HttpOptions<R>, R, HttpOptions<R>> perRoute = (options, request) -> options;
    String schema = "idem";
    Consumer<HttpOutcome> onOutcome; // null: none
    Logger logger = System.getLogger("idem.postgres");

    /** What becomes of a response that is over {@link #maxResponse}, or over the scope's max_response_size. */
    public enum Oversize {
        /** It is sent and not stored: a retry gets its status and header fields. */
        OMIT,
        /** Everything is rolled back, and the answer is 500. */
        ROLLBACK
    }

    private static final Set<String> SAFE_METHODS = Set.of("GET", "HEAD", "OPTIONS", "TRACE");

    /**
     * Each request takes one connection of the pool for as long as its handler runs; in leased mode, for each call of
     * idem's.
     */
    public HttpOptions(DataSource pool) {
        this.pool = Objects.requireNonNull(pool);
        renewals = pool;
    }

    /**
     * Required: the space in which the request's key is unique. It names the authenticated client and the API, because
     * clients choose their keys. Null and "" are errors (500). Return null for a client that is not authenticated: a
     * scope such as "shop:null" would be shared by all of them.
     */
    public HttpOptions<R> scope(Function<R, String> scope) {
        this.scope = scope;
        return this;
    }

    /** The scopes become those of a family (docs/scopes.md): {@code payments/17} where {@link #scope}, set before, says 17. */
    public HttpOptions<R> family(String family) {
        Objects.requireNonNull(family);
        Function<R, String> member = Objects.requireNonNull(scope, "set the scope before its family");
        scope = request -> {
            String name = member.apply(request);
            return name == null || name.isEmpty() ? name : family + "/" + name;
        };
        return this;
    }

    /** What the request is for, a part of its fingerprint. Default: the path with the query. */
    public HttpOptions<R> route(Function<R, String> route) {
        this.route = Objects.requireNonNull(route);
        return this;
    }

    /** The name of the header field. Default: Idempotency-Key. */
    public HttpOptions<R> header(String header) {
        this.header = Objects.requireNonNull(header);
        return this;
    }

    /**
     * Methods for which the filter acts even when the request has no key. A request with a key is always handled.
     * Default: all but GET, HEAD, OPTIONS and TRACE.
     */
    public HttpOptions<R> methods(Set<String> methods) {
        this.methods = Set.copyOf(methods);
        return this;
    }

    /**
     * False: without a key the handler runs in a plain transaction. Default, true: the scope decides (400 for POST
     * and PATCH).
     */
    public HttpOptions<R> keyRequired(boolean keyRequired) {
        this.keyRequired = keyRequired;
        return this;
    }

    /**
     * Leased mode, for handlers that call other systems, and how long a handler may be silent. It is renewed every
     * third of it.
     */
    public HttpOptions<R> lease(Duration lease) {
        this.lease = lease;
        return this;
    }

    /**
     * The pool for the renewals of leases. One connection is enough. Work that exhausts the other pool then loses no
     * lease. Default: the same pool.
     */
    public HttpOptions<R> renewals(DataSource renewals) {
        this.renewals = Objects.requireNonNull(renewals);
        return this;
    }

    /** How long to wait for another request with the same key before the answer is 409. Default: not at all. */
    public HttpOptions<R> wait(Duration wait) {
        this.wait = wait;
        return this;
    }

    /** How long the key and its response are kept. Default: the scope's ttl, else idem.default_ttl (24 hours). */
    public HttpOptions<R> ttl(Duration ttl) {
        this.ttl = ttl;
        return this;
    }

    /** The greatest size of a request's body in bytes; beyond it the answer is 413. Default: 1 MiB. */
    public HttpOptions<R> maxBody(int bytes) {
        this.maxBody = bytes;
        return this;
    }

    /** The schema of the extension. Default: idem. */
    public HttpOptions<R> schema(String schema) {
        this.schema = Objects.requireNonNull(schema);
        return this;
    }

    /** The greatest size of a response's body in bytes that is kept in memory, and stored. Default: 1 MiB. */
    public HttpOptions<R> maxResponse(int bytes) {
        this.maxResponse = bytes;
        return this;
    }

    /** Default: OMIT. */
    public HttpOptions<R> oversize(Oversize oversize) {
        this.oversize = Objects.requireNonNull(oversize);
        return this;
    }

    /** HTTP errors of these statuses are stored as responses, although they were thrown. Default: none. */
    public HttpOptions<R> storeErrors(Set<Integer> statuses) {
        this.storeErrors = Set.copyOf(statuses);
        return this;
    }

    /**
     * What tells a request from others with its key, in place of route and body; null: these. Default: null.
     */
    public HttpOptions<R> fingerprint(Function<R, byte[]> fingerprint) {
        this.fingerprint = Objects.requireNonNull(fingerprint);
        return this;
    }

    /** The key of a request without the header field, such as from its body, in the form of the field; null: none. */
    public HttpOptions<R> keyFrom(Function<R, String> keyFrom) {
        this.keyFrom = Objects.requireNonNull(keyFrom);
        return this;
    }

    /** Requests that pass by, whether they have a key or not. */
    public HttpOptions<R> skip(Predicate<R> skip) {
        this.skip = Objects.requireNonNull(skip);
        return this;
    }

    /**
     * The options of a request's route, such as a changed {@link #copy}; null: the request passes by. Header and methods are
     * those of these options. Default: these options.
     */
    public HttpOptions<R> perRoute(BiFunction<HttpOptions<R>, R, HttpOptions<R>> perRoute) {
        this.perRoute = Objects.requireNonNull(perRoute);
        return this;
    }

    /**
     * Another body and other header fields for an error of idem's or of the middleware's, by {@link HttpReply#code}. Its
     * status stays, and so do header fields that the new reply does not have.
     */
    public HttpOptions<R> onError(BiFunction<HttpReply, R, HttpReply> onError) {
        this.onError = Objects.requireNonNull(onError);
        return this;
    }

    /** For metrics; called before the response is sent. What it throws is logged. */
    public HttpOptions<R> onOutcome(Consumer<HttpOutcome> onOutcome) {
        this.onOutcome = Objects.requireNonNull(onOutcome);
        return this;
    }

    /**
     * One line for each request with a key (INFO), and errors. Default: the logger idem.postgres of {@link
     * System#getLogger}.
     */
    public HttpOptions<R> logger(Logger logger) {
        this.logger = Objects.requireNonNull(logger);
        return this;
    }

    /** The same options, to be changed. */
    @SuppressWarnings("unchecked")
    public HttpOptions<R> copy() {
        try {
            return (HttpOptions<R>) clone();
        } catch (CloneNotSupportedException error) {
            throw new AssertionError(error);
        }
    }

    // For middlewares.

    /** As {@link #perRoute} says; null: the request passes by. */
    public HttpOptions<R> ofRoute(R request) {
        return perRoute.apply(this, request);
    }

    public String header() {
        return header;
    }

    public int maxBody() {
        return maxBody;
    }

    public int maxResponse() {
        return maxResponse;
    }

    public Logger logger() {
        return logger;
    }

    /** False: the request passes by. Null for field: it has no key in its header. */
    public boolean handles(R request, String method, String field) {
        return !skip.test(request) && handles(method, field);
    }

    private boolean handles(String method, String field) {
        return field != null || (methods == null ? !SAFE_METHODS.contains(method) : methods.contains(method));
    }

    /** @throws IllegalStateException there is no scope for this request */
    public KeyedRequest keyed(R request, String method, String pathWithQuery, String field, byte[] body) {
        String space = scope.apply(request);
        if (space == null || space.isEmpty()) throw new IllegalStateException("the scope function returned no scope");
        String key = field == null && keyFrom != null ? keyFrom.apply(request) : field;
        return new KeyedRequest(space, method, route == null ? pathWithQuery : route.apply(request), key, body)
            .fingerprint(fingerprint.apply(request));
    }

    /** What to send: an error in the form that {@link #onError} gives it. */
    public HttpReply shaped(HttpReply reply, R request) {
        if (reply.code() == null) return reply;
        HttpReply shaped = onError.apply(reply, request);
        return shaped == reply ? reply : new HttpReply(reply.status(), shaped.headers(), shaped.body()).with(reply.headers());
    }
}
