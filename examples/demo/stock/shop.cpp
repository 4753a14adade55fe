#include "shop.hpp"

#include <cstddef>
#include <string>
#include <tuple>

namespace demo::stock {
namespace {

constexpr const char *kTables = R"sql(
  CREATE TABLE stock (id int PRIMARY KEY, quantity int NOT NULL);

  CREATE TABLE sales (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    attempt int NOT NULL,
    sold_at timestamptz NOT NULL DEFAULT clock_timestamp());

  CREATE TABLE told (attempt int PRIMARY KEY, sold boolean NOT NULL, retries int NOT NULL);
)sql";

constexpr const char *kTotals = R"sql(
  SELECT (SELECT count(*) FROM told) AS attempts,
         (SELECT count(*) FROM told WHERE sold) AS sold,
         (SELECT coalesce(sum(retries), 0) FROM told) AS retries,
         (SELECT count(*) FROM sales) AS sales,
         (SELECT quantity FROM stock) AS units_left,
         (SELECT count(*)
            FROM told FULL JOIN (SELECT attempt, count(*) AS sales FROM sales GROUP BY attempt) AS made USING (attempt)
           WHERE told.sold::int IS DISTINCT FROM coalesce(made.sales, 0)) AS unexplained
)sql";

} // namespace

void create_shop(pqxx::connection &connection, const Flow &flow) {
    const std::string schema = flow.schema;
    pqxx::work transaction{connection};
    transaction.exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE");
    transaction.exec("CREATE SCHEMA " + schema);
    transaction.exec(kTables);
    if (flow.guard)
        flow.guard(transaction);
    transaction.exec("INSERT INTO stock (id, quantity) VALUES (1, " + std::to_string(kUnits) + ")");
    transaction.commit();
}

void store_answers(pqxx::connection &connection, const std::vector<Answer> &answers) {
    pqxx::work transaction{connection};
    auto told = copy_into(transaction, "told");
    for (std::size_t attempt = 0; attempt < answers.size(); ++attempt)
        told << std::make_tuple(static_cast<int>(attempt), answers[attempt].sold, answers[attempt].retries);
    told.complete();
    transaction.commit();
}

Ledger read_ledger(pqxx::connection &connection) {
    pqxx::read_transaction transaction{connection};
    const auto totals = one_row(transaction.exec(kTotals));
    return {.attempts = totals["attempts"].as<std::int64_t>(),
            .sold = totals["sold"].as<std::int64_t>(),
            .retries = totals["retries"].as<std::int64_t>(),
            .sales = totals["sales"].as<std::int64_t>(),
            .left = totals["units_left"].as<std::int64_t>(),
            .unexplained = totals["unexplained"].as<std::int64_t>()};
}

} // namespace demo::stock
