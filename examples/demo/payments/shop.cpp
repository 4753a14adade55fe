#include "shop.hpp"

#include <tuple>

namespace demo::payments {
namespace {

// No unique constraint on request_id: this is the table that has no room for one (partitioned, sharded, or older than
// the idea). The index is there, so that looking is cheap.
constexpr const char *kTables = R"sql(
  CREATE TABLE orders (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request_id   text NOT NULL,
    customer     int NOT NULL,
    amount_cents bigint NOT NULL,
    ordered_at   timestamptz NOT NULL DEFAULT clock_timestamp());
  CREATE INDEX ON orders (request_id);

  CREATE TABLE charges (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id     bigint NOT NULL REFERENCES orders,
    amount_cents bigint NOT NULL,
    charged_at   timestamptz NOT NULL DEFAULT clock_timestamp());
  CREATE INDEX ON charges (order_id);

  CREATE TABLE due (request_id text PRIMARY KEY, amount_cents bigint NOT NULL, story text NOT NULL);
)sql";

// What was charged, numbered within its request id.
constexpr const char *kLedgerView = R"sql(
  CREATE VIEW ledger AS
    SELECT o.request_id, c.amount_cents, row_number() OVER (PARTITION BY o.request_id ORDER BY c.id) AS nth
      FROM charges c JOIN orders o ON o.id = c.order_id;
)sql";

constexpr const char *kTotals = R"sql(
  SELECT (SELECT count(*) FROM orders) AS orders,
         (SELECT count(*) FROM charges) AS charges,
         (SELECT count(*) FROM ledger WHERE nth > 1) AS duplicate_charges,
         (SELECT coalesce(sum(amount_cents), 0)::bigint FROM ledger WHERE nth > 1) AS overcharged_cents,
         (SELECT count(*) FROM due WHERE NOT EXISTS (SELECT FROM ledger WHERE ledger.request_id = due.request_id))
           AS lost_payments,
         (SELECT count(*) FROM ledger LEFT JOIN due USING (request_id)
           WHERE due.amount_cents IS DISTINCT FROM ledger.amount_cents) AS wrong_amounts
)sql";

constexpr const char *kDuplicatesByStory =
    "SELECT story, count(*) FROM ledger JOIN due USING (request_id) WHERE nth > 1 GROUP BY story";

void fill_due(pqxx::work &transaction, const Load &load) {
    auto due = copy_into(transaction, "due");
    for (const Payment &payment : load.payments)
        due << std::make_tuple(payment.key, payment.amount_cents, std::string{line_of(payment.story).name});
    due.complete();
}

} // namespace

void create_shop(pqxx::connection &connection, const std::string &schema, const Load &load) {
    pqxx::work transaction{connection};
    transaction.exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE");
    transaction.exec("CREATE SCHEMA " + schema);
    transaction.exec(std::string{kTables} + kLedgerView);
    fill_due(transaction, load);
    transaction.commit();
}

Ledger read_ledger(pqxx::connection &connection) {
    pqxx::read_transaction transaction{connection};
    const auto totals = one_row(transaction.exec(kTotals));
    Ledger ledger{.orders = totals["orders"].as<std::int64_t>(),
                  .charges = totals["charges"].as<std::int64_t>(),
                  .duplicate_charges = totals["duplicate_charges"].as<std::int64_t>(),
                  .overcharged_cents = totals["overcharged_cents"].as<std::int64_t>(),
                  .lost_payments = totals["lost_payments"].as<std::int64_t>(),
                  .wrong_amounts = totals["wrong_amounts"].as<std::int64_t>()};
    for (const auto &row : transaction.exec(kDuplicatesByStory))
        ledger.duplicate_charges_by_story[row[0].as<std::string>()] = row[1].as<std::int64_t>();
    return ledger;
}

} // namespace demo::payments
