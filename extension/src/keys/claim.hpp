// Claiming a key: the loop around the state table that idem_claim, idem_try_claim, idem_claim_many, idem_begin and
// idem_execute share.
#pragma once

#include "core/key_state.hpp"
#include "scopes/scope.hpp"
#include "server/pg.hpp"
#include "storage/key_store.hpp"

namespace idem {

// What is asked for. Spans in microseconds.
struct ClaimRequest {
    const char *function; // for messages: "idem_claim()"
    KeySpace space;
    const text *scope;
    const text *key;
    const bytea *fingerprint; // or nullptr
    const text *owner;        // or nullptr
    core::Micros ttl;         // core::kForever: keep for ever
    core::Micros lease;       // 0: transactional mode
    bool manual_policy;
    bool records_doubt;      // false: the caller raises instead, which would undo the record
    bool is_queued;          // the caller is at the head of the queue for the key (wake_up.hpp)
    bool waits_for_commit;   // wait without bound for an uncommitted holder
    core::Micros wait_until; // else: wait until then for whoever holds the key; 0: never wait
};

struct Claimed {
    core::Outcome outcome;
    bool has_row;
    KeyRow row;              // has_row: the row that the outcome rests on, as it is after the call
    ItemPointerData version; // has_row: where it is
    core::Micros at;         // when the outcome was decided
};

// Claims within an open table, or in one that is opened for it. Counted is the outcome of the latter, which answers a call by
// itself; who makes an answer of the former counts it.
Claimed claim_key(const KeyTable &table, const ClaimRequest &request);
Claimed claim_key(const ClaimRequest &request);

// For idem_stats.
void count_outcome(const ClaimRequest &request, core::Outcome outcome);

// Whether the outcome makes the caller the one who does the work.
inline bool is_granted(core::Outcome outcome) {
    return outcome == core::Outcome::acquired || outcome == core::Outcome::taken_over;
}

// ID005 for a caller whose answer has no room for "in flight" or "in doubt".
void raise_if_held(const Claimed &claimed, const text *key);

// The retention that applies: keep_forever, else the explicit ttl, else the scope's.
core::Micros retention(const ScopePolicy &policy, const Interval *explicit_ttl);

// Fills in what the scope's policy and the call's ttl decide.
void apply_policy(ClaimRequest *request, const ScopePolicy &policy, const Interval *explicit_ttl);

// The row of a key that is claimed for the first time, or anew; then `fence_floor` is the last fence it had.
KeyRow new_key_row(const ClaimRequest &request, core::Micros now, int64 fence_floor = 0);

} // namespace idem
