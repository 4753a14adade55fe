import idem.postgres.Answer;
import idem.postgres.Claim;
import idem.postgres.Fate;
import idem.postgres.FlowException;
import idem.postgres.HeldLock;
import idem.postgres.HttpOptions;
import idem.postgres.HttpFlow;
import idem.postgres.HttpReply;
import idem.postgres.IdemFunctions;
import idem.postgres.IdemSchema;
import idem.postgres.JdbcIdem;
import idem.postgres.KeyedRequest;
import idem.postgres.Message;
import idem.postgres.Outcome;
import idem.postgres.RowAnswer;
import idem.postgres.TakenMessage;
import idem.postgres.Ticket;
import idem.postgres.TokenOutcome;
import idem.postgres.Transition;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.postgresql.ds.PGSimpleDataSource;

/** The typed functions and the flows. */
final class Functions {
    private static final Duration SECONDS = Duration.ofSeconds(60);

    private final JdbcIdem idem;
    private final PGSimpleDataSource pool = new PGSimpleDataSource();

    private Functions() {
        pool.setURL(System.getProperty("database.url"));
        idem = new JdbcIdem(pool).inScope("it's \"odd\"");
    }

    public static void main(String[] arguments) {
        Functions tests = new Functions();
        Tap.test("keys", tests::keys);
        Tap.test("leases", tests::leases);
        Tap.test("locks", tests::locks);
        Tap.test("tokens, messages, machines, numbers", tests::others);
        Tap.test("requests", tests::requests);
        Tap.test("rows", tests::rows);
        Tap.test("flows", tests::flows);
        Tap.test("flows without an answer", tests::missingAnswers);
        Tap.test("HTTP", tests::http);
        Tap.test("texts", tests::texts);
        Tap.test("errors", tests::errors);
        Tap.test("the schema", tests::schema);
        Tap.test("a schema that another role made", tests::squatter);
        System.exit(Tap.end());
    }

    private void schema() throws Exception {
        String name = "java \"pods\" %";
        Tap.is(IdemSchema.status(pool, "pods").needs(), "install", "nothing is installed");
        Tap.is(message(() -> IdemSchema.verify(pool, "pods")), "idem is not installed in schema \"pods\"; call IdemSchema.install", "and the application learns that");
        List<String> found = java.util.Collections.synchronizedList(new ArrayList<>());
        List<Thread> pods = new ArrayList<>();
        for (int i = 0; i < 4; i++) pods.add(new Thread(() -> found.add(message(() -> found.add(IdemSchema.install(pool, "pods").version())))));
        for (Thread pod : pods) pod.start();
        for (Thread pod : pods) pod.join();
        found.removeIf(java.util.Objects::isNull);
        Tap.is(found, List.of("1.0.0", "1.0.0", "1.0.0", "1.0.0"), "pods that start at once queue");
        IdemSchema.verify(pool, "pods");
        try (Connection connection = pool.getConnection(); var statement = connection.createStatement()) {
            String version = "CREATE OR REPLACE FUNCTION pods.idem_version(OUT edition text, OUT version text, OUT server text) LANGUAGE sql AS $$ SELECT 'portable', '%s', '' $$";
            statement.execute(String.format(version, "0.9.12"));
            Tap.is(message(() -> IdemSchema.verify(pool, "pods")),
                "schema \"pods\" has idem 0.9.12, which is older than this jar (1.0.0); call IdemSchema.install", "an older installation");
            Tap.is(IdemSchema.install(pool, "pods").needs(), null, "is upgraded");
            statement.execute(String.format(version, "1.10.0"));
            Tap.is(message(() -> IdemSchema.install(pool, "pods")), "schema \"pods\" has idem 1.10.0, which is newer than this jar (1.0.0)", "a newer one is left");
        }
        IdemSchema.uninstall(pool, "pods");
        Tap.is(IdemSchema.status(pool, "pods").edition(), null, "nothing is left");
        Tap.ok(message(() -> IdemSchema.install(pool, name)).contains("is not supported"), "a name that is not supported is refused");
        Tap.ok(IdemSchema.status(pool, "idem").needs() == null, "idem is here");
        String refused = message(() -> IdemSchema.install(pool));
        Tap.ok(refused == null || refused.contains("must be owner of schema idem"), "and is left");
        Tap.ok(IdemSchema.script().startsWith("-- idem 1.0.0, the portable edition"), "the script is for a migration tool");
    }

