import java.sql.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Payment requests that come once, twice or three times at once, and a gateway that times out: each is paid once.
 *
 * PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD name the database; its tables are those of examples/payments.sql.
 * usage: java -cp '/usr/share/java/*' Main.java [REQUESTS]
 */
class Main {
    static final int WORKERS = 8;
    static final Map<String, AtomicInteger> counts = new LinkedHashMap<>();
    static { for (String what : "run,replayed,refused,in flight,timed out,retried,applied,seen before".split(",")) counts.put(what, new AtomicInteger()); }

    interface Job { void run(Connection db) throws Exception; }
    record Reply(int status, String body) {}

    /** A bank behind a bad line. It charges once per reference, as real ones do; of every tenth the first answer is lost. */
    static class Gateway {
        final Map<String, String> charges = new HashMap<>();

        synchronized String charge(String reference, int amount) throws TimeoutException {
            boolean first = charges.putIfAbsent(reference, "ch_" + (charges.size() + 1)) == null;
            if (first && reference.endsWith("0")) throw new TimeoutException();
            return charges.get(reference);
        }
    }

    /** What a server does with a request. */
    static Reply handle(Connection db, Gateway gateway, String request, int amount, String wait) throws SQLException {
        Map<String, String> ticket = row(db, "SELECT outcome, fence, status_code, response"
            + " FROM idem.idem_begin(?, idem.idem_fingerprint(?::jsonb), lease => '30 s', wait => ?::interval, scope => 'pay')",
            request, "{\"amount\": " + amount + "}", wait);
        switch (ticket.get("outcome")) {
        case "completed": // its payment has committed: the same answer as then
            count("replayed", 1);
            return new Reply(Integer.parseInt(ticket.get("status_code")), ticket.get("response"));
        case "in_flight":
            count("in flight", 1);
            return new Reply(409, "{\"error\": \"somebody is at it\"}");
        case "mismatch":
            count("refused", 1);
            return new Reply(422, "{\"error\": \"this key was used for another request\"}");
        }
        long fence = Long.parseLong(ticket.get("fence")); // acquired or taken over: ours, and everybody can see that
        String charge;
        try {
            charge = gateway.charge(request, amount);
        } catch (TimeoutException e) { // did it charge? it will tell by the reference, when the client comes again
            count("timed out", 1);
            row(db, "SELECT idem.idem_release(?, ?, scope => 'pay')", request, fence);
            return new Reply(503, "{\"error\": \"the gateway did not answer\"}");
        }
        return transaction(db, () -> { // the payment and the answer about it: both or neither
            String body = row(db, "INSERT INTO payment (request, amount, charge) VALUES (?, ?, ?)"
                + " RETURNING jsonb_build_object('payment', id, 'charge', charge) AS body", request, amount, charge).get("body");
            row(db, "SELECT idem.idem_complete(?, ?::jsonb, 201, ?, scope => 'pay')", request, body, fence);
            count("run", 1);
            return new Reply(201, body);
        });
    }

    /** What a client does: comes again until it is told how it ended. */
    static void deliver(Connection db, Gateway gateway, String request, int delivery, int amount) throws SQLException {
        for (String wait = "0";; wait = "1 s") {
            Reply reply = handle(db, gateway, request, amount, wait);
            if (reply.status != 409 && reply.status != 503) {
                row(db, "INSERT INTO answer VALUES (?, ?, ?, ?::jsonb) RETURNING delivery", request, delivery, reply.status, reply.body);
                return;
            }
            count("retried", 1);
        }
    }

    /** A batch from a broker that delivers at least once: what is new is applied, in the transaction that claims it. */
    static void receive(Connection db, List<String> messages) throws SQLException {
        int applied = transaction(db, () -> Integer.parseInt(row(db, "WITH new AS (INSERT INTO receipt"
            + " SELECT * FROM idem.idem_claim_many(?, scope => 'mail') RETURNING message) SELECT count(*) FROM new",
            db.createArrayOf("text", messages.toArray())).get("count")));
        count("applied", applied);
        count("seen before", messages.size() - applied);
    }

    public static void main(String[] args) throws Exception {
        int requests = args.length > 0 ? Integer.parseInt(args[0]) : 100;
        Gateway gateway = new Gateway();
        List<String> names = new ArrayList<>();
        Queue<Job> jobs = new ConcurrentLinkedQueue<>();
        for (int number = 0; number < requests; number++) { // next to each other: several workers have the same one at the same time
            String name = "request " + (number + 1);
            int amount = 100 + number;
            names.add(name);
            for (int delivery = 0; delivery <= number % 3; delivery++) {
                int which = delivery;
                jobs.add(db -> deliver(db, gateway, name, which, amount));
            }
        }
        jobs.add(db -> deliver(db, gateway, names.get(0), 99, 1)); // the same key, another amount
        for (int start = 0; start < requests; start += 10) { // batches that overlap
            List<String> batch = names.subList(start, Math.min(start + 20, requests));
            jobs.add(db -> receive(db, batch));
        }
        ExecutorService pool = Executors.newFixedThreadPool(WORKERS);
        Callable<Void> worker = () -> {
            try (Connection db = connect()) {
                for (Job job; (job = jobs.poll()) != null;) job.run(db);
            }
            return null;
        };
        try {
            for (Future<Void> done : pool.invokeAll(Collections.nCopies(WORKERS, worker))) done.get();
        } finally {
            pool.shutdown();
        }
        StringJoiner line = new StringJoiner(", ");
        counts.forEach((what, number) -> line.add(number + " " + what));
        System.out.println(line);
    }

    // --- JDBC in fewer words ---------------------------------------------------------------------------------------------

    static Connection connect() throws SQLException {
        Map<String, String> env = System.getenv();
        return DriverManager.getConnection("jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE"),
            env.get("PGUSER"), env.get("PGPASSWORD"));
    }

    /** The one row of a statement, by column. */
    static Map<String, String> row(Connection db, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
            ResultSet rows = statement.executeQuery();
            rows.next();
            Map<String, String> row = new HashMap<>();
            for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) row.put(rows.getMetaData().getColumnName(i), rows.getString(i));
            return row;
        }
    }

    interface Work<T> { T run() throws SQLException; }

    static <T> T transaction(Connection db, Work<T> work) throws SQLException {
        db.setAutoCommit(false);
        try {
            T result = work.run();
            db.commit();
            return result;
        } catch (SQLException | RuntimeException e) {
            db.rollback();
            throw e;
        } finally {
            db.setAutoCommit(true);
        }
    }

    static void count(String what, int number) { counts.get(what).addAndGet(number); }
}
