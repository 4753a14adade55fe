// With idem, in one statement: take a unit if there is one. The database reads and writes under the same row lock, and
// that lock is held for two statements and the commit, not for the shop's own work.
#include <stdexcept>
#include <string>

#include "flow.hpp"

namespace demo::stock {
namespace {

void prepare(pqxx::connection &connection) {
    connection.prepare("take", R"(SELECT outcome FROM conditional_adjust('stock', '{"id": 1}', 'quantity', -1))");
}

Answer buy(const Attempt &attempt) {
    pqxx::work transaction{attempt.connection()};
    attempt.do_own_work();

    const auto outcome = one_row(exec_prepared(transaction, "take"))[0].as<std::string>();
    if (outcome == "out_of_range")
        return {.sold = false};
    if (outcome != "adjusted")
        throw std::runtime_error{"conditional_adjust: unexpected outcome " + outcome};

    attempt.insert_sale(transaction);
    transaction.commit();
    return {.sold = true};
}

} // namespace

const Flow kConditional{.name = "conditional_adjust",
                        .how = "one statement: take a unit if there is one",
                        .schema = "stock_conditional",
                        .guard = nullptr,
                        .prepare = prepare,
                        .buy = buy};

} // namespace demo::stock
