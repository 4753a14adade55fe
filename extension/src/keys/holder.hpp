// The changes that a holder makes to its key. Functions for operators share parts of them.
#pragma once

#include "core/key_state.hpp"
#include "keys/claim.hpp"
#include "keys/key_row.hpp"
#include "keys/step.hpp"
#include "scopes/scope.hpp"
#include "server/pg.hpp"

namespace idem {

struct HolderCall {
    const char *function;
    KeySpace space;
    core::Change change;
    const text *scope;
    const text *key;
    ScopePolicy policy;
    bool has_fence;
    int64 fence;
    Step step;                        // step
    core::Micros lease;               // renew: its length
    core::Micros retention;           // renew: its length; 0: unchanged
    Response response;                // complete
    bool release_waits_for_asserters; // a release waits for transactions that lock the row FOR KEY SHARE
};

// Makes the change, and returns what was decided. Raises ID001 for a step that is done with another output. Waits for an
// uncommitted change of the key by another transaction. `lease_until`, or nullptr: the end of a renewed lease.
core::ChangeDecision try_change_as_holder(const HolderCall &call, core::Micros *lease_until = nullptr);

// Makes the change. Returns false when there was nothing to change. Raises ID001 when the fence is stale, and as
// try_change_as_holder.
bool change_as_holder(const HolderCall &call, core::Micros *lease_until = nullptr);

// Stores the response of a transactional claim that this transaction has just been granted.
void complete_claim(const KeyTable &table, const ClaimRequest &request, const ScopePolicy &policy, const Claimed &claimed,
                    const Jsonb *response);

// The arguments that such a function has in addition to the change itself: the key comes first. Raises 22004 for a fence that
// is null, unless the change is `complete` or `release`.
HolderCall holder_call(FunctionCallInfo fcinfo, const char *function, core::Change change, int fence_arg, int scope_arg);

// The optional arguments `response` and `status_code`.
Response response_arguments(FunctionCallInfo fcinfo, int body_arg, int status_arg);

} // namespace idem
