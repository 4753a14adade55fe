// Plain: what one writes when nobody clicks twice. Look at the stock, make the order, write the stock back, ask the gateway,
// ask again when it does not answer, and believe every callback.
#include <thread>

#include "../cashier.hpp"
#include "../libpqxx.hpp"
#include "../scheme.hpp"

namespace checkout {
namespace {

constexpr auto kWork = 250ms; // prices, taxes, the customer's address
constexpr int kTries = 3;

Fields fields(const Visit &) { return {}; }

void charge(Shop &shop, const std::string &id, const Submission &submission, int amount) {
    const Gateway gateway{shop.settings.gateway};
    for (int tried = 1;; ++tried) {
        try {
            gateway.charge(charge_request(shop, id, submission.scheme, amount, submission.cart.gateway, nullptr));
            shop.diary.note(submission.scheme, "gateway", "charge accepted", id);
            return;
        } catch (const GatewaySilent &) {
            shop.diary.note(submission.scheme, "gateway", "no reply, asking again", id);
            if (tried == kTries)
                return;
        }
    }
}

Answer submit(Shop &shop, const Submission &submission) {
    std::string id;
    int amount = 0;
    idem::transact(shop.db, [&](idem::transaction &tx) {
        const auto stock = one_row(exec_with(tx, "SELECT quantity FROM checkout.stock WHERE scheme = $1", {submission.scheme}));
        const int left = stock[0].as<int>() - submission.cart.quantity;
        if (left < 0)
            throw SoldOut{};
        std::this_thread::sleep_for(kWork);
        id = insert_order(tx, submission, "");
        amount = one_row(exec_with(tx, "UPDATE checkout.orders SET asked = true, settled = true WHERE id = $1 RETURNING amount",
                                   {id}))[0]
                     .as<int>();
        exec_with(tx, "UPDATE checkout.stock SET quantity = $2 WHERE scheme = $1", {submission.scheme, std::to_string(left)});
    });
    charge(shop, id, submission, amount);
    return {Outcome::ordered, id, "nothing", "no guard"};
}

constexpr const char *kCode = R"(SELECT quantity FROM stock;        -- 20
-- a quarter of a second of work
INSERT INTO orders …;
UPDATE stock SET quantity = 19;    -- whatever it is by now
COMMIT;

POST /charges                      -- without a key
POST /charges                      -- no answer? once more

-- each callback
INSERT INTO bookings …;)";

} // namespace

const Scheme kPlain{"plain", kCode, fields, submit};

} // namespace checkout
