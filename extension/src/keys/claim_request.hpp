// The parameters of a claim.
#pragma once

#include "core/key_state.hpp"
#include "scopes/scope.hpp"
#include "server/pg.hpp"
#include "storage/key_space.hpp"

namespace idem {

// Spans are in microseconds.
struct ClaimRequest {
    const char *function; // for messages: "idem_claim()"
    KeySpace space;
    const text *scope;
    const text *key;
    const bytea *fingerprint; // or nullptr
    const text *owner;        // or nullptr
    core::Micros ttl;         // core::kForever: never expires
    bool ttl_is_given;        // by the call, not by the scope
    core::Micros least_ttl;   // a shorter retention would be wrong; 0: any will do
    core::Micros lease;       // 0: transactional mode
    bool manual_policy;
    bool wants_row;                    // the caller reads the row of a key that is done
    bool records_doubt;                // false: the caller raises instead, which would undo the record
    bool is_queued;                    // the caller is at the head of the queue for the key (wake_up.hpp)
    bool renewal_extends_ttl;          // a renewal also restarts the ttl
    bool takeover_waits_for_asserters; // a takeover waits for transactions that lock the row FOR KEY SHARE
    bool waits_for_commit;             // wait without bound for an uncommitted holder
    core::Micros wait_until;           // otherwise: the end of the wait for any holder; 0: no wait
};

// The retention that applies: keep_forever, else the explicit ttl, else the scope's.
core::Micros retention(const ScopePolicy &policy, const Interval *explicit_ttl);

// Sets the fields that the scope's policy and the call's ttl decide.
void apply_policy(ClaimRequest *request, const ScopePolicy &policy, const Interval *explicit_ttl);

} // namespace idem
