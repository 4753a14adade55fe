// The usual way: look at the status, check that the move is allowed, do the work, write the status. The check is right and
// comes too early: between the look and the write, the other worker does the same, or cancels the order.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "half.hpp"

namespace demo::orders {
namespace {

struct Move {
    std::string_view from;
    std::string_view to;
};

constexpr std::array<Move, 5> kMoves{
    {{"created", "paid"}, {"created", "cancelled"}, {"paid", "shipped"}, {"paid", "cancelled"}, {"shipped", "delivered"}}};

bool is_allowed(std::string_view from, std::string_view to) {
    return std::ranges::any_of(kMoves, [=](const Move &move) { return move.from == from && move.to == to; });
}

void prepare(pqxx::connection &connection) {
    connection.prepare("read", "SELECT status FROM orders WHERE id = $1");
    connection.prepare("write", "UPDATE orders SET status = $2 WHERE id = $1");
}

Answer handle(const Job &job) {
    pqxx::work transaction{job.connection()};
    const auto status = one_row(exec_prepared(transaction, "read", job.event().order))[0].as<std::string>();
    if (status == job.event().to)
        return "already";
    if (!is_allowed(status, job.event().to))
        return "not_allowed";

    job.do_work(transaction);
    exec_prepared(transaction, "write", job.event().order, job.event().to);
    transaction.commit();
    return "moved";
}

} // namespace

const Half kNaive{
    .name = "SELECT, then UPDATE", .schema = "orders_naive", .guard = nullptr, .prepare = prepare, .handle = handle};

} // namespace demo::orders
