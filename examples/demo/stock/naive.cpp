// The usual way: look how many are left, and write back one less. Two buyers who look at the same moment see the same
// number and write the same number: two sales, one unit gone.
#include "flow.hpp"

namespace demo::stock {
namespace {

void prepare(pqxx::connection &connection) {
    connection.prepare("read", "SELECT quantity FROM stock WHERE id = 1");
    connection.prepare("write", "UPDATE stock SET quantity = $1 WHERE id = 1");
}

Answer buy(const Attempt &attempt) {
    pqxx::work transaction{attempt.connection()};
    const int quantity = one_row(exec_prepared(transaction, "read"))[0].as<int>();
    if (quantity == 0)
        return {.sold = false};

    attempt.do_own_work();
    exec_prepared(transaction, "write", quantity - 1);
    attempt.insert_sale(transaction);
    transaction.commit();
    return {.sold = true};
}

} // namespace

const Flow kNaive{.name = "SELECT, then UPDATE",
                  .how = "read the quantity, write back one less",
                  .schema = "stock_naive",
                  .guard = nullptr,
                  .prepare = prepare,
                  .buy = buy};

} // namespace demo::stock
