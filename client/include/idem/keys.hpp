// Single calls on keys, for callers that own the transaction (docs/keys.md). `once` is the complete flow.
//
// One round trip each. In a transaction they commit and roll back with it. On a client each is a transaction of its own,
// retried after 40001 and 40P01; a lost reply throws outcome_unknown, except for lookup and hits, which are retried.
//
// Errors: bad_input (key empty or over 1024 bytes, scope over 255 bytes or not registered …), denied, read_only; in_flight
// (ID005) for keys that are in flight or in doubt, where the function cannot return an outcome.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <idem/request.hpp>
#include <idem/target.hpp>

namespace idem {

enum class key_outcome {
    acquired,   ///< the caller is to do the work
    taken_over, ///< the same, after a holder whose lease ran out
    in_flight,  ///< another holder is not done
    completed,  ///< its work has committed
    mismatch,   ///< the key was used before with another request
    in_doubt    ///< a holder vanished, and an operator decides
};
const char *name(key_outcome outcome) noexcept;

enum class key_state { in_progress, completed, released, in_doubt };
const char *name(key_state state) noexcept;

/// A live committed key. Times are of the server's clock.
struct key_info {
    using time = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

    key_state state;
    std::optional<std::string> response; ///< JSON text
    std::optional<int> status_code;
    bool response_omitted; ///< the response is not stored: it was too large, or removed (idem_redact, response_ttl)
    int attempt;
    std::optional<std::string> steps; ///< JSON: {"step": its output, or null for one that was intended}
    time created_at;                  ///< of this attempt
    std::optional<time> expires_at;   ///< nothing: never
    std::optional<time> lease_until;  ///< leased mode only
};

/// What `hit` has counted. Times are of the server's clock.
struct hit_count {
    std::int64_t hits;
    std::optional<key_info::time> expires_at; ///< when the counter starts again; nothing: never
};

/// True: the key is new, and its work is to be done in this transaction. False: that work has committed. Waits for a holder
/// that has not committed. On a client the key is completed when the call returns (at most once). `ttl`: nothing for the
/// scope's.
bool claim(const target &at, const std::string &key, const std::optional<duration> &ttl = std::nullopt,
           const std::string &scope = "");
/// The same, but a duplicate throws done_before (ID006).
void must_claim(const target &at, const std::string &key, const std::optional<duration> &ttl = std::nullopt,
                const std::string &scope = "");
/// The same without waiting: in_flight instead. A holder that has not committed cannot be looked up yet:
/// call again, or use claim, which waits.
key_outcome try_claim(const target &at, const std::string &key, const std::optional<duration> &ttl = std::nullopt,
                      const std::string &scope = "");
/// Claims many keys. Returns the new ones, each once, in the order of `keys`. Two calls cannot deadlock on each other.
std::vector<std::string> claim_many(const target &at, const std::vector<std::string> &keys,
                                    const std::optional<duration> &ttl = std::nullopt, const std::string &scope = "");
/// Gives a claim of this transaction back, such as that of an item of a batch whose work has failed: the key is as before it,
/// and another claim acquires it. REQUIRES: a transaction as the target, which claimed the key without a lease. Throws
/// stale_fence for any other key.
void release(const target &at, const std::string &key, const std::string &scope = "");
/// Until this transaction ends, other calls of serialize for the same key wait. REQUIRES: a transaction as the target.
void serialize(const target &at, const std::string &key, const std::string &scope = "");
/// Counts a use of the key. Returns how often it was used within its ttl, this time included.
std::int64_t hit(const target &at, const std::string &key, const std::optional<duration> &ttl = std::nullopt,
                 const std::string &scope = "");
/// Reads that number without counting. Returns nothing if the key was never used, or its ttl is over.
std::optional<hit_count> hits(const target &at, const std::string &key, const std::string &scope = "");
/// Returns nothing if there is no live committed key. A holder that has not committed is not visible: the key may not be free.
std::optional<key_info> lookup(const target &at, const std::string &key, const std::string &scope = "");
/// Whether the live committed key was claimed with this owner: the answer after a COMMIT whose reply was lost.
bool is_owner(const target &at, const std::string &key, const std::string &owner, const std::string &scope = "");
/// Deletes a key, so that its work can be done again. True: there was a live key. For operators.
bool forget(const target &at, const std::string &key, const std::string &scope = "");

} // namespace idem
