// Pre-generated order number: the page carries the number that the order will have, and the primary key does the rest.
#include <nlohmann/json.hpp>

#include "../scheme.hpp"

namespace checkout {
namespace {

Fields fields(const Visit &visit) { return {{"number", std::to_string(idem::next_id(visit.shop.db))}}; }

Answer submit(Shop &shop, const Submission &submission) {
    const std::string &number = submission.field("number");
    if (!is_number(number))
        return {Outcome::invalid};

    const Cart &cart = submission.cart;
    const idem::row order{{"id", std::stoll(number)},      {"scheme", submission.scheme},
                          {"visitor", submission.visitor}, {"ref", number},
                          {"quantity", cart.quantity},     {"note", cart.note},
                          {"status", "reserved"},          {"gateway", idem::json_text(cart.gateway.dump())},
                          {"hold_ms", cart.hold.count()}};
    const idem::row_result result = idem::unique(shop.db, kOrders, order, [&](idem::transaction &tx, const std::string &) {
        take_stock(tx, submission.scheme, cart.quantity);
    });

    Answer answer{Outcome::ordered, number, "unique_insert", idem::name(result.outcome)};
    if (!result) {
        const auto there = nlohmann::json::parse(result.row.value_or("{}"));
        const bool own = there.value("visitor", "") == submission.visitor && there.value("scheme", "") == submission.scheme;
        answer.outcome = own ? Outcome::already : Outcome::invalid;
        if (!own)
            answer.order.clear();
    }
    return answer;
}

constexpr const char *kCode = R"(-- with the page
SELECT idem_next_id();   -- 38146…: never given out twice

-- with the order
BEGIN;
SELECT * FROM unique_insert('orders', '{"id": 38146…, …}');
                         -- inserted | duplicate, and the row
UPDATE stock …;          -- only if inserted
COMMIT;

// C++
idem::unique(db, "orders", {{"id", 38146…}, …}, [&](idem::transaction &tx, auto &) {
    take_stock(tx, cart);
});)";

} // namespace

const Scheme kNumber{"number", kCode, fields, submit};

} // namespace checkout
