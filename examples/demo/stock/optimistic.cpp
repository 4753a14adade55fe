// With idem, optimistically: write only if nobody has written since the read; otherwise start over. Nobody waits for
// the shop's own work of somebody else, and much of that work is lost when many want the same row.
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "flow.hpp"

namespace demo::stock {
namespace {

using namespace std::chrono_literals;

constexpr auto kWaitLimit = 30s;

// Adds the column "version" and the trigger that keeps it honest.
void guard(pqxx::work &transaction) { transaction.exec("SELECT optimistic_enable('stock')"); }

void prepare(pqxx::connection &connection) {
    connection.prepare("read", "SELECT quantity, version FROM stock WHERE id = 1");
    connection.prepare("write", R"(SELECT outcome FROM optimistic_update('stock', '{"id": 1}', expected_version => $1,)"
                                " changes => jsonb_build_object('quantity', $2::int))");
}

// False: somebody else was faster.
bool write(pqxx::work &transaction, std::int64_t version, int quantity) {
    const auto outcome = one_row(exec_prepared(transaction, "write", version, quantity))[0].as<std::string>();
    if (outcome != "updated" && outcome != "conflict")
        throw std::runtime_error{"optimistic_update: unexpected outcome " + outcome};
    return outcome == "updated";
}

Answer buy(const Attempt &attempt) {
    const auto give_up = std::chrono::steady_clock::now() + kWaitLimit;

    for (int retries = 0;; ++retries) {
        pqxx::work transaction{attempt.connection()};
        const auto row = one_row(exec_prepared(transaction, "read"));
        const int quantity = row["quantity"].as<int>();
        if (quantity == 0)
            return {.sold = false, .retries = retries};

        attempt.do_own_work();
        if (write(transaction, row["version"].as<std::int64_t>(), quantity - 1)) {
            attempt.insert_sale(transaction);
            transaction.commit();
            return {.sold = true, .retries = retries};
        }
        if (std::chrono::steady_clock::now() > give_up)
            throw std::runtime_error{"optimistic_update finds nothing but conflicts"};
    }
}

} // namespace

const Flow kOptimistic{.name = "optimistic_update",
                       .how = "write only if nobody wrote since the read, else start over",
                       .schema = "stock_optimistic",
                       .guard = guard,
                       .prepare = prepare,
                       .buy = buy};

} // namespace demo::stock
