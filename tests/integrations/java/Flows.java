import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import idem.postgres.Answer;
import idem.postgres.Claim;
import idem.postgres.Fate;
import idem.postgres.FlowException;
import idem.postgres.HeldLock;
import idem.postgres.HttpFlow;
import idem.postgres.HttpOptions;
import idem.postgres.HttpReply;
import idem.postgres.JdbcIdem;
import idem.postgres.KeyedRequest;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;
import org.postgresql.ds.PGSimpleDataSource;

/** Where flows go wrong: pools that are full, databases that hang, answers that are lost or cannot be stored. */
final class Flows {
    private static final Duration MINUTE = Duration.ofSeconds(60);

    private final PGSimpleDataSource pool = new PGSimpleDataSource();
    private final JdbcIdem idem;

    private Flows() {
        pool.setURL(System.getProperty("database.url"));
        idem = new JdbcIdem(LostReplies.over(pool)).inScope("flows");
    }

    public static void main(String[] arguments) {
        Flows tests = new Flows();
        Tap.test("waiters", tests::waiters);
        Tap.test("a pool that is exhausted", tests::exhausted);
        Tap.test("databases that hang", tests::hangs);
        Tap.test("an answer that is lost", tests::lostAnswers);
        Tap.test("completed in a transaction", tests::rolledBack);
        Tap.test("outputs", tests::outputs);
        Tap.test("steps", tests::steps);
        Tap.test("handles", tests::handles);
        System.exit(Tap.end());
    }

