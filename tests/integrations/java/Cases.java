import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What the draft and the documentation say, case by case, against the application in a process of its own. */
final class Cases {
    private static final byte[] EMPTY = {};
    private static final String PROBLEM = "application/problem+json";
    private static final String IN_LOG = "The log of the server has the reason.";
    private static final Map<Integer, String> TITLES = Map.of(400, "Bad Request", 409, "Conflict", 413, "Content Too Large",
        422, "Unprocessable Content", 500, "Internal Server Error", 503, "Service Unavailable");

    private final ServerProcess server;

    private Cases(ServerProcess server) {
        this.server = server;
    }

    public static void main(String[] arguments) throws Exception {
        try (ServerProcess server = new ServerProcess(System.getProperty("server.database.url"))) {
            Cases cases = new Cases(server);
            Tap.test("errors of the draft", cases::draft);
            Tap.test("replays", cases::replays);
            Tap.test("bodies", cases::bodies);
            Tap.test("options", cases::options);
            Tap.test("keys", cases::keys);
            Tap.test("failures", cases::failures);
            Tap.test("streams", cases::streams);
            Tap.test("commits", cases::commits);
            Tap.test("leases", cases::leases);
        }
        System.exit(Tap.end());
    }

    private Http post(String target, byte[] body, String... headers) throws Exception {
        return Http.send(server.port, "POST", target, body, headers);
    }

    /** POST of a case with the case's name as key and order. */
    private Http does(String mode, String what, String... headers) throws Exception {
        String[] all = new String[headers.length + 2];
        System.arraycopy(headers, 0, all, 0, headers.length);
        all[headers.length] = "X-Account: a";
        all[headers.length + 1] = "Idempotency-Key: \"" + mode + "-" + what + "\"";
        return post("/" + mode + "/case?do=" + what + "&name=" + mode + "-" + what.split("&")[0], EMPTY, all);
    }

    /** Null for code: the problem has none, because it is the handler's. */
    private static void problem(Http answer, int status, String code, String name) {
        Tap.is(answer.status + " " + answer.header("Content-Type") + " " + member(answer, "status") + " "
            + member(answer, "title") + " " + member(answer, "code"),
            status + " " + PROBLEM + " " + status + " " + TITLES.get(status) + " " + code, name);
    }

    /** A member of a problem; null: it does not have it. */
    private static String member(Http answer, String name) {
        Matcher matcher = Pattern.compile("\"" + name + "\": (?:\"((?:[^\"\\\\]|\\\\.)*)\"|([0-9]+))").matcher(answer.text());
        if (!matcher.find()) return null;
        return matcher.group(1) == null ? matcher.group(2) : matcher.group(1);
    }

    private void draft() throws Exception {
        String target = "/tx/orders?name=draft&kind=json";
        problem(post(target, EMPTY, "X-Account: a"), 400, "key_missing", "a missing key is 400");
        problem(post(target, EMPTY, "X-Account: a", "Idempotency-Key: \"a"), 400, "key_malformed", "a malformed key is 400");
        problem(post(target, EMPTY, "X-Account: a", "Idempotency-Key:"), 400, "key_malformed", "an empty key is 400");
        problem(post(target, EMPTY, "X-Account: a", "Idempotency-Key: a", "Idempotency-Key: b"), 400, "key_malformed",
            "two keys are 400");
        Tap.is(Database.orders("draft"), "0", "a rejected request has no effect");

        Http first = post(target, "1".getBytes(), "X-Account: a", "Idempotency-Key: \"draft\"");
        Http again = post(target, "1".getBytes(), "X-Account: a", "Idempotency-Key: draft");
        Tap.is(first.status + " " + first.header("Idempotent-Replayed"), "201 null", "the first request runs");
        Tap.is(again.stored() + again.header("Idempotent-Replayed"), first.stored() + "true",
            "a repetition is replayed, quoted or bare");
        problem(post(target, "2".getBytes(), "X-Account: a", "Idempotency-Key: draft"), 422, "mismatch", "another body is 422");
        problem(post(target + "&x", "1".getBytes(), "X-Account: a", "Idempotency-Key: draft"), 422, "mismatch",
            "another query is 422");
        Tap.is(post(target, "1".getBytes(), "X-Account: b", "Idempotency-Key: draft").header("Idempotent-Replayed"), null,
            "another account's key is another key");
        Tap.is(Database.orders("draft"), "2", "one order each");

        Http documented = post(target, EMPTY, "X-Account: picky");
        Tap.is(documented.header("Link"), "<https://shop.example/keys>; rel=\"describedby\"",
            "rejections link to the documentation of the scope");
    }

