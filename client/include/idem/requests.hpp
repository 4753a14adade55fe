// What guards a public endpoint: signed requests and rate limits (docs/requests.md).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <idem/request.hpp>
#include <idem/target.hpp>

namespace idem {

enum class request_outcome {
    accepted, ///< genuine, fresh and new: do the work in this transaction
    replayed, ///< it was accepted before, and that has committed
    stale,    ///< genuine, but signed too long ago, or too far ahead
    invalid   ///< no secret of its key id signed it
};

/// The word the SQL functions have for it: "accepted".
const char *name(request_outcome outcome) noexcept;

/// A request as it came in. What is verified is what must be used afterwards.
struct signed_request {
    std::string params;    ///< a JSON object
    std::string signature; ///< HMAC-SHA256 of request_message, hexadecimal
    std::string key_id;
    std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds> signed_at;
    std::string nonce; ///< what the sender uses once
};

/// Checks a request and uses up its nonce: in a transaction a rollback makes it new again. Waits for another transaction that
/// has the same nonce in hand. `tolerance`: how far signed_at may be from the database's clock. One round trip; on a client a
/// lost reply is outcome_unknown. Throws bad_input when params is no JSON object.
request_outcome verify_request(const target &at, const signed_request &request, duration tolerance = std::chrono::minutes(5));

/// What the signature covers; for those who send. One round trip.
std::string request_message(const target &at, const signed_request &request);

struct rate_limit {
    double rate;  ///< units a second that come back
    int burst;    ///< units that the bucket holds
    int cost = 1; ///< units that this call takes
    std::string scope = "";
};

struct admission {
    bool allowed;
    int remaining;                                        ///< whole units left
    std::optional<std::chrono::microseconds> retry_after; ///< not allowed: until there would be room
};

/// Takes units from the bucket of this name, or none. Ask on a client, before the work: in a transaction others who ask for the
/// same name wait for its end. One round trip; on a client a lost reply is outcome_unknown. Throws bad_input for limits that
/// cannot be, a cost over the burst among them.
admission allow(const target &at, const std::string &name, const rate_limit &limit);

} // namespace idem
