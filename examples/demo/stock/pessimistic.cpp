// With idem, pessimistically: lock the row, then look. The rest is the usual way's, and right, because the next buyer
// looks only when this one has committed; and so everybody waits for everybody's own work.
#include <stdexcept>
#include <string>

#include "flow.hpp"

namespace demo::stock {
namespace {

void prepare(pqxx::connection &connection) {
    connection.prepare("lock", "SELECT outcome, (row_data->>'quantity')::int AS quantity"
                               R"( FROM pessimistic_lock('stock', '{"id": 1}'))");
    connection.prepare("write", "UPDATE stock SET quantity = $1 WHERE id = 1");
}

Answer buy(const Attempt &attempt) {
    pqxx::work transaction{attempt.connection()};
    const auto row = one_row(exec_prepared(transaction, "lock"));
    if (const auto outcome = row["outcome"].as<std::string>(); outcome != "locked")
        throw std::runtime_error{"pessimistic_lock: unexpected outcome " + outcome};
    const int quantity = row["quantity"].as<int>();
    if (quantity == 0)
        return {.sold = false};

    attempt.do_own_work();
    exec_prepared(transaction, "write", quantity - 1);
    attempt.insert_sale(transaction);
    transaction.commit();
    return {.sold = true};
}

} // namespace

const Flow kPessimistic{.name = "pessimistic_lock",
                        .how = "lock the row, then read and write it; others wait",
                        .schema = "stock_pessimistic",
                        .guard = nullptr,
                        .prepare = prepare,
                        .buy = buy};

} // namespace demo::stock
