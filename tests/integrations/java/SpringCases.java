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
        }
        System.exit(Tap.end());
    }

    private static Http order(ServerProcess server, String name) throws Exception {
        byte[] form = ("name=spring-" + name).getBytes();
        return Http.send(server.port, "POST", "/orders", form, "X-Account: a", "Idempotency-Key: " + name,
            "Content-Type: application/x-www-form-urlencoded");
    }
}
