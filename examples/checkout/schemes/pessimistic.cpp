// Pessimistic stock: lock the row first, then look, then write. Everybody else who wants it queues up, so that "look whether
// this cart was ordered, insert if not" is right, which it never is without the lock.
#include <nlohmann/json.hpp>

#include "../libpqxx.hpp"
#include "../scheme.hpp"

namespace checkout {
namespace {

Fields fields(const Visit &visit) { return {{"cart", idem::uuid_v7(visit.shop.db)}}; }

Answer submit(Shop &shop, const Submission &submission) {
    const std::string &ref = submission.field("cart");
    if (ref.size() != 36)
        return {Outcome::invalid};

    const int quantity = submission.cart.quantity;
    const auto work = [&](idem::transaction &tx, const std::string &row) -> Answer {
        if (const std::string own = order_of(tx, submission, ref); !own.empty())
            return {Outcome::already, own, "pessimistic_lock", "locked"};
        if (nlohmann::json::parse(row).at("quantity").get<int>() < quantity)
            throw SoldOut{};
        exec_with(tx, "UPDATE checkout.stock SET quantity = quantity - $2::int WHERE scheme = $1",
                  {submission.scheme, std::to_string(quantity)});
        return {Outcome::ordered, insert_order(tx, submission, ref), "pessimistic_lock", "locked"};
    };
    try {
        return idem::pessimistic(shop.db, kStock, stock_key(submission.scheme), 5s, work);
    } catch (const idem::busy &) {
        return {Outcome::busy, "", "pessimistic_lock", "busy"};
    }
}

constexpr const char *kCode = R"(BEGIN;
SELECT * FROM pessimistic_lock('stock', '{"sku": "lamp"}',
                               wait => '5 s');
                                -- locked | busy | not_found
SELECT id FROM orders           -- nobody slips in between
 WHERE cart = …;
UPDATE stock SET quantity = quantity - 1;
INSERT INTO orders …;
COMMIT;                         -- the next in the queue

// C++
idem::pessimistic(db, "stock", key, 5s, [&](auto &tx, auto &row) {
    if (!is_ordered(tx, cart))
        place_order(tx, cart);
});)";

} // namespace

const Scheme kPessimistic{"pessimistic", kCode, fields, submit};

} // namespace checkout