    private void replays() throws Exception {
        for (String kind : new String[] {"json", "pdf", "none"}) {
            String target = "/tx/orders?name=replay-" + kind + "&kind=" + kind;
            Http first = post(target, EMPTY, "X-Account: a", "Idempotency-Key: replay-" + kind);
            Http again = post(target, EMPTY, "X-Account: a", "Idempotency-Key: replay-" + kind);
            Tap.is(again.stored(), first.stored(), kind + " is replayed byte for byte");
            Tap.is(first.headers.get("Link") + again.header("X-Outer"), "[</a>; rel=\"next\", </b>; rel=\"last\"]kept",
                kind + ": headers of the handler and of other filters");
        }
        Http declined = does("tx", "402"), again = does("tx", "402");
        Tap.is(again.stored(), declined.stored(), "an error that the handler answers is replayed");
        Tap.is(declined.header("X-Unstored") + " " + again.header("X-Unstored"), "once null",
            "headers beyond the scope's list are sent once");
        Tap.is(declined.header("Set-Cookie").startsWith("session=secret") + " " + again.header("Set-Cookie"), "true null",
            "cookies are sent once");
        Tap.is(Database.orders("tx-402"), "1", "and its rows are committed");
        Http text = does("tx", "text");
        Tap.is(text.text() + does("tx", "text").stored(), "é ✓" + text.stored(),
            "text of a writer is replayed in its encoding");
        Http json = does("tx", "json");
        Tap.is(json.text() + json.header("Content-Type") + does("tx", "json").stored(), "[\"é ✓\"]application/json"
            + json.stored(), "JSON of a writer is UTF-8");
        Http error = does("tx", "error");
        problem(error, 409, null, "sendError is answered by a problem");
        Tap.is(member(error, "detail"), "no \\\"more\\\"", "with its message");
        Tap.is(does("tx", "error").header("Idempotent-Replayed") + Database.orders("tx-error"), "null0",
            "and is a thrown error: rolled back");
        Tap.is(does("tx", "404").status + does("tx", "404").header("Idempotent-Replayed") + Database.orders("tx-404"), "404true1",
            "storeErrors: it is stored");
        Http redirect = does("tx", "redirect");
        Tap.is(redirect.status + " " + redirect.header("Location").endsWith("/shop/7") + redirect.stored().equals(does("tx",
            "redirect").stored()), "302 truetrue", "sendRedirect is replayed");
        redirect61("redirect-status", "303 ");
        redirect61("redirect-body", "302 moved");
        redirect61("redirect-all", "308 ");
        Tap.is(does("tx", "charset").text() + " " + does("tx", "charset").header("Content-Type").toLowerCase(),
            "é ✓ text/plain;charset=utf-8", "a Charset is that of the response");
    }

    private void redirect61(String what, String wanted) throws Exception {
        Http redirect = does("tx", what);
        Tap.is(redirect.status + " " + redirect.text() + redirect.header("Location") + does("tx", what).stored(),
            wanted + "/shop/7" + redirect.stored(), what + " of Servlet 6.1 is replayed");
    }

