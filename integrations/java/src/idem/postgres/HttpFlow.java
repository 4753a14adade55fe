package idem.postgres;

import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * What a middleware does with one request whose body it has read: docs/http.md, "In a framework". The reply that
 * comes back is committed, or nothing is: send it as it is.
 */
public final class HttpFlow {
    /** The application's part. An exception rolls back, frees the key, and is thrown to the middleware's caller. */
    public interface Handler {
        HttpReply run(IdemContext context) throws Exception;
    }

    private static final String COMMIT_UNKNOWN =
        "The connection to the database was lost in COMMIT. The request may have been processed.";

    private final HttpOptions<?> options;

    /** @throws IllegalStateException the options have no scope */
    public HttpFlow(HttpOptions<?> options) {
        if (options.scope == null)
            throw new IllegalStateException("the option scope is required: the client and the API of a request");
        this.options = options;
    }

    public HttpReply handle(KeyedRequest request, Handler handler) throws Exception {
        Exchange exchange = new Exchange(request, handler);
        try {
            exchange.reply = options.lease == null ? exchange.inTransaction() : exchange.underLease();
        } catch (Exception error) {
            if (exchange.inHandler && !SqlState.isRetryable(error)) throw error;
            exchange.reply = exchange.failed(error);
        } finally {
            exchange.report();
        }
        return exchange.reply.with(exchange.added);
    }

    /** One request. */
    private final class Exchange {
        private final KeyedRequest request;
        private final Handler handler;
        private final long started = System.nanoTime();
        private HttpAnswer.Action action = HttpAnswer.Action.REJECT; // until the handler runs
        private boolean inHandler;
        private String key; // null: none, malformed, not used, or not known yet
        private Long fence;
        private Map<String, List<String>> added = Map.of(); // to each response from the claim on
        private HttpReply reply; // null: the handler threw

        Exchange(KeyedRequest request, Handler handler) {
            this.request = request;
            this.handler = handler;
        }

        HttpReply inTransaction() throws Exception {
            try (Transaction transaction = Transaction.begin(options.pool)) {
                if (needsAnswer()) {
                    HttpAnswer answer = begin(transaction.connection, null);
                    if (answer.action() != HttpAnswer.Action.RUN) return answer.reply();
                }
                return run(new IdemContext(options, request, key, transaction, null));
            }
        }

        HttpReply underLease() throws Exception {
            Lease lease = null;
            if (needsAnswer()) {
                long granted = System.nanoTime();
                HttpAnswer answer = Transaction.single(options.pool, connection -> begin(connection, options.lease));
                if (answer.action() != HttpAnswer.Action.RUN) return answer.reply();
                fence = answer.fence();
                if (fence != null)
                    lease = new Lease(options.pool, options.schema, request.scope, key, fence, options.lease, granted);
            }
            IdemContext context = new IdemContext(options, request, key, null, lease);
            try {
                return run(context);
            } catch (Throwable error) {
                release(context);
                throw error;
            } finally {
                context.close();
            }
        }

        /** Whether idem_http_begin is to decide on the request. */
        private boolean needsAnswer() {
            return request.header != null || options.keyRequired;
        }

        private HttpAnswer begin(Connection connection, Duration lease) throws SQLException {
            HttpAnswer answer = functions(connection).httpBegin(request, lease, options.wait, options.ttl);
            action = answer.action();
            key = answer.key();
            if (action == HttpAnswer.Action.RUN) added = answer.headers();
            return answer;
        }

        private HttpReply run(IdemContext context) throws Exception {
            action = HttpAnswer.Action.RUN;
            inHandler = true;
            HttpReply made = context.run(handler);
            inHandler = false;
            return options.rollbackOn.test(made.status()) ? unstored(context, made) : complete(context, made);
        }

