package idem.postgres;

import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * What a middleware does with one request whose body it has read: docs/http.md, "In a framework", and
 * tests/vectors/http_flow.json. The reply that comes back is committed, or nothing is: send it as it is, unless {@link
 * IdemContext#overflow} has.
 */
public final class HttpFlow {
    /** The application's part. An exception rolls back, frees the key, and is thrown to the middleware's caller. */
    public interface Handler {
        HttpReply run(IdemContext context) throws Exception;
    }

    private static final String COMMIT_UNKNOWN =
        "The connection to the database was lost in COMMIT. The request may have been processed.";
    private static final String TOO_LARGE = "The response is too large to be stored.";

    private final HttpOptions<?> options;

    /** @throws IllegalStateException the options have no scope, or do not go together */
    public HttpFlow(HttpOptions<?> options) {
        if (options.scope == null)
            throw new IllegalStateException("the option scope is required: the client and the API of a request");
        if (options.lease != null && options.oversize == HttpOptions.Oversize.ROLLBACK)
            throw new IllegalStateException("oversize ROLLBACK does not go with lease: what leased work has done cannot be rolled back");
        this.options = options;
    }

    public HttpReply handle(KeyedRequest request, Handler handler) throws Exception {
        Exchange exchange = new Exchange(request, handler);
        try {
            exchange.reply = options.lease == null ? exchange.inTransaction() : exchange.underLease();
        } catch (Exception error) {
            if (!exchange.isAnswered(error)) throw error;
            exchange.reply = exchange.failed(error);
        } finally {
            exchange.report();
        }
        return exchange.reply.with(exchange.added);
    }

    /** One request. */
    final class Exchange {
        private final KeyedRequest request;
        private final Handler handler;
        private final long started = System.nanoTime();
        private HttpAnswer.Action action = HttpAnswer.Action.REJECT; // until the handler runs
        private boolean inHandler;
        private boolean connectionLost; // while the handler ran
        private String key; // null: none, malformed, not used, or not known yet
        private Long fence;
        private Integer attempt; // leased mode, with onOutcome
        private Map<String, List<String>> added = Map.of(); // to each response from the claim on
        private HttpReply overflown; // what became of a response over maxResponse; null: none was
        private boolean headSent; // of that response
        private HttpReply reply; // null: the handler threw

        Exchange(KeyedRequest request, Handler handler) {
            this.request = request;
            this.handler = handler;
        }

        HttpReply inTransaction() throws Exception {
            Patience patience = patience();
            try (Flight flight = flight(patience); Transaction transaction = Transaction.begin(options.pool)) {
                if (needsAnswer()) {
                    HttpAnswer answer = begin(transaction.connection, null, options.wait == null ? null : patience.left());
                    if (answer.action() != HttpAnswer.Action.RUN) {
                        if (answer.isDoubt()) transaction.commit(); // it records the doubt
                        return answer.reply();
                    }
                }
                IdemContext context = new IdemContext(options, request, key, transaction, null);
                try {
                    return run(context);
                } finally {
                    context.close();
                }
            }
        }

        HttpReply underLease() throws Exception {
            Patience patience = patience();
            try (Flight flight = flight(patience)) {
                while (needsAnswer()) {
                    LeaseRunner runner = new LeaseRunner(options.lease);
                    HttpAnswer answer = Transaction.single(options.pool, connection -> {
                        runner.claiming();
                        HttpAnswer begun = begin(connection, options.lease, null);
                        if (begun.fence() != null && options.onOutcome != null) // one statement more, for the hook alone
                            attempt = functions(connection).lookup(begun.key()).map(KeyInfo::attempt).orElse(null);
                        return begun;
                    });
                    if (answer.action() != HttpAnswer.Action.RUN) {
                        if (answer.isInFlight() && patience.pause(null)) continue;
                        return answer.reply();
                    }
                    fence = answer.fence();
                    if (fence == null) break; // the request has no key
                    Lease lease = new Lease(options.pool, options.schema, request.scope, key, fence, null, runner);
                    if (lease.begin(null, options.lease, options.renewals)) return underLease(lease);
                    if (!patience.pause(null)) return leaseLost();
                }
                return underLease(null);
            }
        }

        private HttpReply underLease(Lease lease) throws Exception {
            IdemContext context = new IdemContext(options, request, key, null, lease);
            try {
                return run(context);
            } catch (Throwable error) {
                if (inHandler && !headSent) release(context, error);
                throw error;
            } finally {
                keep(context);
            }
        }

        private Patience patience() {
            return new Patience(options.wait == null ? Duration.ZERO : options.wait);
        }

        private Flight flight(Patience patience) throws InterruptedException {
            boolean waits = request.header != null && options.wait != null;
            return waits ? Flight.enter(patience, IdemDataSource.unwrap(options.pool), options.schema, "http", request.scope, request.header)
                : null;
        }

        /** Whether idem_http_begin is to decide on the request. */
        private boolean needsAnswer() {
            return request.header != null || options.keyRequired;
        }

        private HttpAnswer begin(Connection connection, Duration lease, Duration wait) throws SQLException {
            HttpAnswer answer = functions(connection).httpBegin(request, lease, wait, options.ttl);
            action = answer.action();
            key = answer.key();
            if (action == HttpAnswer.Action.RUN) added = answer.headers();
            return answer;
        }

        private HttpReply run(IdemContext context) throws Exception {
            action = HttpAnswer.Action.RUN;
            inHandler = true;
            context.onOverflow = head -> overflow(context, head);
            try {
                HttpReply made = context.run(handler);
                inHandler = false;
                return overflown == null ? complete(context, made) : overflown;
            } catch (Exception error) {
                if (overflown != null && !headSent) return overflown;
                connectionLost = context.isBroken();
                throw error;
            }
        }

        private HttpReply complete(IdemContext context, HttpReply made) throws Exception {
            if (made.isEncoded()) return encoded(context);
            if (made.isThrown() && !options.storeErrors.contains(made.status())) return unstored(context, made);
            if (key == null && (options.lease != null || !needsAnswer()))
                return context.hasTransaction() ? commit(context, made, true) : made;
            if (context.lease().isPresent() && !context.lease().get().end()) return leaseLost(context);
            return fence != null && !context.hasTransaction() ? completeAlone(context, made) : complete(context, made, false);
        }

        /** In leased mode without rows the same completion can be sent again. */
        private HttpReply completeAlone(IdemContext context, HttpReply made) throws Exception {
            for (int attempt = 0;; attempt++) {
                Thread.sleep(Transaction.LOOKS[attempt]);
                try {
                    return complete(context, made, attempt + 1 < Transaction.LOOKS.length);
                } catch (SQLException error) {
                    if (!SqlState.isPassing(error) || attempt + 1 == Transaction.LOOKS.length) throw error;
                    options.logger.log(Level.WARNING, "could not complete a key, trying again", error);
                    context.forgetTransaction();
                }
            }
        }

        /** @param repeats a COMMIT that is lost is an exception, so that the caller completes again */
        private HttpReply complete(IdemContext context, HttpReply made, boolean repeats) throws SQLException, InterruptedException {
            HttpStored stored;
            try {
                stored = store(context, made, false);
            } catch (IdemException.StaleFence error) {
                if (fence != null) return leaseLost(context);
                throw new SQLException("the handler has ended the transaction that holds the key", error.getSQLState(), error);
            } catch (SQLException error) {
                String state = SqlState.of(error);
                if (state.equals("25000")) return unstored(context, made);
                if (state.equals("25P02") && made.status() >= 400) return kept(context, made); // the handler has answered an SQL error
                throw error;
            }
            if (stored == HttpStored.RELEASED) return unstored(context, made);
            if (stored == HttpStored.OMITTED && options.oversize == HttpOptions.Oversize.ROLLBACK) return tooLarge(context);
            if (stored == HttpStored.OMITTED) warnOmitted();
            return commit(context, made, !repeats);
        }

        /**
         * The response is over maxResponse: without its body the key is completed and committed. Returns the head with
         * which the body can be sent now, or another reply.
         */
        private HttpReply overflow(IdemContext context, HttpReply head) {
            try {
                overflown = overflowed(context, head).with(added);
                headSent = overflown.isOf(head);
            } catch (Exception error) {
                overflown = kept(context, failed(error));
            }
            return overflown;
        }

        private HttpReply overflowed(IdemContext context, HttpReply head) throws Exception {
            if (head.isEncoded()) return encoded(context);
            if (options.oversize == HttpOptions.Oversize.ROLLBACK) return tooLarge(context);
            if (key != null) {
                if (context.lease().isPresent() && !context.lease().get().end()) return leaseLost(context);
                if (store(context, head, true) == HttpStored.RELEASED) return unstored(context, head);
                warnOmitted();
            }
            return key != null || context.hasTransaction() ? commit(context, head, true) : head;
        }

        private HttpStored store(IdemContext context, HttpReply made, boolean omit) throws SQLException {
            return functions(context.transaction().connection).httpComplete(key == null ? request.keyless() : request, made, fence, omit);
        }

        private HttpReply commit(IdemContext context, HttpReply made, boolean looks) throws SQLException, InterruptedException {
            try {
                context.commit();
                return made;
            } catch (SQLException error) {
                if (SqlState.of(error).equals("25P02")) {
                    options.logger.log(Level.ERROR, "COMMIT has rolled back", error);
                    return kept(context, HttpReply.problem(500, "rolled_back", "The transaction was rolled back."));
                }
                if (SqlState.isDefinite(error) || !looks) throw error;
                options.logger.log(Level.WARNING, "the connection was lost in COMMIT", error);
                context.close();
            }
            if (key == null) return HttpReply.problem(500, "commit_unknown", COMMIT_UNKNOWN);
            return lookAgain();
        }

        /** The same begin again, rolled back: it tells what became of the COMMIT. */
        private HttpReply lookAgain() throws InterruptedException {
            for (long pause : Transaction.LOOKS) {
                Thread.sleep(pause);
                try (Transaction transaction = Transaction.begin(options.pool)) {
                    HttpAnswer answer = begin(transaction.connection, null, null);
                    if (answer.action() == HttpAnswer.Action.REPLAY) return answer.reply();
                    if (answer.action() == HttpAnswer.Action.RUN)
                        return retryLater("not_committed", "The connection to the database was lost, and the request was not processed.");
                } catch (SQLException error) {
                    options.logger.log(Level.WARNING, "could not look up a stored response", error);
                }
            }
            return retryLater("commit_unknown", COMMIT_UNKNOWN);
        }

        private HttpReply leaseLost(IdemContext context) {
            options.logger.log(Level.WARNING, "a lease was lost, and the transaction of its handler is rolled back");
            context.close();
            return leaseLost();
        }

        private HttpReply leaseLost() {
            return retryLater("lease_lost", "The lease ran out, and another request took over.");
        }

        private HttpReply encoded(IdemContext context) {
            String why = "The response has a Content-Encoding. Compression belongs outside of the middleware.";
            options.logger.log(Level.ERROR, why + " " + printable(request.route));
            return kept(context, HttpReply.problem(500, "response_encoded", why));
        }

        private HttpReply tooLarge(IdemContext context) {
            return unstored(context, HttpReply.problem(500, "response_too_large", TOO_LARGE));
        }

        private void warnOmitted() {
            options.logger.log(Level.WARNING, "{0} {1}: the response is too large to be stored. A retry gets none",
                request.method, printable(request.route));
        }

        private HttpReply unstored(IdemContext context, HttpReply made) {
            release(context, null);
            return made;
        }

        /** Leased work has run, and cannot be undone: what cannot be stored keeps its key, until the lease ends. */
        private HttpReply kept(IdemContext context, HttpReply made) {
            keep(context);
            return made;
        }

        private void keep(IdemContext context) {
            context.close();
            context.lease().ifPresent(Lease::end);
        }

        /** Rolls back, and frees a leased key. Its steps are kept. */
        private void release(IdemContext context, Throwable error) {
            context.close();
            context.lease().ifPresent(lease -> lease.abandon(false, error == null ? new Exception() : error));
        }

        /** Whether the middleware has an answer to the exception; else it is the framework's. */
        boolean isAnswered(Exception error) {
            return !inHandler || connectionLost || SqlState.isRetryable(error) || SqlState.isUnavailable(error);
        }

        /** Everything is rolled back. */
        HttpReply failed(Exception error) {
            boolean conflict = SqlState.isRetryable(error), unavailable = connectionLost || SqlState.isUnavailable(error);
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

        void report() {
            HttpOutcome outcome = new HttpOutcome(request, key, action, reply, Duration.ofNanos(System.nanoTime() - started), fence,
                fence == null ? null : attempt);
            Telemetry.note(outcome);
            if (request.header != null)
                options.logger.log(Level.INFO, "{0} {1}: scope {2}, key {3}: {4}, {5}, {6} ms",
                    request.method, printable(request.route), printable(request.scope),
                    printable(key == null ? request.header : key),
                    action.name().toLowerCase(Locale.ROOT), Integer.toString(outcome.status()),
                    Long.toString(outcome.duration().toMillis()));
            if (options.onOutcome == null) return;
            try {
                options.onOutcome.accept(outcome);
            } catch (RuntimeException error) {
                options.logger.log(Level.ERROR, "onOutcome failed", error);
            }
        }

        private String printable(String text) {
            return text.replaceAll("[^\\x20-\\x7e]", "?");
        }
    }
}