    private void bodies() throws Exception {
        byte[] form = "a=2&a=%C3%A9+x".getBytes(StandardCharsets.US_ASCII);
        Http parsed = post("/tx/case?do=form&name=form&a=1", form, "X-Account: a", "Idempotency-Key: form",
            "Content-Type: application/x-www-form-urlencoded");
        Tap.is(parsed.body.length > 0 && new String(parsed.body, StandardCharsets.ISO_8859_1).startsWith("1,2,\u00e9 x a"),
            true, "a form is parsed after the filter has read it");
        problem(post("/tx/case?do=form&name=early", form, "X-Account: a", "X-Read-Early: 1", "Idempotency-Key: early",
            "Content-Type: application/x-www-form-urlencoded"), 500, "internal",
            "a body that another filter has read is 500, not an empty body");
        problem(post("/tx/orders?name=large&kind=json", new byte[(1 << 20) + 1], "X-Account: a", "Idempotency-Key: large"),
            413, "body_too_large", "a body over 1 MiB is 413");
        for (String item : List.of("%zz", "%", "100%25%2", "a%")) {
            Http odd = post("/tx/case?do=form&name=odd", ("a=" + item).getBytes(), "X-Account: a", "Idempotency-Key: odd" + item,
                "Content-Type: application/x-www-form-urlencoded");
            Tap.is(odd.status + odd.text(), "200" + item.replace("%25", "%") + " a", "a form with " + item + " is read as browsers do");
        }
        for (int i = 1; i <= 3; i++) {
            String boundary = "b" + i, file = i == 3 ? "other" : "file";
            byte[] parts = ("--" + boundary + "\r\n\r\n" + file + "\r\n--" + boundary + "--\r\n").getBytes();
            Http upload = post("/tx/case?do=402&name=upload", parts, "X-Account: a", "Idempotency-Key: upload",
                "Content-Type: multipart/form-data; boundary=" + boundary);
            Tap.is(upload.status + upload.header("Idempotent-Replayed"), i == 1 ? "402null" : i == 2 ? "402true" : "422null",
                "multipart, attempt " + i + ": another boundary is the same request, another file is not");
        }
        for (int i = 0; i < 2; i++)
            Tap.is(post("/tx/case?do=key&name=body", "key=in-body".getBytes(), "X-Account: a").text(), "in-body in-body", "keyFrom");
        Tap.is(Database.orders("body"), "1", "keyFrom: one effect");
        Tap.is(post("/tx/orders?name=full&kind=json", new byte[1 << 20], "X-Account: a", "Idempotency-Key: full").status,
            201, "a body of 1 MiB is taken");
    }