    /** The name of the exception's class, or its SQLSTATE, or what there is. */
    private static String outcome(java.util.concurrent.Callable<?> call) throws Exception {
        try {
            return String.valueOf(call.call());
        } catch (FlowException error) {
            return error.getClass().getSimpleName();
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    private String state(String key) throws Exception {
        return Database.value("SELECT state FROM idem.idem_lookup(?, 'flows')", key);
    }

    private static <T> CompletableFuture<T> start(java.util.concurrent.Callable<T> call) {
        CompletableFuture<T> result = new CompletableFuture<>();
        new Thread(() -> {
            try {
                result.complete(call.call());
            } catch (Throwable error) {
                result.completeExceptionally(error);
            }
        }).start();
        return result;
    }

    private static HikariDataSource pool(int connections) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(System.getProperty("database.url"));
        config.setMaximumPoolSize(connections);
        return new HikariDataSource(config);
    }

    /** More callers than connections, and work that is longer than the lease. */
    private void waiters() throws Exception {
        Duration lease = Duration.ofSeconds(10), wait = Duration.ofSeconds(150);
        AtomicInteger working = new AtomicInteger(), together = new AtomicInteger(), ran = new AtomicInteger(), served = new AtomicInteger();
        try (HikariDataSource locks = pool(2); HikariDataSource keys = pool(2); HikariDataSource requests = pool(2)) {
            List<CompletableFuture<?>> all = new ArrayList<>();
            HttpFlow flow = new HttpFlow(new HttpOptions<Object>(requests).scope(request -> "unused").lease(lease).wait(wait));
            for (int i = 0; i < 3; i++) {
                all.add(start(() -> {
                    try (HeldLock lock = new JdbcIdem(locks).lock("full", lease, wait, () -> { }).orElseThrow()) {
                        if (working.incrementAndGet() > 1) together.incrementAndGet();
                        Thread.sleep(12_000);
                        working.decrementAndGet();
                        return lock.isLost();
                    }
                }));
                all.add(start(() -> new JdbcIdem(keys).leased(Claim.of("full").lease(lease).wait(wait), held -> {
                    ran.incrementAndGet();
                    Thread.sleep(12_000);
                    return Answer.of(200, "" + held.isLost());
                }).response()));
                all.add(start(() -> flow.handle(new KeyedRequest("flows", "POST", "/", "full", new byte[0]), context -> {
                    served.incrementAndGet();
                    Thread.sleep(12_000);
                    return new HttpReply(201, Map.of(), ("" + context.lease().orElseThrow().isLost()).getBytes());
                }).status()));
            }
            for (int i = 0; i < all.size(); i++)
                Tap.is(all.get(i).get(3, TimeUnit.MINUTES).toString(), i % 3 == 2 ? "201" : "false", "caller " + i + " keeps its lease, or gets the answer");
        }
        Tap.is(together + " " + ran + " " + served, "0 1 1",
            "waiters hold no connection that a renewal needs: one holder at a time, one run of the work");
    }

    private interface Look {
        String look() throws Exception;
    }

    /** Holds all connections of a pool until what `look` sees has changed, or as long as the lease of ten seconds. */
    private static boolean changes(HikariDataSource full, Look look) throws Exception {
        List<Connection> held = new ArrayList<>();
        try {
            for (int i = 0; i < full.getMaximumPoolSize(); i++) held.add(full.getConnection());
            String before = look.look();
            for (long end = System.nanoTime() + Duration.ofSeconds(10).toNanos(); System.nanoTime() < end; Thread.sleep(50))
                if (!look.look().equals(before)) return true;
            return false;
        } finally {
            for (Connection each : held) each.close();
        }
    }

    private static void close(Connection connection) {
        try {
            connection.close();
        } catch (SQLException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The work has all connections of the pool, and renewals have one of their own. */
    private void exhausted() throws Exception {
        Duration lease = Duration.ofSeconds(10);
        String until = "SELECT lease_until FROM idem.idem_lookup(?, 'flows')";
        try (HikariDataSource full = pool(3); HikariDataSource renewals = pool(1)) {
            JdbcIdem both = new JdbcIdem(full).renewingOn(renewals).inScope("flows");
            Tap.is(both.leased(Claim.of("exhausted").lease(lease), held -> Answer.of(200,
                changes(full, () -> Database.value(until, "exhausted")) + "")).response(), "true", "leased: the lease is renewed");
            try (HeldLock lock = both.lock("exhausted", lease, () -> { }).orElseThrow()) {
                Tap.is(changes(full, () -> Database.value("SELECT lease_until FROM idem.idem_locks WHERE key = 'exhausted'")), true,
                    "lock: the lock is renewed");
                Tap.is(lock.isLost(), false, "and not lost");
            }
            HttpOptions<Object> options = new HttpOptions<Object>(full).renewals(renewals).scope(request -> "unused").lease(lease);
            HttpReply reply = new HttpFlow(options).handle(new KeyedRequest("flows", "POST", "/", "exhausted-http", new byte[0]), context ->
                new HttpReply(201, Map.of(), ("" + changes(full, () -> Database.value(until, "exhausted-http"))).getBytes()));
            Tap.is(new String(reply.body()), "true", "HTTP: the lease is renewed");
        }
        try (HikariDataSource one = pool(1)) {
            Connection held = one.getConnection();
            CompletableFuture.delayedExecutor(4, TimeUnit.SECONDS).execute(() -> close(held));
            Claim late = Claim.of("late connection").lease(Duration.ofSeconds(3)).wait(Duration.ZERO);
            Tap.is(outcome(() -> new JdbcIdem(one).inScope("flows").leased(late, lost -> Answer.of(200, lost.isLost() + "")).response()), "false",
                "the wait for a connection is not a part of the lease");
        }
    }

    /** While it hangs, each call waits for `latch`. */
    private DataSource hanging(CountDownLatch latch) {
        return (DataSource) java.lang.reflect.Proxy.newProxyInstance(Flows.class.getClassLoader(), new Class<?>[] {DataSource.class},
            (proxy, method, arguments) -> {
                if (Thread.currentThread().getName().startsWith("idem-")) latch.await();
                return method.invoke(pool, arguments);
            });
    }

    private void hangs() throws Exception {
        CountDownLatch hanging = new CountDownLatch(1), lost = new CountDownLatch(3);
        JdbcIdem slow = new JdbcIdem(hanging(hanging));
        Duration lease = Duration.ofSeconds(15);
        List<HeldLock> locks = new ArrayList<>();
        for (int i = 0; i < 3; i++) locks.add(slow.lock("hang" + i, lease, MINUTE, lost::countDown).orElseThrow());
        AtomicInteger others = new AtomicInteger();
        try (HeldLock other = idem.lock("does not hang", lease, MINUTE, others::incrementAndGet).orElseThrow()) {
            Tap.ok(lost.await(30, TimeUnit.SECONDS), "onLost runs while a renewal hangs");
            Thread.sleep(15_000);
            Tap.is(other.isLost() + " " + others, "false 0", "and other leases are renewed");
        }
        hanging.countDown();
        for (HeldLock lock : locks) lock.close();
        CompletableFuture<String> told = new CompletableFuture<>();
        new JdbcIdem(hanging(new CountDownLatch(1))).inScope("flows").leased(Claim.of("hang").lease(Duration.ofSeconds(10)).wait(MINUTE), held -> {
            held.lost().thenRun(() -> told.complete("told"));
            return Answer.of(200, '"' + told.get(30, TimeUnit.SECONDS) + '"');
        });
        Tap.is(told.get() + " " + state("hang"), "told completed", "leased: the work is told; nobody took over, so that it is completed");
    }

    private void lostAnswers() throws Exception {
        LostReplies.losing("idem_lock(");
        try (HeldLock lock = idem.lock("lost", MINUTE, () -> { }).orElseThrow()) {
            Tap.ok(lock.fence() > 0, "lock: the answer is lost, and the same caller gets its lock");
        }
        LostReplies.losing("idem_begin(");
        Tap.is(idem.leased(Claim.of("lost begin").lease(MINUTE), lease -> Answer.of(200, "1")).isReplayed(), false,
            "leased: the answer to the claim is lost");
        LostReplies.losing("idem_complete(");
        Tap.is(idem.leased(Claim.of("lost complete").lease(MINUTE), lease -> Answer.of(200, "1")) + state("lost complete"),
            "Answer[statusCode=200, response=1, replayed=false]completed", "leased: the answer to the completion is lost");
        AtomicInteger runs = new AtomicInteger();
        JdbcIdem.Work<Answer> work = f -> {
            LostReplies.NEXT.set(runs.incrementAndGet() == 1);
            return Answer.of(200, "" + runs);
        };
        Tap.is(idem.once(Claim.of("lost commit"), work).response() + runs, "11", "once: the reply to COMMIT is lost, and the key tells");
        Tap.is(outcome(() -> idem.once(Claim.of("gone"), f -> {
            LostReplies.NEXT.set(true);
            LostReplies.GONE.set(true);
            return Answer.of(200, "1");
        })), "CommitUnknown", "once: nobody can tell");
        LostReplies.GONE.set(false);
        runs.set(0);
        Tap.is(idem.once(Claim.of("serialization"), f -> {
            if (runs.incrementAndGet() < 3) throw new SQLException("try again", "40001");
            return Answer.of(200, "" + runs);
        }).response(), "3", "once: a serialization failure is repeated");
    }

    private void rolledBack() throws Exception {
        for (String end : List.of("commit", "rollback", "close", "throw")) {
            String key = "completed and " + end;
            String found = outcome(() -> idem.leased(Claim.of(key).lease(MINUTE), lease -> {
                Connection connection = pool.getConnection();
                try (connection) {
                    connection.setAutoCommit(false);
                    lease.complete(connection, Answer.of(200, "1"));
                    if (end.equals("commit")) connection.commit();
                    if (end.equals("rollback")) connection.rollback();
                    if (end.equals("throw")) throw new SQLException("no", "ZZZZZ");
                }
                return Answer.of(200, "1");
            }).isReplayed());
            String wanted = end.equals("commit") ? "false completed" : (end.equals("throw") ? "ZZZZZ" : "RolledBack") + " released";
            Tap.is(found + " " + state(key), wanted, "leased: completed in a transaction, and then " + end);
        }
    }

    private void outputs() throws Exception {
        JdbcIdem tiny = idem.inScope("orders:tiny");
        String large = "\"" + "x".repeat(100) + "\"";
        for (int i = 0; i < 2; i++) {
            Answer once = tiny.once(Claim.of("large"), f -> Answer.of(200, large));
            Answer leased = tiny.leased(Claim.of("large leased").lease(MINUTE), lease -> Answer.of(200, large));
            Tap.is(once.isOmitted() + " " + once.isStored() + " " + leased.isOmitted() + " " + once.isReplayed(), "true false true " + (i == 1),
                "an answer over the limit is told from null, call " + i);
        }
        Tap.is(tiny.once(Claim.of("null"), f -> Answer.of(200, null)).isOmitted(), false, "null is stored");
        for (String text : List.of("\"a\\u0000b\"", "[\"\\ud800\"]", "\"\ud83d\"", "{\"$base64\": \"eA==\"}", "{\"a\": \"\\ud83d\\ude00\"}")) {
            Answer first = idem.once(Claim.of(text), f -> Answer.of(200, text)), again = idem.once(Claim.of(text), f -> null);
            Tap.is(first.response() + again.response().replace("\ud83d\ude00", "\\ud83d\\ude00"), text + text, "an answer that jsonb refuses is replayed exactly: " + text);
        }
        Tap.is(idem.leased(Claim.of("NUL step").lease(MINUTE), lease -> Answer.of(200, lease.step("s", gate -> "\"\\u0000\""))).response()
            + Database.value("SELECT steps ->> 's' FROM idem.idem_lookup('NUL step', 'flows')"), "\"\\u0000\"{\"$base64\": \"Ilx1MDAwMCI=\"}",
            "and so is an output of a step");
        for (String output : List.of("ch_17", large)) {
            String key = output.substring(0, 3);
            JdbcIdem scope = output.equals(large) ? tiny : idem;
            String found = outcome(() -> scope.leased(Claim.of(key).lease(MINUTE), lease -> Answer.of(200, lease.step("charge", gate -> output))));
            String kept = outcome(() -> scope.leased(Claim.of(key).lease(MINUTE).wait(Duration.ZERO), lease -> Answer.of(200, "1")));
            Tap.is(found + " " + kept, "NotStored InFlight", "the act has run, and its output cannot be stored: the key is kept: " + key);
        }
        Tap.is(outcome(() -> idem.leased(Claim.of("no JSON").lease(MINUTE), lease -> Answer.of(200, "sent"))) + " " + state("no JSON"),
            "NotStored in_progress", "and so it is where the answer of the work is no JSON");
    }

    private void steps() throws Exception {
        List<String> log = new ArrayList<>();
        for (Fate fate : List.of(Fate.unknown(), Fate.notDone(), Fate.done("{\"by\": \"gateway\"}"))) {
            Claim claim = Claim.of("fate " + log.size()).lease(MINUTE);
            log.add(outcome(() -> idem.leased(claim, lease -> {
                lease.step("charge", gate -> { throw new SQLException("the reply is lost", "ZZZZZ"); });
                return null;
            })) + " " + outcome(() -> idem.leased(claim, lease -> {
                String output = lease.step("charge", gate -> '"' + gate.key() + '"', gate -> fate);
                return Answer.of(lease.attempt(), output);
            })));
        }
        Tap.is(String.join("; ", log), "ZZZZZ InDoubt; ZZZZZ Answer[statusCode=2, response=\"flows/fate 1/charge\", replayed=false]; "
            + "ZZZZZ Answer[statusCode=2, response={\"by\": \"gateway\"}, replayed=false]", "a step that may have happened is reconciled");
        Tap.is(state("fate 0"), "in_progress", "in doubt: the key is kept");
        for (int i = 1; i <= 2; i++) {
            boolean fails = i == 1;
            String found = outcome(() -> idem.leased(Claim.of("write").lease(MINUTE), lease -> {
                lease.write("rows", f -> {
                    f.publish("flows", "1");
                    return "\"written\"";
                });
                if (fails) throw new SQLException("later", "ZZZZZ");
                return Answer.of(200, lease.steps().get("rows"));
            }));
            Tap.is(found + Database.value("SELECT count(*) FROM idem.idem_outbox WHERE topic = 'flows'"),
                fails ? "ZZZZZ1" : "Answer[statusCode=200, response=\"written\", replayed=false]1", "write: once for all attempts, attempt " + i);
        }
        Tap.is(outcome(() -> idem.leased(Claim.of("kept").lease(MINUTE).keepOnError(), lease -> { throw new SQLException("no", "ZZZZZ"); }))
            + " " + state("kept"), "ZZZZZ in_progress", "keepOnError");
        Tap.is(outcome(() -> idem.leased(Claim.of("stolen").lease(MINUTE), lease -> {
            Database.value("SELECT idem.idem_forget('stolen', 'flows')");
            return Answer.of(200, lease.step("s", gate -> "1"));
        })), "LeaseLost", "a lease that has passed on");
        idem.once(Claim.of("print").fingerprintOfText("a"), f -> Answer.of(200, "1"));
        Tap.is(outcome(() -> idem.once(Claim.of("print").fingerprintOfText("b"), f -> Answer.of(200, "1"))), "Mismatch", "another request");
    }

    private void handles() throws Exception {
        List<Connection> late = new ArrayList<>();
        idem.once(Claim.of("late"), f -> {
            late.add(f.connection());
            return Answer.of(200, "1");
        });
        String found = "used";
        try {
            late.get(0).createStatement();
        } catch (IllegalStateException error) {
            found = error.getMessage();
        }
        Tap.ok(found.startsWith("the transaction is over"), "a connection is dead when its transaction is over: " + found);
        Tap.is(late.get(0).isClosed(), true, "and says so");
        try {
            new HttpFlow(new HttpOptions<Object>(pool).scope(request -> "flows").lease(MINUTE).oversize(HttpOptions.Oversize.ROLLBACK));
        } catch (IllegalStateException error) {
            found = error.getMessage();
        }
        Tap.ok(found.startsWith("oversize ROLLBACK does not go with lease"), "leased work cannot be rolled back: " + found);
        Tap.is(outcome(() -> idem.once(Claim.of("commits"), f -> {
            f.connection().commit();
            return Answer.of(200, "1");
        })), "25000", "the work cannot commit by itself");
    }
}
