// The state table of an idempotency key (contract, section 3) as two pure functions: the outcome of a claim, and the effect of
// a holder's change. All code that changes a stored key asks here first, so the table exists only once.
#pragma once

#include <cstdint>

namespace idem::core {

// Microseconds of database time. kForever means "never" (PostgreSQL's timestamptz 'infinity').
using Micros = std::int64_t;
inline constexpr Micros kForever = INT64_MAX;
inline constexpr Micros kMicrosPerDay = 86'400'000'000;

// As stored in idem_keys.state.
enum class State : char { in_progress = 'p', completed = 'c', released = 'r', in_doubt = 'd' };

enum class Outcome : int { acquired, taken_over, in_flight, completed, mismatch, in_doubt };
inline constexpr int kOutcomes = 6;

// The facts of a stored row version whose visibility is settled, as far as the table needs them.
struct KeyFacts {
    State state;
    bool own_transaction; // written by the calling transaction
    bool has_fence;       // false: claimed in transactional mode
    Micros expires_at;
    Micros lease_until;       // meaningful in state in_progress
    bool fingerprints_differ; // both are given, are comparable, and differ
    bool same_owner;          // both owners are given and equal
    bool manual_policy;       // the scope leaves an expired lease to an operator
};

struct ClaimRequest {
    Micros now;
    bool leased;
};

// The write that a claim's outcome requires.
enum class ClaimWrite {
    none,
    restart,      // the row no longer counts: start over with attempt 1
    next_attempt, // a new attempt at the same work, with the steps so far
    renew,        // the same holder again: its lease restarts
    mark_in_doubt
};

struct ClaimDecision {
    Outcome outcome;
    ClaimWrite write;
};

// True when the retention is over, no lease is live, and the key does not wait for an operator's decision.
bool is_expired(const KeyFacts &key, Micros now);

// Whether a completed key's response is older than `response_ttl`. `completed_at` is when the work was completed.
bool is_response_expired(const KeyFacts &key, Micros completed_at, Micros response_ttl, Micros now);

ClaimDecision decide_claim(const KeyFacts &key, const ClaimRequest &request);

// The fenced changes of a holder. Only the fence decides: after the lease or the retention has ended, a holder keeps the key
// until another claim replaces it. `same_response`: for `complete`, the stored response equals the given one.
enum class Change { renew, step, complete, release };

struct HolderFacts {
    State state;
    bool own_transaction;
    bool has_fence;         // the row carries a fence
    bool completed_by_call; // and not only by the commit of a claim
    bool fence_given;
    bool fence_matches; // both are present and equal
    bool same_response;
};

enum class ChangeDecision { apply, attach, no_op, stale };

ChangeDecision decide_change(const HolderFacts &key, Change change);

// What a key's row says of one step of the work.
enum class StepState { absent, intended, done };

struct StepFacts {
    StepState state;
    bool output_given; // the step is reported as done, not as intended
    bool same_output;  // the stored output equals the given one
};

enum class StepDecision { write, keep, conflict };

// REQUIRES: decide_change returned apply. `conflict`: the step is done with another output.
StepDecision decide_step(const StepFacts &step);

} // namespace idem::core
