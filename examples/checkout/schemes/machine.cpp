// Status machine of the order: the cart is an order already, and to pay is to move it from "cart" to "reserved". A second
// click finds that it has moved.
#include "../libpqxx.hpp"
#include "../scheme.hpp"

namespace checkout {
namespace {

// A visitor has one open cart, however many tabs show it.
Fields fields(const Visit &visit) {
    return idem::transact(visit.shop.db, [&](idem::transaction &tx) -> Fields {
        constexpr const char *find = "SELECT id FROM checkout.orders WHERE visitor = $1 AND status = 'cart'";
        auto cart = exec_with(tx, find, {visit.visitor});
        if (cart.empty()) {
            exec_with(tx,
                      "INSERT INTO checkout.orders (id, scheme, visitor, status) VALUES ($1, $2, $3, 'cart')"
                      " ON CONFLICT (visitor) WHERE status = 'cart' DO NOTHING",
                      {std::to_string(idem::next_id(tx)), kMachine.name, visit.visitor});
            cart = exec_with(tx, find, {visit.visitor});
        }
        return {{"order", cart.empty() ? "" : cart[0][0].c_str()}};
    });
}

void fill(idem::transaction &tx, const Submission &submission, const std::string &id) {
    const Cart &cart = submission.cart;
    take_stock(tx, submission.scheme, cart.quantity);
    exec_with(tx,
              "UPDATE checkout.orders SET quantity = $2, note = $3, gateway = $4, hold_ms = $5,"
              " reserved_at = clock_timestamp(), next_try_at = clock_timestamp() WHERE id = $1",
              {id, std::to_string(cart.quantity), cart.note, cart.gateway.dump(), std::to_string(cart.hold.count())});
}

Answer submit(Shop &shop, const Submission &submission) {
    const std::string &id = submission.field("order");
    if (!find_order(shop, submission.scheme, submission.visitor, id))
        return {Outcome::invalid};

    const idem::transition_result result = idem::transition(shop.db, kOrders, order_key(id), "cart", "reserved",
                                                            [&](idem::transaction &tx) { fill(tx, submission, id); });

    Answer answer{Outcome::already, id, "idem_transition", idem::name(result.outcome)};
    if (result)
        answer.outcome = Outcome::ordered;
    else if (result.outcome == idem::transition_outcome::not_found)
        answer.outcome = Outcome::invalid;
    return answer;
}

constexpr const char *kCode = R"(SELECT idem_machine_define('checkout_order', '{
  "initial": ["cart", "reserved"],
  "transitions": {"cart":     ["reserved"],
                  "reserved": ["paid", "declined", "released"],
                  "released": ["refunded"]}}');
SELECT idem_machine_attach('orders', 'status',
                           'checkout_order');

BEGIN;
SELECT * FROM idem_transition('orders', '{"id": 38146…}',
                              'cart', 'reserved');
                  -- moved | already | conflict
UPDATE stock …;   -- only if moved
COMMIT;

// C++
idem::transition(db, "orders", key, "cart", "reserved",
                 [&](idem::transaction &tx) { take_stock(tx, cart); });)";

} // namespace

const Scheme kMachine{"machine", kCode, fields, submit};

} // namespace checkout