        private HttpReply complete(IdemContext context, HttpReply made) throws SQLException {
            if (key == null) return context.hasTransaction() ? commit(context, made) : made;
            context.lease().ifPresent(Lease::end);
            try {
                IdemFunctions functions = functions(context.transaction().connection);
                if (functions.httpComplete(request, made, fence) == HttpStored.RELEASED) return unstored(context, made);
            } catch (IdemException.StaleFence error) {
                if (fence == null) throw error;
                options.logger.log(Level.WARNING, "a lease was lost, and the transaction of its handler is rolled back");
                context.close();
                return lookAgain(retryLater("lease_lost", "The lease ran out, and another request took over."));
            } catch (SQLException error) {
                String state = SqlState.of(error);
                boolean answered = state.equals("25P02") && made.status() >= 400; // the handler has answered an SQL error
                if (answered || state.equals("25000")) return unstored(context, made);
                throw error;
            }
            return commit(context, made);
        }

        private HttpReply commit(IdemContext context, HttpReply made) throws SQLException {
            try {
                context.transaction().commit();
                return made;
            } catch (SQLException error) {
                if (SqlState.isDefinite(error)) throw error;
                options.logger.log(Level.WARNING, "the connection was lost in COMMIT", error);
                context.close();
            }
            if (key == null) return HttpReply.problem(500, "commit_unknown", COMMIT_UNKNOWN);
            return lookAgain(retryLater("commit_unknown", COMMIT_UNKNOWN));
        }

        /** The stored response if this request, or another one with its key, has committed. */
        private HttpReply lookAgain(HttpReply otherwise) {
            try (Transaction transaction = Transaction.begin(options.pool)) {
                HttpAnswer answer = begin(transaction.connection, null);
                return answer.action() == HttpAnswer.Action.REPLAY ? answer.reply() : otherwise;
            } catch (SQLException error) {
                options.logger.log(Level.WARNING, "could not look up a stored response", error);
                return otherwise;
            }
        }

        private HttpReply unstored(IdemContext context, HttpReply made) {
            release(context);
            return made;
        }

        /** Rolls back, and frees a leased key. Its steps are kept. */
        private void release(IdemContext context) {
            context.close();
            try {
                if (context.lease().isPresent()) context.lease().get().release();
            } catch (SQLException error) { // the lease runs out
                options.logger.log(Level.WARNING, "could not release a key", error);
            }
        }

        /** Everything is rolled back. */
        private HttpReply failed(Exception error) {
            boolean conflict = SqlState.isRetryable(error), unavailable = SqlState.isUnavailable(error);
            options.logger.log(conflict || unavailable ? Level.WARNING : Level.ERROR, "could not handle a request", error);
            if (conflict) return retryLater("serialization_failure", "The transaction met another one and was rolled back.");
            return unavailable ? retryLater("unavailable", "The database is not available.") : HttpReply.internalError();
        }

        private HttpReply retryLater(String code, String detail) {
            String hint = request.header == null ? " Send the request again." : " Send the request again with the same key.";
            return HttpReply.problem(503, code, detail + hint, "Retry-After", "1");
        }

        private IdemFunctions functions(Connection connection) {
            return new IdemFunctions(connection, options.schema, request.scope);
        }

        private void report() {
            int status = reply == null ? 500 : reply.status();
            Duration duration = Duration.ofNanos(System.nanoTime() - started);
            if (request.header != null)
                options.logger.log(Level.INFO, "{0} {1}: scope {2}, key {3}: {4}, {5}, {6} ms",
                    request.method, printable(request.route), printable(request.scope),
                    printable(key == null ? request.header : key),
                    action.name().toLowerCase(Locale.ROOT), Integer.toString(status), Long.toString(duration.toMillis()));
            try {
                options.onOutcome.accept(new HttpOutcome(request, key, action, status, duration, fence));
            } catch (RuntimeException error) {
                options.logger.log(Level.ERROR, "onOutcome failed", error);
            }
        }

        private String printable(String text) {
            return text.replaceAll("[^\\x20-\\x7e]", "?");
        }
    }
}
