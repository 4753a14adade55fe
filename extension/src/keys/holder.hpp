// The changes that a holder makes to its key. Functions for operators share parts of them.
#pragma once

#include "core/key_state.hpp"
#include "keys/key_row.hpp"
#include "scopes/scope.hpp"
#include "server/pg.hpp"
#include "storage/key_store.hpp"

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
    const text *recovery_point;       // checkpoint
    core::Micros lease_until;         // renew
    core::Micros expires_at;          // renew: the end of the retention; 0: unchanged
    Response response;                // complete
    bool release_waits_for_asserters; // a release waits for transactions that lock the row FOR KEY SHARE
};

// Makes the change. Returns false when the fence is stale. Waits for an uncommitted change of the key by another transaction.
bool try_change_as_holder(const HolderCall &call);

// As try_change_as_holder, but raises ID001 when the fence is stale.
void change_as_holder(const HolderCall &call);

// The optional arguments `response` and `status_code`.
Response response_arguments(FunctionCallInfo fcinfo, int body_arg, int status_arg);

} // namespace idem
