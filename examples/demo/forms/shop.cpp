#include "shop.hpp"

#include <tuple>

namespace demo::forms {
namespace {

constexpr const char *kTables = R"sql(
  CREATE TABLE orders (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    form_id    int NOT NULL,
    customer   int NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT clock_timestamp());
  CREATE INDEX ON orders (form_id);

  CREATE TABLE forms (id int PRIMARY KEY, story text NOT NULL);
  CREATE TABLE answers (form_id int, click int, declined boolean NOT NULL, answer text NOT NULL, PRIMARY KEY (form_id, click));
)sql";

// What each form came to, beside what it ought to come to. Of a double click, the second one is told that the first is in
// flight or, if that was quick, has been done.
constexpr const char *kViews = R"sql(
  CREATE VIEW results AS
    SELECT f.id, f.story,
           (f.story NOT IN ('not_sent', 'expired', 'altered', 'other_customer'))::int AS due,
           coalesce(o.orders, 0) AS orders, a.answers
      FROM forms f
      LEFT JOIN (SELECT form_id, count(*) AS orders FROM orders GROUP BY form_id) AS o ON o.form_id = f.id
      LEFT JOIN (SELECT form_id, array_agg(answer ORDER BY answer) AS answers FROM answers GROUP BY form_id) AS a
        ON a.form_id = f.id;

  CREATE VIEW right_answers (story, answers) AS VALUES
    ('once',           ARRAY['accepted']),
    ('double_click',   ARRAY['accepted', 'in_flight']),
    ('double_click',   ARRAY['accepted', 'duplicate']),
    ('sent_again',     ARRAY['accepted', 'duplicate']),
    ('declined_once',  ARRAY['accepted', 'accepted']),
    ('expired',        ARRAY['expired']),
    ('altered',        ARRAY['invalid']),
    ('other_customer', ARRAY['invalid']);
)sql";

constexpr const char *kTotals = R"sql(
  SELECT (SELECT count(*) FROM answers) AS clicks,
         (SELECT count(*) FROM answers WHERE answer = 'accepted' AND declined) AS declined,
         (SELECT sum(due) FROM results) AS due,
         (SELECT count(*) FROM orders) AS orders,
         (SELECT coalesce(sum(orders - 1), 0) FROM results WHERE orders > 1) AS doubled,
         (SELECT count(*) FROM results WHERE orders < due) AS lost,
         (SELECT count(*) FROM results WHERE orders > 0 AND due = 0) AS illegal,
         (SELECT count(*) FROM results JOIN right_answers USING (story, answers) WHERE orders = due) AS right_forms,
         (SELECT count(*) FROM idem_tokens WHERE scope = 'forms') AS redeemed
)sql";

} // namespace

void create_shop(pqxx::connection &connection, const Load &load, const Way &way) {
    const std::string schema = way.schema;
    pqxx::work transaction{connection};
    transaction.exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE");
    transaction.exec("CREATE SCHEMA " + schema);
    transaction.exec(std::string{kTables} + kViews);
    way.guard(transaction);
    auto forms = copy_into(transaction, "forms");
    for (std::size_t i = 0; i < load.size(); ++i)
        forms << std::make_tuple(static_cast<int>(i), std::string{line_of(load[i].story).name});
    forms.complete();
    transaction.exec("ANALYZE forms");
    transaction.commit();
}

Mark read_mark(pqxx::connection &connection, const Way &way) {
    pqxx::read_transaction transaction{connection};
    const auto mark =
        one_row(transaction.exec(std::string{"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,"
                                             " pg_snapshot_xmax(pg_current_snapshot())::text::bigint, count(*) FROM "} +
                                 way.token_table));
    return {mark[0].as<std::int64_t>(), mark[1].as<std::int64_t>(), mark[2].as<std::int64_t>()};
}

Mark operator-(const Mark &later, const Mark &earlier) {
    return {later.wal_bytes - earlier.wal_bytes, later.transaction_ids - earlier.transaction_ids,
            later.tokens - earlier.tokens};
}

void store_answers(pqxx::connection &connection, const std::vector<Sent> &sent) {
    pqxx::work transaction{connection};
    auto answers = copy_into(transaction, "answers");
    for (const Sent &one : sent)
        answers << std::make_tuple(one.click.form, one.click.nth, one.click.card_is_declined, one.answer);
    answers.complete();
    transaction.exec("ANALYZE answers, orders");
    transaction.commit();
}

Ledger read_ledger(pqxx::connection &connection) {
    pqxx::read_transaction transaction{connection};
    const auto totals = one_row(transaction.exec(kTotals));
    Ledger ledger{.clicks = totals["clicks"].as<std::int64_t>(),
                  .declined = totals["declined"].as<std::int64_t>(),
                  .due = totals["due"].as<std::int64_t>(),
                  .orders = totals["orders"].as<std::int64_t>(),
                  .doubled = totals["doubled"].as<std::int64_t>(),
                  .lost = totals["lost"].as<std::int64_t>(),
                  .illegal = totals["illegal"].as<std::int64_t>(),
                  .right_forms = totals["right_forms"].as<std::int64_t>(),
                  .redeemed = totals["redeemed"].as<std::int64_t>()};
    for (const auto &row : transaction.exec("SELECT answer, count(*) FROM answers GROUP BY answer"))
        ledger.answers[row[0].as<std::string>()] = row[1].as<std::int64_t>();
    return ledger;
}

} // namespace demo::forms
