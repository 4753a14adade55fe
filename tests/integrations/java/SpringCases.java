/** {@code @Transactional} methods and JdbcTemplate behind the filter. */
final class SpringCases {
    private SpringCases() {}

    public static void main(String[] arguments) throws Exception {
        try (ServerProcess server = new ServerProcess(System.getProperty("server.database.url"))) {
            Tap.test("spring", () -> {
                Http placed = order(server, "placed"), again = order(server, "placed");
                Tap.is(placed.status + " " + again.stored() + again.header("Idempotent-Replayed"), "201 " + placed.stored()
                    + "true", "an order is replayed");
                Tap.is(Database.orders("spring-placed"), "1", "and placed once");
                Http declined = order(server, "declined");
                Tap.is(declined.status + " " + order(server, "declined").stored(), "402 " + declined.stored(),
                    "an answer of an exception handler is replayed");
                Tap.is(Database.orders("spring-declined"), "0", "and the @Transactional method is rolled back");
                Tap.is(order(server, "bug").status + " " + order(server, "bug").status, "500 500",
                    "an exception is 500 and frees the key");
                Tap.is(Database.orders("spring-bug"), "0", "and is rolled back");
                Tap.is(Http.send(server.port, "POST", "/orders?name=x", new byte[0]).status, 400, "a missing key is 400");
            });
            Tap.test("@Idempotent", () -> routes(server));
        }
        System.exit(Tap.end());
    }

    private static void routes(ServerProcess server) throws Exception {
        Http paid = send(server, "/routes/paid", "paid"), again = send(server, "/routes/paid", "paid");
        Tap.is(again.stored() + again.header("Idempotent-Replayed"), paid.stored() + "true", "an annotated route is replayed");
        Tap.is(paid.status + " " + Database.orders("paid"), "200 1", "and runs once");
        Tap.is(send(server, "/routes/paid", null).status, 400, "it needs a key");

        Http open = send(server, "/routes/open", "open");
        Tap.is(open.text().endsWith(" unguarded"), true, "another route passes by");
        Tap.is(send(server, "/routes/open", "open").text().equals(open.text()), false, "and is not replayed");
        Tap.is(Database.orders("open"), "2", "and runs twice");
        Tap.is(send(server, "/routes/none", "none").status, 404, "a path without a route is 404");
        Tap.is(Http.send(server.port, "PUT", "/routes/paid", new byte[0], "Idempotency-Key: put").status, 405, "and another method 405");

        Tap.is(send(server, "/routes/bug", "bug").status + " " + send(server, "/routes/bug", "bug").status, "500 500",
            "an exception frees the key");
        Tap.is(Database.orders("bug"), "0", "and is rolled back");

        Http refund = send(server, "/routes/refund", "refund");
        Tap.is(refund.text().replaceAll("^\\d+ ", ""), "refunds/shop:a", "the scope is of the annotation's family");
        Tap.is(send(server, "/routes/refund", "refund").text(), refund.text(), "in which the key is replayed");
        Tap.is(Database.value("SELECT round(extract(epoch FROM expires_at - created_at)) FROM idem.idem_lookup('refund', 'refunds/shop:a')"), "172800",
            "and kept for the annotation's ttl");
        Tap.is(send(server, "/routes/refund", null).status, 200, "a key that is not required may be missing");
        Http leased = send(server, "/routes/leased", "leased");
        Tap.is(leased.text().endsWith(" leased"), true, "the annotation has a lease");
        Tap.is(send(server, "/routes/leased", "leased").stored(), leased.stored(), "under which the response is stored");
        Tap.is(send(server, "/routes/wrong", "wrong").status + " " + Database.orders("wrong"), "500 0", "what is no duration is 500");

        Http form = send(server, "/routes/form", "form", "&kind=paid");
        Tap.is(form.text().endsWith(" shop:a"), true, "a route that its parameters select");
        Tap.is(send(server, "/routes/form", "form", "&kind=paid").stored(), form.stored(), "is replayed");
        Tap.is(send(server, "/routes/form", "form", "&kind=open").text().endsWith(" unguarded"), true, "or passes by, with its form");
        Tap.is(send(server, "/routes/read", "read", "&kind=open").text().endsWith(" unguarded"), true, "also where a filter has read it before");
        Tap.is(send(server, "/routes/guarded/inherited", "class").text().endsWith(" shop:a"), true, "an annotation of the class");
        Tap.is(send(server, "/routes/guarded/own", "own").text().endsWith(" own/shop:a"), true, "that of a method takes its place");

        Http both = send(server, "/both/paid", "both");
        Tap.is(send(server, "/both/paid", "both").stored(), both.stored(), "with a filter for all in front of it, a route is replayed");
        Tap.is(both.status + " " + Database.orders("both"), "200 1", "and runs once");
    }

    /** The order has the name of the key. Null: none. */
    private static Http send(ServerProcess server, String path, String key) throws Exception {
        return send(server, path, key, "");
    }

    private static Http send(ServerProcess server, String path, String key, String more) throws Exception {
        String type = "Content-Type: application/x-www-form-urlencoded";
        byte[] form = ("name=" + key + more).getBytes();
        return key == null ? Http.send(server.port, "POST", path, form, "X-Account: a", type)
            : Http.send(server.port, "POST", path, form, "X-Account: a", type, "Idempotency-Key: " + key);
    }

    private static Http order(ServerProcess server, String name) throws Exception {
        byte[] form = ("name=spring-" + name).getBytes();
        return Http.send(server.port, "POST", "/orders", form, "X-Account: a", "Idempotency-Key: " + name,
            "Content-Type: application/x-www-form-urlencoded");
    }
}
