#include "shop.hpp"

#include <tuple>

#include "events.hpp"

namespace demo::orders {
namespace {

constexpr const char *kTables = R"sql(
  CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL DEFAULT 'created');

  -- What was done when an order entered a state: paid, the card was charged; shipped, a parcel went out; delivered, it
  -- was handed over; cancelled, the money went back.
  CREATE TABLE effects (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id int NOT NULL REFERENCES orders,
    entered  text NOT NULL,
    done_at  timestamptz NOT NULL DEFAULT clock_timestamp());
  CREATE INDEX ON effects (order_id);

  CREATE TABLE answers (
    worker int, order_id int, asked_for text, answer text NOT NULL,
    PRIMARY KEY (order_id, asked_for, worker));
)sql";

constexpr const char *kViews = R"sql(
  CREATE VIEW done AS
    SELECT order_id, entered, count(*) AS times FROM effects GROUP BY order_id, entered;

  CREATE VIEW histories AS
    SELECT o.id, o.status, array_agg(e.entered ORDER BY e.id) AS history
      FROM orders o LEFT JOIN effects e ON e.order_id = o.id GROUP BY o.id;
)sql";

constexpr const char *kTotals = R"sql(
  SELECT count(*) AS events,
         count(*) FILTER (WHERE answer = 'moved') AS moved,
         count(*) FILTER (WHERE answer = 'already') AS already,
         count(*) FILTER (WHERE answer = 'not_allowed') AS not_allowed,
         (SELECT count(*) FROM answers first JOIN answers second USING (order_id, asked_for)
           WHERE first.worker <> second.worker AND first.answer = 'moved' AND second.answer <> 'already') AS repeats_not_told,
         (SELECT count(*) FROM done WHERE entered = 'paid' AND times > 1) AS charged_twice,
         (SELECT count(*) FROM done WHERE entered = 'shipped' AND times > 1) AS shipped_twice,
         (SELECT count(*) FROM done sent JOIN done refunded USING (order_id)
           WHERE sent.entered = 'shipped' AND refunded.entered = 'cancelled') AS shipped_and_cancelled,
         (SELECT count(*) FROM histories
           WHERE (status, history) IN (('delivered', '{paid,shipped,delivered}'), ('cancelled', '{paid,cancelled}')))
           AS right_histories
    FROM answers
)sql";

// The log's own path of each order, from its creation on, against the shop's.
constexpr const char *kLogTotals = R"sql(
  WITH log AS (
    SELECT (key->>'id')::int AS id, from_state, to_state, at
      FROM idem_transition_log WHERE target = 'orders_idem.orders' AND state_column = 'status'
  ), paths AS (
    SELECT id, array_agg(from_state ORDER BY at) AS left_states, array_agg(to_state ORDER BY at) AS entered
      FROM log GROUP BY id
  )
  SELECT (SELECT count(*) FROM log) AS rows,
         (SELECT count(*) FROM paths JOIN histories USING (id)
           WHERE paths.entered = ARRAY['created'] || history
             AND paths.left_states = ARRAY[NULL] || trim_array(paths.entered, 1))
           AS right_histories
)sql";

} // namespace

void create_shop(pqxx::connection &connection, const Half &half) {
    const std::string schema = half.schema;
    pqxx::work transaction{connection};
    transaction.exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE");
    transaction.exec("CREATE SCHEMA " + schema);
    transaction.exec(std::string{kTables} + kViews);
    if (half.guard)
        half.guard(transaction);
    transaction.exec("INSERT INTO orders SELECT generate_series(1, " + std::to_string(kOrders) + ")");
    transaction.commit();
}

void store_answers(pqxx::connection &connection, const std::vector<Handled> &handled) {
    pqxx::work transaction{connection};
    auto answers = copy_into(transaction, "answers");
    for (const Handled &one : handled)
        answers << std::make_tuple(static_cast<int>(one.worker), one.event.order, std::string{one.event.to}, one.answer);
    answers.complete();
    transaction.commit();
}

Ledger read_ledger(pqxx::connection &connection) {
    pqxx::read_transaction transaction{connection};
    const auto totals = one_row(transaction.exec(kTotals));
    return {.events = totals["events"].as<std::int64_t>(),
            .moved = totals["moved"].as<std::int64_t>(),
            .already = totals["already"].as<std::int64_t>(),
            .not_allowed = totals["not_allowed"].as<std::int64_t>(),
            .repeats_not_told = totals["repeats_not_told"].as<std::int64_t>(),
            .charged_twice = totals["charged_twice"].as<std::int64_t>(),
            .shipped_twice = totals["shipped_twice"].as<std::int64_t>(),
            .shipped_and_cancelled = totals["shipped_and_cancelled"].as<std::int64_t>(),
            .right_histories = totals["right_histories"].as<std::int64_t>()};
}

Log read_log(pqxx::connection &connection) {
    pqxx::read_transaction transaction{connection};
    const auto totals = one_row(transaction.exec(kLogTotals));
    return {.rows = totals["rows"].as<std::int64_t>(), .right_histories = totals["right_histories"].as<std::int64_t>()};
}

// The order is inserted and shipped in a transaction that is rolled back.
Stray run_stray_script(pqxx::connection &connection) {
    const std::string id = std::to_string(kOrders + 1);
    Stray stray{.statement = "UPDATE orders SET status = 'shipped' WHERE id = " + id};
    pqxx::work transaction{connection};
    transaction.exec("INSERT INTO orders VALUES (" + id + ")");
    try {
        stray.message = "UPDATE " + std::to_string(transaction.exec(stray.statement).affected_rows());
    } catch (const pqxx::sql_error &error) {
        stray.sqlstate = error.sqlstate();
        stray.message = error.what();
    }
    return stray;
}

} // namespace demo::orders
