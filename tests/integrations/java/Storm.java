import java.io.IOException;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Many orders at a time, some clicked twice, some by clients that hang up and come back, some slow, while the server is killed: each has
 * one effect, and one answer. Storm REQUESTS
 */
final class Storm {
    private static final int CLIENTS = 16;
    private static final int KILLS = 3;
    private static final String[] KINDS = {"json", "pdf", "none"};

    private final ServerProcess server;
    private final int requests;
    private final ConcurrentLinkedQueue<Integer> todo = new ConcurrentLinkedQueue<>();
    private final Map<Integer, List<Http>> answers = new HashMap<>();
    private final AtomicInteger busy = new AtomicInteger(), unavailable = new AtomicInteger(), cut = new AtomicInteger(),
        replayed = new AtomicInteger();
    private final List<String> unexpected = new ArrayList<>();

    private Storm(ServerProcess server, int requests) {
        this.server = server;
        this.requests = requests;
    }

    public static void main(String[] arguments) throws Exception {
        try (ServerProcess server = new ServerProcess(System.getProperty("server.database.url"))) {
            Storm storm = new Storm(server, Integer.parseInt(arguments[0]));
            storm.rage();
            storm.check();
        }
        System.exit(Tap.end());
    }

    private void rage() throws Exception {
        for (int number = 0; number < requests; number++) {
            todo.add(number);
            if (number % 3 == 0) todo.add(number); // the next client has it at the same time
        }
        int all = todo.size();
        CountDownLatch done = new CountDownLatch(CLIENTS);
        ExecutorService clients = Executors.newFixedThreadPool(CLIENTS);
        for (int i = 0; i < CLIENTS; i++)
            clients.execute(() -> {
                try {
                    for (Integer number; (number = todo.poll()) != null;) order(number);
                } catch (Exception error) {
                    report(error.toString());
                } finally {
                    done.countDown();
                }
            });
        for (int kill = 1; kill <= KILLS; kill++) {
            while (todo.size() > all - kill * all / (KILLS + 1)) Thread.sleep(5);
            server.replace();
        }
        done.await();
        clients.shutdown();
    }

    /** What a client does: comes again until it has an answer. */
    private void order(int number) throws Exception {
        String target = "/tx/orders?name=storm-" + number + "&kind=" + KINDS[number % 3]
            + (number % 20 == 0 ? "&sleep=300" : "");
        String[] headers = {"X-Account: " + number % 7, "Idempotency-Key: \"storm-" + number + "\""};
        byte[] body = ("order " + number).getBytes();
        for (boolean hangUp = number % 5 == 0;; hangUp = false) {
            try {
                if (hangUp) {
                    Http.cut(server.port, "POST", target, body, headers);
                    continue;
                }
                Http answer = Http.send(server.port, "POST", target, body, headers);
                if (answer.status == 409) {
                    busy.incrementAndGet();
                    Thread.sleep(50);
                } else if (answer.status == 503) {
                    unavailable.incrementAndGet();
                    Thread.sleep(50);
                } else {
                    keep(number, answer);
                    return;
                }
            } catch (IOException error) {
                cut.incrementAndGet();
                Thread.sleep(200);
            }
        }
    }

    private synchronized void report(String what) {
        unexpected.add(what);
    }

    private synchronized void keep(int number, Http answer) {
        if (answer.header("Idempotent-Replayed") != null) replayed.incrementAndGet();
        if (answer.status != (number % 3 == 2 ? 204 : number % 3 == 1 ? 200 : 201)) report(number + ": " + answer.stored());
        answers.computeIfAbsent(number, any -> new ArrayList<>()).add(answer);
    }

    private void check() throws Exception {
        for (int number = 0; number < requests; number++) order(number); // once more
        Map<String, Integer> rows = new HashMap<>();
        Map<String, String> ids = new HashMap<>();
        try (Connection connection = Database.connect(); Statement statement = connection.createStatement();
             ResultSet row = statement.executeQuery("SELECT name, count(*), min(id) FROM orders WHERE name LIKE 'storm-%' GROUP BY name")) {
            while (row.next()) {
                rows.put(row.getString(1), row.getInt(2));
                ids.put(row.getString(1), "/orders/" + row.getString(3));
            }
        }
        int single = 0, alike = 0, right = 0;
        for (int number = 0; number < requests; number++) {
            List<Http> same = answers.getOrDefault(number, List.of());
            if (Integer.valueOf(1).equals(rows.get("storm-" + number))) single++;
            if (same.size() >= 2 && same.stream().map(Http::stored).distinct().count() == 1) alike++;
            if (!same.isEmpty() && same.get(0).header("Location").endsWith(ids.getOrDefault("storm-" + number,
                "none"))) right++;
        }
        System.out.println("# " + requests + " keys: " + replayed + " replays, " + busy + " times 409, " + unavailable
            + " times 503, " + cut + " cut connections, "
            + KILLS + " killed servers");
        Tap.is(single, requests, "one row for each key");
        Tap.is(rows.size(), requests, "and no other");
        Tap.is(alike, requests, "all answers of a key are equal byte for byte");
        Tap.is(right, requests, "and tell of its row");
        Tap.is(unexpected.toString(), "[]", "no errors but 409, 503 and cut connections");
        Tap.ok(busy.get() > 0 && cut.get() > 0, "requests met others in flight, and servers that died");
    }
}