    private void squatter() throws Exception {
        try (Connection connection = pool.getConnection(); var statement = connection.createStatement()) {
            statement.execute(Files.readString(Path.of("tests/integrations/squatter.sql")));
            try {
                Tap.is(sqlstate(() -> IdemSchema.install(pool, "squatted")), "PSQLException 42501", "install in another role's schema");
                Tap.is(IdemSchema.status(pool, "squatted").version(), "9.0.0", "status reads the catalog");
                IdemSchema.verify(pool, "squatted");
                statement.execute("ALTER SCHEMA squatted OWNER TO CURRENT_USER");
                Tap.is(sqlstate(() -> IdemSchema.install(pool, "squatted")), "PSQLException 55000", "another role's function");
                try (var rows = statement.executeQuery("SELECT * FROM squatted.callers")) {
                    Tap.ok(!rows.next(), "none of its code runs");
                }
            } finally {
                statement.execute("DROP SCHEMA squatted CASCADE; DROP ROLE squatter");
            }
        }
    }

    private interface Action {
        void run() throws Exception;
    }

    private static String message(Action action) {
        try {
            action.run();
            return null;
        } catch (Exception error) {
            return error.getMessage();
        }
    }

    private interface Call<T> {
        T on(IdemFunctions functions) throws SQLException;
    }

