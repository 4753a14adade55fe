// Changes that a holder makes to its key, and what operators share with them.
#pragma once

#include "core/key_state.hpp"
#include "scopes/scope.hpp"
#include "server/pg.hpp"
#include "storage/key_store.hpp"

namespace idem {

struct Response {
    const Jsonb *body; // or nullptr
    const Jsonb *rest; // what to store of a body that is too large, or nullptr
    bool has_status_code;
    int32 status_code;
};

struct HolderCall {
    const char *function;
    KeySpace space;
    core::Change change;
    const text *scope;
    const text *key;
    ScopePolicy policy;
    bool has_fence;
    int64 fence;
    const text *recovery_point; // checkpoint
    core::Micros lease_until;   // renew
    core::Micros expires_at;    // renew: the end of the retention; 0: as it is
    Response response;          // complete
};

// Makes the change; false when the fence is stale. Waits for an uncommitted change of the key by another transaction.
bool try_change_as_holder(const HolderCall &call);

// The same, and raises ID001 when stale.
void change_as_holder(const HolderCall &call);

// The optional arguments `response` and `status_code`.
Response response_arguments(FunctionCallInfo fcinfo, int body_arg, int status_arg);

// Bytes of a response as counted against the limit: the jsonb value, not compressed.
int response_size(const Jsonb *body);

// Turns `row` into a completed one with this response; over the scope's limit the body is left out, with a warning.
void set_completed(KeyRow *row, const Response &response, const ScopePolicy &policy, core::Micros now);

// Turns `row` into a released one: free for the next attempt.
void set_released(KeyRow *row);

} // namespace idem
