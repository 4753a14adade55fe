// Post-redirect-get: the POST answers with a redirect, so that reload and "back" repeat a harmless GET. That alone does not
// stop a second click: the POST itself runs under the form's key, and every duplicate is redirected to the same order.
#include <nlohmann/json.hpp>

#include "../scheme.hpp"

namespace checkout {
namespace {

Fields fields(const Visit &) { return {{"key", random_hex()}}; }

Answer submit(Shop &shop, const Submission &submission) {
    const std::string &ref = submission.field("key");
    if (ref.size() != 32)
        return {Outcome::invalid};

    const Cart &cart = submission.cart;
    const nlohmann::json asked{{"quantity", cart.quantity}, {"note", cart.note}};
    const auto about = idem::request{submission.visitor + "#" + ref}.in("checkout prg").of_json(asked.dump()).wait(5s);
    try {
        const idem::answer answer = idem::once(shop.db, about, [&](idem::transaction &tx) {
            const nlohmann::json body{{"order", place_order(tx, submission, ref)}};
            return idem::response{303, body.dump()};
        });
        return {answer.replayed ? Outcome::already : Outcome::ordered,
                nlohmann::json::parse(answer.response.value()).at("order").get<std::string>(), "idem_begin",
                answer.replayed ? "completed" : "acquired"};
    } catch (const idem::mismatch &) {
        return {Outcome::mismatch, order_of(shop, submission, ref), "idem_begin", "mismatch"};
    } catch (const idem::in_flight &) {
        return {Outcome::in_flight, "", "idem_begin", "in_flight"};
    }
}

constexpr const char *kCode = R"(BEGIN;
SELECT * FROM idem_begin(key, idem_fingerprint(form));
                        -- acquired | completed | mismatch
INSERT INTO orders …;   -- only if acquired
SELECT idem_complete(key, '{"order": 38146…}', 303);
COMMIT;

HTTP/1.1 303 See Other
Location: /prg/order/38146…     (the same for every duplicate)

// C++
idem::once(db, about, [&](idem::transaction &tx) {
    return idem::response{303, place_order(tx, cart)};
});)";

} // namespace

const Scheme kPrg{"prg", kCode, fields, submit};

} // namespace checkout
