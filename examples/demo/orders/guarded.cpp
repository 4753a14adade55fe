// With idem: the database knows which state may follow which, and idem_transition says what became of the move. Who hears
// `moved` is the only one, and does the work in the same transaction; the other worker waits for its end and hears
// `already`.
#include <string>

#include "half.hpp"

namespace demo::orders {
namespace {

// With the log on, each move is also a row of idem_transition_log; those of an earlier demo are about other orders.
constexpr const char *kMachine = R"sql(
  SELECT idem_machine_define('demo_order', '{"initial": ["created"],
                                             "transitions": {"created": ["paid", "cancelled"],
                                                             "paid":    ["shipped", "cancelled"],
                                                             "shipped": ["delivered"]}}');
  SELECT idem_machine_attach('orders', 'status', 'demo_order', log => true);
  DELETE FROM idem_transition_log WHERE target = 'orders_idem.orders';
)sql";

void guard(pqxx::work &transaction) { transaction.exec(kMachine); }

void prepare(pqxx::connection &connection) {
    connection.prepare("move", "SELECT outcome FROM idem_transition('orders', jsonb_build_object('id', $1::int), NULL, $2)");
}

Answer handle(const Job &job) {
    pqxx::work transaction{job.connection()};
    auto outcome = one_row(exec_prepared(transaction, "move", job.event().order, job.event().to))[0].as<std::string>();
    if (outcome != "moved")
        return outcome;

    job.do_work(transaction);
    transaction.commit();
    return outcome;
}

} // namespace

const Half kGuarded{.name = "idem_transition", .schema = "orders_idem", .guard = guard, .prepare = prepare, .handle = handle};

} // namespace demo::orders