    private void options() throws Exception {
        problem(post("/small/orders?name=small&kind=json", new byte[11], "X-Account: a", "X-Key: small"), 413, "body_too_large",
            "maxBody");
        Tap.is(post("/small/orders?name=small&kind=json", EMPTY, "X-Account: a", "X-Key: small").status, 201,
            "header; an onOutcome that throws changes nothing");
        Http nobody = post("/tx/orders?name=nobody&kind=json", EMPTY, "X-Account: nobody", "Idempotency-Key: k");
        problem(nobody, 500, "internal", "an empty scope is 500");
        Tap.is(member(nobody, "detail"), IN_LOG, "whose detail says where the reason is");
        problem(post("/tx/orders?name=nobody&kind=json", EMPTY, "Idempotency-Key: k"), 500, "internal",
            "a scope function that throws is 500");
        Tap.is(Database.orders("nobody"), "0", "and the handler does not run");
        Tap.is(Http.send(server.port, "GET", "/tx/case", EMPTY, "X-Account: a").text(), "no context",
            "a GET without a key passes by");
        String[] keyed = {"X-Account: a", "Idempotency-Key: get"};
        Http got = Http.send(server.port, "GET", "/tx/orders?name=get&kind=json", EMPTY, keyed);
        Tap.is(Http.send(server.port, "GET", "/tx/orders?name=get&kind=json", EMPTY, keyed).stored(), got.stored(),
            "a key is used whatever the method");
        for (int i = 0; i < 2; i++) Tap.is(post("/optional/orders?name=optional&kind=json", EMPTY, "X-Account: a").status,
            201, "keyRequired(false): no key is no error");
        Tap.is(Database.orders("optional"), "2", "and each request has its effect");
        Tap.is(Http.send(server.port, "PUT", "/optional/case", EMPTY, "X-Account: a").text(), "no context",
            "methods: another method passes by");
        Tap.is(Http.send(server.port, "PUT", "/tx/orders?name=put&kind=json", EMPTY, "X-Account: a").status
            + Database.orders("put"), "2011", "a PUT without a key runs in a transaction");
        Tap.is(post("/tx/case", EMPTY, "X-Account: a", "X-Skip: 1", "Idempotency-Key: skip").text(), "no context", "skip");
        Http own = post("/tx/case?do=text&name=own", EMPTY, "X-Account: a", "X-Own: 1");
        Tap.is(own.status + own.text() + own.header("Content-Type"), "400own key_missingtext/plain", "onError: the body is another one, the status stays");
        CompletableFuture<Http> first = CompletableFuture.supplyAsync(() -> {
            try {
                return post("/waiting/orders?name=waiting&kind=json&sleep=1000", EMPTY, "X-Account: a",
                    "Idempotency-Key: waiting");
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        Http second = post("/waiting/orders?name=waiting&kind=json&sleep=1000", EMPTY, "X-Account: a",
            "Idempotency-Key: waiting");
        Tap.is(second.stored(), first.get().stored(), "wait: a concurrent request waits for the first one's answer");
        String outcomes = Http.send(server.port, "GET", "/outcomes", EMPTY, "X-Account: a").text();
        String declined = "orders:a tx-402 \"tx-402\" POST /tx/case?do=402&name=tx-402 ";
        Tap.ok(outcomes.contains(declined + "RUN 402\n"), "onOutcome hears of a run");
        Tap.ok(outcomes.contains(declined + "REPLAY 402\n"), "of a replay");
        Tap.ok(outcomes.contains("orders:a null null POST /tx/orders?name=draft&kind=json REJECT 400"), "of a rejection");
        Tap.ok(outcomes.contains("orders:a null \"a POST /tx/orders?name=draft&kind=json REJECT 400"),
            "and of a malformed key");
    }

    /** A key in quotes and the same key without them are one. */
    private void keys() throws Exception {
        Tap.is(does("tx", "key").text(), "tx-key \"tx-key\"", "the handler gets the parsed key, and the header");
        Tap.is(does("leased", "key").text(), "leased-key \"leased-key\" orders:a/leased-key", "in leased mode as well");
        does("tx", "key");
        String log = Files.readString(Path.of(System.getProperty("server.log")));
        Tap.ok(log.contains("scope orders:a, key tx-key: run, 200"), "the log has the parsed key of a run");
        Tap.ok(log.contains("scope orders:a, key tx-key: replay, 200"), "and of a replay");
        Tap.ok(log.contains("scope orders:a, key \"a: reject, 400"), "and the header where it is malformed");
    }

    private void failures() throws Exception {
        for (int i = 1; i <= 2; i++) {
            Tap.is(does("tx", "throw").status, 500, "a handler that throws is the container's 500, run " + i);
            Tap.is(does("tx", "503").text() + does("tx", "503").header("Idempotent-Replayed"), "busytrue", "503 is a response, and stored, run " + i);
            Tap.is(does("tx", "commit").status, 500, "a handler cannot commit, run " + i);
            problem(does("tx", "deferred"), 500, "internal", "an error in COMMIT is 500, run " + i);
            Http retry = does("tx", "serialization");
            problem(retry, 503, "serialization_failure", "a serialization failure is 503, run " + i);
            Tap.is(retry.header("Retry-After"), "1", "with Retry-After");
            Http caught = does("tx", "caught&status=422");
            Tap.is(caught.status + " " + caught.header("Idempotent-Replayed"), "422 null",
                "an SQL error that is answered by 422: sent, not stored, run " + i);
            problem(does("tx", "caught&status=200"), 500, "internal",
                "an SQL error that is answered by 200 is 500, run " + i);
            Tap.is(post("/tx/case?do=429&name=picky", EMPTY, "X-Account: picky", "Idempotency-Key: picky").text(),
                "slow down", "an unstored status is sent, run " + i);
        }
        Tap.is(Database.orders("tx-503"), "1", "with its rows");
        for (String name : new String[] {"throw", "commit", "deferred", "serialization",
            "caught"}) Tap.is(Database.orders("tx-" + name), "0", name + ": rolled back");
        Tap.is(Database.orders("picky"), "0", "unstored status: rolled back");
        Http missing = does("missing", "text");
        problem(missing, 500, "internal", "a missing extension is 500");
        Tap.is(member(missing, "detail"), IN_LOG, "whose detail says where the reason is");
        Http gone = does("gone", "text");
        problem(gone, 503, "unavailable", "a database that is not reached is 503");
        Tap.is(gone.header("Retry-After"), "1", "with Retry-After");
        Tap.is(does("tx", "joined").text(), "joined", "IdemDataSource: parts with a rollback of their own");
        Tap.is(Database.orders("tx-joined") + Database.orders("tx-joined kept") + Database.orders("tx-joined undone"),
            "110", "are undone without the rest");
        Http closed = does("tx", "closed");
        Tap.is(closed.status + " " + closed.text() + " " + does("tx", "closed").header("Idempotent-Replayed"), "402 closed true",
            "IdemDataSource: connections that are closed without a commit");
        Tap.is(Database.orders("tx-closed") + Database.orders("tx-closed kept") + Database.orders("tx-closed undone"),
            "150", "are rolled back, without what was committed");
    }

    private void streams() throws Exception {
        problem(does("tx", "async"), 500, "asynchronous", "an asynchronous handler is refused");
        problem(does("tx", "gzip"), 500, "response_encoded", "a response that was compressed inside is refused");
        Tap.is(Database.orders("tx-async") + Database.orders("tx-gzip"), "00", "and rolled back");
        for (String what : new String[] {"stream", "swallowed-stream", "events"}) {
            Http first = does("tx", what), again = does("tx", what);
            Tap.is(first.status + again.stored() + again.header("Idempotent-Replayed") + Database.orders("tx-" + what),
                "200" + first.stored() + "true1", what + " is buffered and stored");
        }
        problem(does("strict", "large"), 500, "response_too_large", "oversize: a response over maxResponse is rolled back");
        Tap.is(Database.orders("strict-large"), "0", "and rolled back");
        boolean omits = Database.value("SELECT 1 FROM pg_proc WHERE proname = 'idem_http_complete' AND 'omit' = ANY (proargnames)") != null;
        if (!omits) {
            Tap.ok(true, "a response over maxResponse # SKIP idem_http_complete has no argument omit");
            return;
        }
        for (String what : new String[] {"large", "large-writer"}) {
            Http first = does("tx", what), again = does("tx", what);
            Tap.is(first.status + " " + first.body.length + " " + again.status + " " + again.body.length + " " + again.header("Idempotent-Replayed")
                + " " + Database.orders("tx-" + what), "201 3000 201 0 true 1", what + ": over maxResponse it is sent whole, and not stored");
        }
    }

    private void commits() throws Exception {
        Tap.is(does("tx", "forward").text() + does("tx", "forward").header("Idempotent-Replayed") + Database.orders("tx-forward")
            + Database.orders("tx-forward-forwarded"), "é ✓true11", "a forward is a part of the handler; the filter is mounted twice, and claims once");
        does("tx", "late");
        Tap.ok(does("tx", "late-use").text().startsWith("the transaction is over"), "a handle is dead in another request");
        for (String what : new String[] {"kill-now", "kill-silent"}) {
            problem(does("tx", what), 503, "unavailable", what + ": the connection is lost while the handler works: 503");
            Tap.is(Database.orders("tx-" + what), "0", "and nothing is committed");
        }
        Http lost = does("tx", "lost");
        Tap.is(lost.status + " " + lost.text().startsWith("committed") + " " + lost.header("Idempotent-Replayed"),
            "201 true true", "the reply to COMMIT is lost: the stored response is replayed");
        Tap.is(does("tx", "lost").stored(), lost.stored(), "and again");
        Tap.is(Database.orders("tx-lost"), "1", "one effect");
        Http killed = does("tx", "killed");
        problem(killed, 503, "not_committed", "the session is ended in COMMIT: 503");
        Tap.is(killed.header("Retry-After") + Database.orders("tx-killed"), "10", "with Retry-After, and nothing is committed");
        problem(post("/optional/case?do=lost&name=keyless", EMPTY, "X-Account: a"), 500, "commit_unknown",
            "without a key nobody can tell: 500");
    }

    private void leases() throws Exception {
        Http first = does("leased", "step&sleep=14000");
        Tap.is(first.text(), "charge book {\"charge\": \"ch_1\"} fence",
            "a leased handler has a fence and steps, and outlives its lease");
        Tap.is(does("leased", "step&sleep=14000").stored() + Database.orders("leased-step"), first.stored() + "1",
            "it is replayed");
        Tap.is(does("leased", "step&crash=throw").status, 500, "it throws: 500");
        Tap.is(does("leased", "step&crash=throw").text(), "book {\"charge\": \"ch_1\"} fence",
            "the key is released, and the next attempt has the steps");
        problem(does("leased", "gzip"), 500, "response_encoded", "leased: a response that was compressed inside is refused");
        problem(does("leased", "gzip"), 409, "in_flight", "and the key of its work is kept");
        problem(does("leased", "stolen"), 503, "lease_lost", "a key that has passed on meanwhile: 503");
        Tap.is(Database.orders("leased-stolen"), "0", "and the rows of the late handler are rolled back");
        Http declined = does("leased", "402");
        Tap.is(does("leased", "402").stored() + Database.orders("leased-402"), declined.stored() + "1", "402 is stored");
        for (int i = 1; i <= 2; i++) {
            Http picky = post("/leased/case?do=429&name=leased-picky", EMPTY, "X-Account: picky", "Idempotency-Key: leased-picky");
            Tap.is(picky.text() + " " + picky.header("Idempotent-Replayed") + " " + Database.orders("leased-picky"),
                "slow down null 0", "an unstored status releases the key, and the rows are rolled back, run " + i);
        }
        String[] tiny = {"X-Account: tiny", "Idempotency-Key: leased-tiny"};
        Http large = post("/leased/case?do=text&name=leased-tiny", EMPTY, tiny);
        Http omitted = post("/leased/case?do=text&name=leased-tiny", EMPTY, tiny);
        Tap.is(large.text() + " " + omitted.status + omitted.text() + " " + omitted.header("Idempotent-Replayed")
            + Database.orders("leased-tiny"), "é ✓ 200 true1", "a response that is too large to be stored is committed");
        try {
            does("leased", "step&crash=exit");
            Tap.ok(false, "the server dies");
        } catch (java.io.IOException expected) {
            server.restart();
        }
        Http after;
        do after = does("leased", "step&crash=exit");
        while (after.status == 409);
        Tap.is(after.text(), "book {\"charge\": \"ch_1\"} fence", "after the lease, the next server does the rest");
        Tap.is(Http.send(server.port, "PUT", "/leased/orders?name=leased-put&kind=json", EMPTY, "X-Account: a").status
            + Database.orders("leased-put"), "2011", "a PUT without a key is not leased");
    }
}
