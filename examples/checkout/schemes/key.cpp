// Idempotency-Key header: the page's script sends the order with fetch, and sends it again, with the same key, when no answer
// comes. Where there is no script, the form is sent with the key in a field.
#include <nlohmann/json.hpp>

#include "../api.hpp"
#include "../scheme.hpp"

namespace checkout {
namespace {

Fields fields(const Visit &) { return {{"key", random_hex()}}; }

// What makes it the same request, or another one under the same key.
std::string body_of(const Cart &cart) {
    return nlohmann::json{{"quantity", cart.quantity}, {"note", cart.note}, {"gateway", cart.gateway}}.dump();
}

Outcome outcome_of(const api::Reply &reply) {
    if (reply.status < 300)
        return reply.replayed ? Outcome::already : Outcome::ordered;
    const std::string code = nlohmann::json::parse(reply.body).value("code", "");
    if (code == "in_flight")
        return Outcome::in_flight;
    if (code == "mismatch")
        return Outcome::mismatch;
    return code == "sold_out" ? Outcome::sold_out : Outcome::invalid;
}

Answer submit(Shop &shop, const Submission &submission) {
    const api::Reply reply =
        api::create_order(shop, {"POST", "/key", submission.field("key"), body_of(submission.cart), submission.visitor},
                          [&] { return submission.cart; });
    Answer answer{outcome_of(reply)};
    if (reply.status < 300)
        answer.order = nlohmann::json::parse(reply.body).at("order").get<std::string>();
    return answer;
}

constexpr const char *kCode = R"(POST /api/orders
Idempotency-Key: "7f3a9c…"   // the same for each attempt

BEGIN;
SELECT action, status, headers, body
  FROM idem_http_begin(caller, 'POST', '/api/orders', key, body);
                        -- run | replay | reject (400, 409, 422)
INSERT INTO orders …;   -- only if run
SELECT idem_http_complete(caller, key, 201, headers, '{"order": …}');
COMMIT;

// the page's script
for (let attempt = 1; attempt <= 8; attempt++) {
    reply = await fetch("/api/orders", {
        method: "POST", body,
        headers: {"Idempotency-Key": key},
        signal: AbortSignal.timeout(3000)});
    …
})";

} // namespace

const Scheme kKey{"key", kCode, fields, submit};

} // namespace checkout
