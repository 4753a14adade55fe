// Signed requests and rate limits (docs/requests.md).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <idem/request.hpp>
#include <idem/target.hpp>

namespace idem {

enum class request_outcome {
    accepted, ///< valid, recent and new: do the work in this transaction
    replayed, ///< it was accepted before, and that has committed
    stale,    ///< correctly signed, but signed_at is outside the tolerance
    invalid   ///< not signed with a secret of its key id
};

/// As the SQL functions spell it: "accepted".
const char *name(request_outcome outcome) noexcept;

/// A request as received. Use only the verified values afterwards.
struct signed_request {
    std::string params;    ///< a JSON object
    std::string signature; ///< HMAC-SHA256 of request_message, hexadecimal
    std::string key_id;
    std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds> signed_at;
    std::string nonce; ///< the sender uses it once
};

/// Verifies a request and claims its nonce, which a rollback frees again. Waits for another transaction that is claiming the
/// same nonce. `tolerance`: how far signed_at may be from the database's clock. One round trip; on a client a lost reply throws
/// outcome_unknown. Throws bad_input when params is not a JSON object.
request_outcome verify_request(const target &at, const signed_request &request, duration tolerance = std::chrono::minutes(5));

/// The text that the signature covers; for senders. One round trip.
std::string request_message(const target &at, const signed_request &request);

struct rate_limit {
    double rate;  ///< units per second that the bucket regains
    int burst;    ///< units that the bucket holds
    int cost = 1; ///< units that this call takes
    std::string scope = "";
};

struct admission {
    bool allowed;
    int remaining;                                        ///< whole units left
    std::optional<std::chrono::milliseconds> retry_after; ///< if not allowed: until it would be
};

/// Takes `cost` units from the bucket of this name, or none. Call it on a client, before the work: in a transaction, other
/// calls for the same name wait for its end. One round trip; on a client a lost reply throws outcome_unknown. Throws bad_input
/// for invalid limits, such as a cost over the burst.
admission allow(const target &at, const std::string &name, const rate_limit &limit);

} // namespace idem
