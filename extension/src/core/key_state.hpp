// The state table of an idempotency key (contract, section 3) as two pure functions: what a claim is answered, and what a
// holder's change may do. Everything that touches storage asks here first, so that the table exists once.
#pragma once

#include <cstdint>

namespace idem::core {

// Microseconds of database time, and the value that stands for "never" (PostgreSQL's timestamptz 'infinity').
using Micros = std::int64_t;
inline constexpr Micros kForever = INT64_MAX;

// As stored in idem_keys.state.
enum class State : char { in_progress = 'p', completed = 'c', released = 'r', in_doubt = 'd' };

enum class Outcome : int { acquired, taken_over, in_flight, completed, mismatch, in_doubt };
inline constexpr int kOutcomes = 6;

// What a stored, conclusively visible version of the row says, as far as the table needs it.
struct KeyFacts {
    State state;
    bool own_transaction; // written by the transaction that asks
    bool has_fence;       // false: claimed in transactional mode
    Micros expires_at;
    Micros lease_until;       // meaningful in state in_progress
    bool fingerprints_differ; // both are given, are comparable, and differ
    bool same_owner;          // both owners are given and equal
    bool manual_policy;       // the scope says: on lease expiry, ask an operator
};

struct ClaimRequest {
    Micros now;
    bool leased;
};

// What has to be written for a claim's outcome.
enum class ClaimWrite {
    none,
    restart,      // the row is void: start over, attempt 1
    next_attempt, // a new attempt at the same work, with the recovery point of the last one
    renew,        // the same holder again: only the lease moves
    mark_in_doubt
};

struct ClaimDecision {
    Outcome outcome;
    ClaimWrite write;
};

// Retention is over, nobody's lease is live, and no operator's word is awaited.
bool is_expired(const KeyFacts &key, Micros now);

ClaimDecision decide_claim(const KeyFacts &key, const ClaimRequest &request);

// The fenced changes a holder makes. The fence alone is the arbiter: a lease or a retention that ran out takes nothing from a
// holder whom nobody replaced. For `complete`, `same_response` tells whether what is stored equals what is given.
enum class Change { renew, checkpoint, complete, release };

struct HolderFacts {
    State state;
    bool own_transaction;
    bool has_fence; // the row carries a fence
    bool fence_given;
    bool fence_matches; // both there and equal
    bool same_response;
};

enum class ChangeDecision { apply, attach, no_op, stale };

ChangeDecision decide_change(const HolderFacts &key, Change change);

} // namespace idem::core
