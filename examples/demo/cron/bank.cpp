#include "bank.hpp"

#include <array>
#include <tuple>

namespace demo::cron {
namespace {

constexpr const char *kTables = R"sql(
  CREATE TABLE accounts (id int PRIMARY KEY, balance_cents bigint NOT NULL DEFAULT 0);
  CREATE TABLE last_run (night int NOT NULL);
  CREATE TABLE runs (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    night int NOT NULL);

  CREATE TABLE begun (night int NOT NULL, fence bigint, at timestamptz NOT NULL DEFAULT clock_timestamp());
  CREATE TABLE answers (night int, host int, mishap text NOT NULL, answer text NOT NULL, PRIMARY KEY (night, host));

  INSERT INTO last_run VALUES (0);
)sql";

constexpr const char *kViews = R"sql(
  CREATE VIEW nights AS
    SELECT night, (SELECT count(*) FROM runs WHERE runs.night = all_nights.night) AS runs
      FROM (SELECT DISTINCT night FROM answers) AS all_nights;

  CREATE VIEW begins AS
    SELECT night, at - lag(at) OVER (PARTITION BY night ORDER BY at) AS after,
           fence, lag(fence) OVER (ORDER BY at) AS fence_before
      FROM begun;
)sql";

constexpr const char *kTotals = R"sql(
  SELECT (SELECT count(*) FROM begun) AS begun,
         (SELECT count(*) FROM answers WHERE answer = 'died') AS died,
         (SELECT count(*) FROM answers WHERE mishap = 'paused' AND answer = 'ran') AS late_writes,
         (SELECT count(*) FROM answers WHERE mishap = 'paused' AND answer = 'refused') AS refused,
         count(*) FILTER (WHERE runs = 0) AS never,
         count(*) FILTER (WHERE runs = 1) AS once,
         count(*) FILTER (WHERE runs = 2) AS twice,
         count(*) FILTER (WHERE runs = 3) AS three_times,
         (SELECT sum(balance_cents) FROM accounts) - count(*) * 100 * (SELECT count(*) FROM accounts) AS overpaid_cents,
         (SELECT count(DISTINCT night) FROM begins WHERE after IS NOT NULL) AS taken_over,
         (SELECT coalesce(min(1000 * extract(epoch FROM after)), 0)::bigint FROM begins) AS least_ms,
         (SELECT coalesce(max(1000 * extract(epoch FROM after)), 0)::bigint FROM begins) AS most_ms,
         (SELECT count(*) FROM begins WHERE fence <= fence_before) AS stale_fences
    FROM nights
)sql";

constexpr std::array<const char *, 3> kMishaps{"none", "dies", "paused"}; // by Mishap

} // namespace

void create_bank(pqxx::connection &connection, const Half &half) {
    const std::string schema = half.schema;
    pqxx::work transaction{connection};
    transaction.exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE");
    transaction.exec("CREATE SCHEMA " + schema);
    transaction.exec(std::string{kTables} + kViews);
    transaction.exec("INSERT INTO accounts SELECT generate_series(1, " + std::to_string(kAccounts) + ")");
    transaction.commit();
}

void store_answers(pqxx::connection &connection, const std::vector<Part> &parts) {
    pqxx::work transaction{connection};
    auto answers = copy_into(transaction, "answers");
    for (const Part &part : parts)
        answers << std::make_tuple(part.night, static_cast<int>(part.host),
                                   std::string{kMishaps[static_cast<std::size_t>(part.mishap)]}, part.answer);
    answers.complete();
    transaction.commit();
}

Ledger read_ledger(pqxx::connection &connection) {
    pqxx::read_transaction transaction{connection};
    const auto totals = one_row(transaction.exec(kTotals));
    return {.begun = totals["begun"].as<std::int64_t>(),
            .died = totals["died"].as<std::int64_t>(),
            .late_writes = totals["late_writes"].as<std::int64_t>(),
            .refused = totals["refused"].as<std::int64_t>(),
            .never = totals["never"].as<std::int64_t>(),
            .once = totals["once"].as<std::int64_t>(),
            .twice = totals["twice"].as<std::int64_t>(),
            .three_times = totals["three_times"].as<std::int64_t>(),
            .overpaid_cents = totals["overpaid_cents"].as<std::int64_t>(),
            .taken_over = totals["taken_over"].as<std::int64_t>(),
            .least_ms = totals["least_ms"].as<std::int64_t>(),
            .most_ms = totals["most_ms"].as<std::int64_t>(),
            .stale_fences = totals["stale_fences"].as<std::int64_t>()};
}

} // namespace demo::cron