    private <T> T call(Call<T> call) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            return call.on(idem.on(connection));
        }
    }

    private static void insert(Connection connection, String name) throws SQLException {
        try (var statement = connection.prepareStatement("INSERT INTO orders (name) VALUES (?)")) {
            statement.setString(1, name);
            statement.executeUpdate();
        }
    }

    private static String sqlstate(Tap.Action action) throws Exception {
        try {
            action.run();
            return "none";
        } catch (SQLException error) {
            return error.getClass().getSimpleName() + " " + error.getSQLState();
        }
    }

    private void keys() throws Exception {
        Tap.is(call(f -> f.claim("k")) + " " + call(f -> f.claim("k")), "true false", "claim");
        Tap.is(sqlstate(() -> call(f -> { f.mustClaim("k", null); return null; })), "Duplicate ID006", "mustClaim");
        Tap.is(call(f -> f.tryClaim("k2", SECONDS)) + " " + call(f -> f.tryClaim("k2", null)), "ACQUIRED COMPLETED",
            "tryClaim");
        Tap.is(call(f -> f.claimMany(List.of("c", "k", "a", "c"), SECONDS)), List.of("c", "a"), "claimMany");
        Answer first = idem.transaction(f -> {
            Ticket ticket = f.begin(Claim.of("b").fingerprintOfJson("{\"a\": 1, \"b\": 2}").ttl(SECONDS));
            f.complete("b", "{\"z\": 1, \"a\": [1.50]}", 201);
            return Answer.of(ticket.attempt(), ticket.outcome().name());
        });
        Tap.is(first.statusCode() + first.response(), "1ACQUIRED", "begin");
        Ticket again = call(f -> f.begin(Claim.of("b").fingerprintOfJson("{\"b\": 2, \"a\": 1.0}")));
        Tap.is(again.outcome() + " " + again.statusCode() + " " + again.response() + " " + again.fence(),
            "COMPLETED 201 {\"a\": [1.50], \"z\": 1} null", "a repetition");
        Tap.is(call(f -> f.begin(Claim.of("b").fingerprintOfText("other"))).outcome(), Outcome.MISMATCH, "another fingerprint");
        Tap.is(call(f -> f.begin(Claim.of("b").fingerprintOfBytes(new byte[] {0}))).outcome(), Outcome.MISMATCH,
            "a fingerprint of bytes");
        Ticket executed = call(f -> f.execute(Claim.of("e"),
            "INSERT INTO orders (name) VALUES ($1), ($2::int::text) RETURNING name", "it's", 7));
        Tap.is(executed.outcome() + " " + executed.response(), "ACQUIRED [{\"name\": \"it's\"}, {\"name\": \"7\"}]", "execute");
        Tap.is(call(f -> f.execute(Claim.of("e2"), "SELECT $1::text AS a", (Object) null)).response(), "[{\"a\": null}]",
            "execute with NULL");
        Tap.is(call(f -> f.lookup("b")).get().state() + call(f -> f.lookup("nothing")).isPresent(), "completedfalse", "lookup");
        idem.transaction(f -> {
            f.serialize("s");
            return null;
        });
    }

    private void leases() throws Exception {
        Ticket ticket = call(f -> f.begin(Claim.of("l").lease(SECONDS).owner("me")));
        long fence = ticket.fence();
        Tap.is(ticket.outcome() + " " + ticket.leaseUntil().isAfter(Instant.now()) + " " + (fence > 1L << 50),
            "ACQUIRED true true", "begin with a lease");
        Tap.is(call(f -> f.begin(Claim.of("l").lease(SECONDS).owner("me"))).fence(), fence,
            "the same owner gets its fence again");
        Ticket other = call(f -> f.begin(Claim.of("l").lease(SECONDS)));
        Tap.is(other.outcome() + " " + (other.retryAfter().compareTo(Duration.ofSeconds(5)) > 0), "IN_FLIGHT true",
            "others are told when to come back");
        Tap.is(sqlstate(() -> call(f -> f.claim("l"))), "InFlight ID005", "claim of a leased key");
        Tap.ok(call(f -> f.renew("l", fence, SECONDS.multipliedBy(2))).isAfter(ticket.leaseUntil()), "renew");
        Tap.is(call(f -> f.step("l", fence, "charge")) + " " + call(f -> f.step("l", fence, "charge", "{\"c\": 1}")) + " "
            + call(f -> f.step("l", fence, "mail")), "true true true", "step");
        Map<String, String> steps = call(f -> f.lookup("l")).get().steps();
        Tap.is(steps.get("charge") + steps.get("mail") + steps.containsKey("mail") + steps.containsKey("ship"),
            "{\"c\": 1}nulltruefalse", "steps");
        Tap.is(sqlstate(() -> call(f -> f.renew("l", fence - 1, null))), "StaleFence ID001", "a stale fence");
        call(f -> { f.release("l", fence); return null; });
        Ticket second = call(f -> f.begin(Claim.of("l").lease(SECONDS)));
        Tap.is(second.outcome() + " " + second.attempt() + " " + second.steps().get("charge"), "ACQUIRED 2 {\"c\": 1}",
            "release keeps the steps");
        Tap.is(call(f -> f.complete("l", "1", 200, second.fence())) + sqlstate(() -> call(f -> f.complete("l", "2", 200,
            fence))), "trueStaleFence ID001", "complete");
    }

    private void locks() throws Exception {
        CountDownLatch lost = new CountDownLatch(1);
        AtomicInteger called = new AtomicInteger();
        try (HeldLock lock = idem.lock("job", Duration.ofSeconds(12), null, called::incrementAndGet).orElseThrow()) {
            Thread.sleep(14_000);
            Tap.is(idem.lock("job", SECONDS, () -> { }).isPresent() + " " + lock.isLost(), "false false",
                "a lock outlives its lease by a heartbeat");
            idem.transaction(f -> {
                lock.assertFence(f.connection());
                return null;
            });
        }
        try (HeldLock next = idem.lock("job", Duration.ofSeconds(12), Duration.ofSeconds(30), lost::countDown).orElseThrow()) {
            Tap.ok(next.fence() > 0 && called.get() == 0, "it is free when it is closed");
            call(f -> f.unlock("job", next.fence()));
            call(f -> f.lock("job", SECONDS, "thief", null));
            Tap.ok(lost.await(60, TimeUnit.SECONDS) && next.isLost(), "a lock that has passed on tells so");
            Tap.is(sqlstate(() -> idem.transaction(f -> { next.assertFence(f.connection()); return null; })),
                "StaleFence ID001", "and its fence is stale");
        }
        Tap.is(call(f -> f.lock("job", SECONDS, null, null)).isPresent(), false, "closing it frees nobody else's lock");
    }

    private void others() throws Exception {
        String token = call(f -> f.issueToken("alice", null));
        Tap.is(call(f -> f.redeemToken(token, "bob")) + " " + call(f -> f.redeemToken(token, "alice")) + " "
            + call(f -> f.redeemToken(token, "alice")),
            TokenOutcome.INVALID + " " + TokenOutcome.ACCEPTED + " " + TokenOutcome.DUPLICATE, "tokens");
        long id = call(f -> f.publish("mail", "{\"to\": \"alice\"}"));
        long keyed = call(f -> f.publish(Message.of("mail", "1").key("k").headers("{\"h\": 1}").dedupId("d"))).getAsLong();
        Tap.is(call(f -> f.publish(Message.of("mail", "2").dedupId("d"))).getAsLong(), keyed, "a message is published once");
        call(f -> f.publish(Message.of("mail", "3").delay(SECONDS)));
        List<TakenMessage> taken = call(f -> f.take("mail", 10, SECONDS));
        Tap.is(taken.size() + " " + (taken.get(0).id() == id) + taken.get(0).payload() + taken.get(0).key() + " "
            + taken.get(1).key() + taken.get(1).headers() + taken.get(1).attempt(),
            "2 true{\"to\": \"alice\"}null k{\"h\": 1}1", "take");
        long fence = taken.get(0).fence();
        Tap.is(call(f -> f.outboxRenew(List.of(id, keyed), fence, SECONDS)) + " " + call(f -> f.ack(List.of(id), fence))
            + " " + call(f -> f.nack(List.of(keyed), fence, Duration.ZERO))
            + " " + call(f -> f.ack(List.of(keyed), fence)) + " " + call(f -> f.take("mail", 10, SECONDS)).get(0).attempt(),
                "2 1 1 0 2", "renew, ack, nack");
        Tap.is(call(f -> f.consume("ledger", Long.toString(id), SECONDS)) + " " + call(f -> f.consume("ledger",
            Long.toString(id), null)), "true false", "consume");
        Transition moved = call(f -> f.transition("parcel", "{\"id\": 1}", "packed", "sent"));
        Transition again = call(f -> f.transition("parcel", "{\"id\": 1}", null, "sent"));
        Tap.is(moved.outcome() + moved.state() + again.outcome(), "MOVEDsentALREADY", "transition");
        Tap.ok(call(IdemFunctions::nextId) > id, "nextId");
    }

    private void requests() throws Exception {
        Tap.is(call(f -> f.hit("page", SECONDS)) + " " + call(f -> f.hit("page", SECONDS)), "1 2", "hit");
        Tap.is(call(f -> f.allow("api", 0.001, 2, 2)).toString(), "RateAnswer[allowed=true, remaining=0]", "allow");
        Tap.ok(call(f -> f.allow("api", 0.001, 2, 1)).retryAfter().compareTo(Duration.ofMinutes(10)) > 0, "allow: come back later");
        Instant now = Instant.now();
        String message = Database.value("SELECT idem.idem_request_message('{\"a\": 1}', 'partner', ?::timestamptz, 'n1')", now.toString());
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec("a secret of 24 bytes....".getBytes(), "HmacSHA256"));
        String signature = String.format("%064x", new BigInteger(1, mac.doFinal(message.getBytes(StandardCharsets.UTF_8))));
        List<Object> found = new ArrayList<>();
        for (String each : List.of(signature, signature, "00"))
            found.add(call(f -> f.verifyRequest("{\"a\": 1}", each, "partner", now, "n1", null)));
        Tap.is(found.toString(), "[ACCEPTED, REPLAYED, INVALID]", "verifyRequest");
        Tap.is(call(f -> f.webhookReceive("nobody", "{}", new byte[0])).toString(), "WebhookAnswer[outcome=INVALID]", "webhookReceive");
        List<Long> ids = call(f -> f.publishMany("many", "[{\"payload\": 1}, {\"payload\": 2}]"));
        Tap.is(ids.size() + " " + (ids.get(1) > ids.get(0)), "2 true", "publishMany");
    }

    private void rows() throws Exception {
        String key = "{\"id\": 1}";
        Tap.is(call(f -> f.uniqueInsert("stock", "{\"id\": 1, \"units\": 5}", null)).outcome() + " "
            + call(f -> f.uniqueInsert("stock", "{\"id\": 1, \"units\": 6}", List.of("id"))).outcome(), "INSERTED DUPLICATE", "uniqueInsert");
        RowAnswer updated = call(f -> f.optimisticUpdate("stock", key, 1, "{\"units\": 4}"));
        Tap.is(updated.outcome() + " " + updated.version() + " " + call(f -> f.optimisticUpdate("stock", key, 1, "{\"units\": 3}")).outcome(),
            "UPDATED 2 CONFLICT", "optimisticUpdate");
        Tap.is(call(f -> f.conditionalUpdate("stock", key, "{\"units\": 4}", "{\"units\": 3}")).outcome() + " "
            + call(f -> f.conditionalUpdate("stock", "{\"id\": 2}", "{\"units\": 4}", "{\"units\": 3}")).outcome(), "UPDATED NOT_FOUND", "conditionalUpdate");
        Tap.is(call(f -> f.conditionalAdjust("stock", key, "units", new BigDecimal(-2), null, null)) + " "
            + call(f -> f.conditionalAdjust("stock", key, "units", new BigDecimal(-2), null, null)),
            "RowAnswer[outcome=ADJUSTED, value=1] RowAnswer[outcome=OUT_OF_RANGE, value=1]", "conditionalAdjust");
        idem.transaction(f -> {
            Tap.is(f.pessimisticLock("stock", key, null).outcome(), RowAnswer.Outcome.LOCKED, "pessimisticLock");
            Tap.is(call(other -> other.pessimisticLock("stock", key, Duration.ZERO)).outcome(), RowAnswer.Outcome.BUSY, "busy");
            Tap.is(f.pessimisticLockMany("stock", List.of(key, "{\"id\": 9}"), null).get(1).outcome(), RowAnswer.Outcome.NOT_FOUND,
                "pessimisticLockMany");
            return null;
        });
        Tap.is(call(f -> f.guardedInsert("stock", "{\"id\": 1, \"units\": 6}", List.of("id"))).outcome(), RowAnswer.Outcome.DUPLICATE, "guardedInsert");
    }

    private void flows() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        JdbcIdem.Work<Answer> pay = f -> {
            insert(f.connection(), "once");
            return Answer.of(201, "{\"run\": " + runs.incrementAndGet() + "}");
        };
        Answer first = idem.once(Claim.of("once"), pay), second = idem.once(Claim.of("once"), pay);
        Tap.is(first.response() + first.isReplayed() + second.response() + second.statusCode() + second.isReplayed()
            + Database.orders("once"),
            "{\"run\": 1}false{\"run\": 1}201true1", "once");
        try {
            idem.once(Claim.of("fails"), f -> {
                insert(f.connection(), "fails");
                throw new IllegalStateException("no");
            });
        } catch (IllegalStateException expected) {
            Tap.is(Database.orders("fails") + idem.once(Claim.of("fails"), f -> Answer.of(null, null)).isReplayed(),
                "0false", "once: an exception rolls back");
        }
        Answer done = idem.leased(Claim.of("leased").lease(Duration.ofSeconds(12)), lease -> {
            Thread.sleep(14_000);
            Ticket other = call(f -> f.begin(Claim.of("leased").lease(SECONDS)));
            lease.step("charge", gate -> "{\"c\":1}");
            return Answer.of(200, "[\"" + other.outcome() + "\", " + lease.steps().get("charge") + ", " + lease.isLost() + "]");
        });
        Tap.is(done.response(), "[\"IN_FLIGHT\", {\"c\": 1}, false]", "leased: the lease is renewed");
        call(f -> f.begin(Claim.of("waited").lease(Duration.ofSeconds(3))));
        Claim patient = Claim.of("waited").lease(Duration.ofSeconds(2)).wait(Duration.ofSeconds(20));
        Tap.is(idem.leased(patient, lease -> Answer.of(200, "" + lease.isLost())).response(), "false",
            "leased: a wait that is longer than the lease does not use it up");
        Tap.ok(idem.leased(Claim.of("leased").lease(SECONDS), lease -> { throw new IllegalStateException(); }).isReplayed(),
            "leased: a repetition is replayed");
        idem.leased(Claim.of("together").lease(SECONDS), lease -> idem.transaction(f -> {
            insert(f.connection(), "together");
            Answer answer = Answer.of(200, "1");
            lease.complete(f.connection(), answer);
            return answer;
        }));
        Tap.is(Database.orders("together") + call(f -> f.lookup("together")).get().state(), "1completed",
            "leased: rows and response together");
        try {
            idem.leased(Claim.of("throws").lease(SECONDS), lease -> { throw new IllegalStateException("no"); });
        } catch (IllegalStateException expected) {
            Tap.is(call(f -> f.lookup("throws")).get().state(), "released", "leased: an exception releases the key");
        }
        try (Connection holder = pool.getConnection()) {
            holder.setAutoCommit(false);
            idem.on(holder).begin(Claim.of("held"));
            idem.once(Claim.of("held").wait(Duration.ZERO), pay);
            Tap.ok(false, "once: in flight");
        } catch (FlowException.InFlight error) {
            Tap.is(error.key(), "held", "once: in flight");
        }
    }

    private static String nullPointer(Tap.Action action) throws Exception {
        try {
            action.run();
            return "none";
        } catch (NullPointerException error) {
            return error.getMessage();
        }
    }

    private void missingAnswers() throws Exception {
        String message = "the work returned null: return an Answer, or Answer.of(null, null) to store none";
        Tap.is(nullPointer(() -> idem.once(Claim.of("no answer"), f -> null)), message, "once: work that returns null");
        Tap.is(call(f -> f.tryClaim("no answer", null)), Outcome.ACQUIRED, "is rolled back");
        Tap.is(nullPointer(() -> idem.leased(Claim.of("no answer leased").lease(SECONDS), lease -> null)), message,
            "leased: work that returns null");
        Tap.is(call(f -> f.lookup("no answer leased")).get().state(), "released", "releases the key");
        Tap.is(nullPointer(() -> idem.lock("no callback", SECONDS, null)), "onLost is required", "lock without onLost");
        Tap.is(sqlstate(() -> idem.once(Claim.of("no JSON"), f -> Answer.of(200, "sent")))
            + idem.once(Claim.of("no JSON"), f -> Answer.of(200, "\"sent\"")).response(),
            "PSQLException 22P02\"sent\"", "an answer is JSON text");
    }

    private HttpOptions<Object> options() {
        return new HttpOptions<Object>(LostReplies.over(pool)).scope(request -> "unused");
    }

    private static KeyedRequest request(String header) {
        return new KeyedRequest("shop", "POST", "/", header, new byte[0]);
    }

    private static String text(HttpReply reply) {
        return reply.status() + " " + new String(reply.body(), StandardCharsets.UTF_8);
    }

    private void http() throws Exception {
        HttpFlow.Handler handler = context -> {
            String leased = context.lease().map(lease -> " " + lease.scope() + "/" + lease.key()).orElse("");
            return new HttpReply(201, Map.of(), (context.scope() + "/" + context.key() + leased).getBytes());
        };
        LostReplies.STATEMENTS.set(0);
        Tap.is(text(new HttpFlow(options()).handle(request("\"p\\\"1\"; a"), handler)), "201 shop/p\"1", "the parsed key");
        Tap.is(LostReplies.STATEMENTS.get(), 2, "comes with the answer: begin, complete");
        LostReplies.STATEMENTS.set(0);
        Tap.is(text(new HttpFlow(options().lease(SECONDS)).handle(request("\"p2\""), handler)), "201 shop/p2 shop/p2",
            "the parsed key under a lease");
        Tap.is(LostReplies.STATEMENTS.get(), 2, "comes with the answer, too");
        HttpReply unknown = new HttpFlow(options()).handle(request("lost"), context -> {
            LostReplies.NEXT.set(true);
            LostReplies.GONE.set(true);
            return new HttpReply(201, Map.of(), null);
        });
        LostReplies.GONE.set(false);
        Tap.is(unknown.status() + " " + text(unknown).contains("\"commit_unknown\"") + unknown.headers().get("Retry-After"),
            "503 true[1]", "COMMIT and the look afterwards fail: the outcome is unknown, not \"unavailable\"");
        KeyedRequest ignoring = new KeyedRequest("ignoring", "DELETE", "/", "k", new byte[0]);
        for (HttpOptions<Object> mode : List.of(options(), options().lease(SECONDS)))
            for (int i = 0; i < 2; i++)
                Tap.is(text(new HttpFlow(mode).handle(ignoring, handler)), "201 ignoring/null", "a method with which the key is not used");
        List<HttpOptions<Object>> modes = List.of(options(), options().lease(SECONDS));
        for (int mode = 0; mode < modes.size(); mode++)
            for (int status : new int[] {503, 201, 201, 202}) { // not stored, stored, replayed, rejected
                byte[] body = new byte[status == 202 ? 1 : 0];
                HttpReply reply = new HttpFlow(modes.get(mode)).handle(
                    new KeyedRequest("echoing", "POST", "/", "echo" + mode, body), context -> new HttpReply(status, Map.of(), null));
                Tap.is(reply.status() + " " + reply.headers().get("Idempotency-Key"), (status == 202 ? 422 : status) + " [echo" + mode + "]",
                    "where the scope echoes the key, each response has it");
            }
        Tap.is(nullPointer(() -> new HttpFlow(options()).handle(request("null"), context -> null)),
            "the handler returned no HttpReply", "a handler that returns null");
    }

    /** Logs and debuggers show values. */
    private void texts() throws Exception {
        Tap.is(idem.transaction(f -> f.begin(Claim.of("t"))).toString(),
            "Ticket[outcome=ACQUIRED, attempt=1, responseOmitted=false, steps={}]", "Ticket");
        String info = idem.transaction(f -> {
            f.begin(Claim.of("info"));
            f.complete("info", "{\"z\": 1, \"a\": [1.50]}", 201);
            return f.lookup("info");
        }).get().toString();
        Tap.ok(info.startsWith("KeyInfo[state=completed, statusCode=201, response={\"a\": [1.50], \"z\": 1},"
            + " responseOmitted=false, attempt=1, createdAt="), "KeyInfo: " + info);
        Tap.is(Answer.of(200, "1").toString(), "Answer[statusCode=200, response=1, replayed=false]", "Answer");
        Tap.is(Claim.of("k").ttl(SECONDS).toString(), "Claim[key=k, ttl=PT1M]", "Claim");
        Tap.is(Message.of("mail", "1").key("k").toString(), "Message[topic=mail, payload=1, key=k]", "Message");
        call(f -> f.publish("text", "1"));
        Tap.ok(call(f -> f.take("text", 1, SECONDS)).get(0).toString().startsWith("TakenMessage[id="), "TakenMessage");
        Tap.is(call(f -> f.transition("parcel", "{\"id\": 2}", null, "sent")).toString(),
            "Transition[outcome=NOT_FOUND]", "Transition");
        Tap.is(request("\"k\"").toString(),
            "KeyedRequest[scope=shop, method=POST, route=/, header=\"k\", body=0 bytes]", "KeyedRequest");
        Tap.is(HttpReply.problem(413, "body_too_large", null).toString(),
            "HttpReply[status=413, headers=[Content-Type], body=94 bytes]", "HttpReply, without values of header fields");
        Tap.is(call(f -> f.httpBegin(request(null), null, null, null)).toString().split("reply=")[0],
            "HttpAnswer[action=REJECT, ", "HttpAnswer");
        List<String> outcomes = new ArrayList<>();
        new HttpFlow(options().onOutcome(outcome -> outcomes.add(outcome.toString()))).handle(request("\"t\""),
            context -> new HttpReply(204, Map.of(), null));
        Tap.ok(outcomes.get(0).startsWith("HttpOutcome[scope=shop, key=t, header=\"t\", method=POST, route=/, action=RUN,"
            + " status=204, duration=PT"), "HttpOutcome");
        HttpOptions<Object> leased = options().lease(SECONDS).onOutcome(outcome -> outcomes.add("attempt " + outcome.attempt()));
        for (int attempt = 1; attempt <= 3; attempt++) {
            boolean fails = attempt == 1;
            try {
                new HttpFlow(leased).handle(request("\"attempts\""), context -> {
                    if (fails) throw new IllegalStateException("the first attempt fails");
                    return new HttpReply(204, Map.of(), null);
                });
            } catch (IllegalStateException expected) { // of the handler
            }
        }
        Tap.is(outcomes.subList(1, 4), List.of("attempt 1", "attempt 2", "attempt null"), "onOutcome is told the attempt; a replay is none");
        try (HeldLock lock = idem.lock("text", SECONDS, () -> { }).orElseThrow()) {
            Tap.is(lock.toString(), "HeldLock[name=text, fence=" + lock.fence() + "]", "HeldLock");
        }
        idem.leased(Claim.of("leased text").lease(SECONDS), lease -> {
            Tap.is(lease.toString(), "Lease[scope=it's \"odd\", key=leased text, fence=" + lease.fence() + "]", "Lease");
            return Answer.of(null, null);
        });
    }

    private void errors() throws Exception {
        Tap.is(sqlstate(() -> call(f -> f.begin(Claim.of("")))), "PSQLException 22023", "other errors are the driver's");
        try {
            new HttpFlow(new HttpOptions<>(pool));
            Tap.ok(false, "no scope function, no start");
        } catch (IllegalStateException expected) {
            Tap.ok(true, "no scope function, no start");
        }
        JdbcIdem elsewhere = new JdbcIdem(pool, "no \"such\" schema", "");
        Tap.is(sqlstate(() -> { try (Connection c = pool.getConnection()) { elsewhere.on(c).claim("k"); } }),
            "NotInstalled 3F000", "the schema's name is quoted");
        Tap.ok(message(() -> { try (Connection c = pool.getConnection()) { new JdbcIdem(pool, "absent", "").on(c).claim("k"); } })
            .endsWith("call IdemSchema.install"), "where idem is missing, the error says what to call");
    }
}
