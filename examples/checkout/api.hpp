// The shop's API: POST /api/orders with an Idempotency-Key, as draft-ietf-httpapi-idempotency-key-header has it, and the same
// signed, for partners. All of HTTP's rules are idem's: what is in here calls idem_http_begin and idem_http_complete.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "shop.hpp"

namespace checkout::api {

struct Request {
    std::string method;
    std::string route;
    std::optional<std::string> key; // the header as it came
    std::string body;               // JSON: quantity, note, gateway
    std::string caller;             // whose keys these are
};

struct Reply {
    int status = 500;
    std::map<std::string, std::string> headers{};
    std::string body{};
    bool replayed = false;
};

// One order per key. `cart` throws std::invalid_argument when there is no good one in the body; it is called for a new key
// only.
Reply create_order(Shop &shop, const Request &request, const std::function<Cart()> &cart);

// Of a partner, who has no cookie but a secret.
struct Signed {
    std::string key_id, signature, nonce;
    std::string signed_at; // microseconds since 1970
    std::string body;
};

// One order per nonce; whoever altered, replays or guesses gets none.
Reply create_signed_order(Shop &shop, const Signed &request, const std::function<Cart()> &cart);

// Whether the caller may ask now; if not, the reply that says so (429).
std::optional<Reply> refuse_too_many(Shop &shop, const std::string &caller);

// {"type", "title", "status", "code"} (RFC 9457).
Reply problem(int status, const char *title, const char *code);

} // namespace checkout::api
