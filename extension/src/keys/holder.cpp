// The changes that the holder of a key makes: step, renew, complete, release. The fence decides (core/key_state.hpp). A
// change that it does not allow raises ID001, so that the transaction's other writes are undone as well.
#include "keys/holder.hpp"

#include "keys/wake_up.hpp"
#include "keys/withdrawal.hpp"
#include "server/arguments.hpp"
#include "server/errors.hpp"
#include "server/writable.hpp"
#include "statistics/stats.hpp"
#include "storage/key_wait.hpp"
#include "storage/key_write_in_time.hpp"

namespace idem {

namespace {

using core::Change;
using core::ChangeDecision;

// A release of this transaction's own claim.
bool is_withdrawal(const HolderCall &call) { return call.change == Change::release && !call.has_fence; }

[[noreturn]] void raise_stale(const HolderCall &call) {
    const text *key = call.key;
    if (is_withdrawal(call))
        ereport(ERROR, (errcode(ERRCODE_IDEM_STALE_FENCE),
                        errmsg("key \"%s\" is no open claim of this transaction", text_to_cstring(key)),
                        errdetail("Without a fence, a claim without a lease is given back, by the transaction that made it and "
                                  "before a call completes it."),
                        errhint("A leased key needs its fence. Is autocommit on?")));
    if (!call.has_fence)
        ereport(
            ERROR,
            (errcode(ERRCODE_IDEM_STALE_FENCE), errmsg("key \"%s\" was not claimed by this transaction", text_to_cstring(key)),
             errdetail("Without a fence, a response is attached to a claim of the same transaction."),
             errhint("Claim and complete in one transaction, on one connection; a leased key needs its fence. Is autocommit "
                     "on?")));
    ereport(ERROR, (errcode(ERRCODE_IDEM_STALE_FENCE), errmsg("key \"%s\" is not held with this fence", text_to_cstring(key)),
                    errdetail("It was taken over, settled, released, removed or found in doubt meanwhile, or never claimed."),
                    errhint("Roll back; begin the key again to learn what became of it.")));
    pg_unreachable();
}

bool equal_response(const KeyRow &row, const Response &response, const ScopePolicy &policy) {
    const bool same_code = response.has_status_code ? !row.is_null(KeyColumn::status_code) &&
                                                          DatumGetInt32(row.get(KeyColumn::status_code)) == response.status_code
                                                    : row.is_null(KeyColumn::status_code);
    if (!same_code)
        return false;
    if (!row.is_null(KeyColumn::response_omitted)) // an omitted response cannot be compared
        return !is_stored(response, policy);
    if (response.body == nullptr || row.is_null(KeyColumn::response))
        return response.body == nullptr && response.fallback == nullptr && row.is_null(KeyColumn::response);
    Jsonb *stored = DatumGetJsonbP(row.get(KeyColumn::response));
    return compareJsonbContainers(&stored->root, const_cast<JsonbContainer *>(&response.body->root)) == 0;
}

core::HolderFacts facts_of(const FoundRow &found, const KeyRow &row, const HolderCall &call) {
    core::HolderFacts facts{};
    facts.state = state_of(row);
    facts.own_transaction = found.own_transaction;
    facts.has_fence = !row.is_null(KeyColumn::fence);
    facts.completed_by_call = !row.is_null(KeyColumn::completed_at);
    facts.fence_given = call.has_fence;
    facts.fence_matches = facts.has_fence && call.has_fence && DatumGetInt64(row.get(KeyColumn::fence)) == call.fence;
    facts.same_response = call.change == Change::complete && equal_response(row, call.response, call.policy);
    return facts;
}

// Returns false when the row says so already. Raises ID001 when the step is done with another output.
bool is_new_step(const KeyRow &row, const HolderCall &call) {
    const core::StepDecision decision = core::decide_step(step_facts(row, call.step));
    if (decision == core::StepDecision::conflict)
        ereport(ERROR, (errcode(ERRCODE_IDEM_STALE_FENCE),
                        errmsg("step \"%s\" of key \"%s\" is done with another output", text_to_cstring(call.step.name),
                               text_to_cstring(call.key)),
                        errhint("Use the stored output, which the ticket and idem_lookup have in their steps.")));
    return decision == core::StepDecision::write;
}

// The row after the change.
KeyRow changed_row(const KeyRow &stored, const KeyVersion &version, const HolderCall &call, core::Micros now) {
    KeyRow row = stored;
    switch (call.change) {
    case Change::renew:
        row.set(KeyColumn::lease_until, TimestampTzGetDatum(deadline_after(now, call.lease, "lease")));
        if (call.retention != 0)
            row.set(KeyColumn::expires_at, TimestampTzGetDatum(deadline_after(now, call.retention, "ttl")));
        break;
    case Change::step:
        set_step(&row, call.step, call.policy);
        break;
    case Change::complete:
        return completed_row(stored, call.response, call.policy, now, is_in_ring(version));
    case Change::release:
        set_released(&row);
        break;
    }
    return row;
}

// Whether the row is locked before the change. A lock is not released while other transactions assert its fence. The storage of
// a large response takes so long that nobody could tell whether it has waited for the row.
bool is_locked_first(const HolderCall &call) {
    if (call.change == Change::release)
        return call.release_waits_for_asserters;
    return call.change == Change::complete && call.response.body != nullptr &&
           response_size(call.response.body) > static_cast<int>(MaxHeapTupleSize);
}

Write lock_first(const KeyTable &table, const HolderCall &call, KeyVersion *version) {
    return lock_key(table, version, call.change == Change::release ? LockTupleExclusive : LockTupleNoKeyExclusive,
                    LockWaitBlock);
}

// No caller waits for a step, or for a response to the calling transaction's own work, which has no fence.
bool is_waited_for(const HolderCall &call) { return call.has_fence && call.change != Change::step; }

} // namespace

ChangeDecision try_change_as_holder(const HolderCall &call, core::Micros *lease_until) {
    const KeyTable table = open_keys(Access::write, call.space, call.scope);
    ChangeDecision decision;
    for (;; check_for_interrupts()) {
        // No other transaction's row is waited for where only an own claim will do.
        FoundRow found = is_withdrawal(call) ? find_row(table, call.scope, call.key)
                                             : find_row_waiting(table, call.scope, call.key, call.function);
        if (found.presence != Presence::found) {
            decision = ChangeDecision::stale;
            break;
        }
        const KeyRow stored = read_row(table, found);
        decision = core::decide_change(facts_of(found, stored, call), call.change);
        if (decision == ChangeDecision::apply && call.change == Change::step && !is_new_step(stored, call))
            decision = ChangeDecision::no_op;
        if (decision == ChangeDecision::stale)
            break;
        require_in_snapshot(table, found);
        if (decision == ChangeDecision::no_op)
            break;
        prevent_unless_writable(call.function);
        KeyRow row;
        const auto compose = [&](core::Micros at) -> const KeyRow & {
            return row = changed_row(stored, found.version, call, at);
        };
        Write write;
        if (is_withdrawal(call)) {
            write = withdraw_claim(table, found, call.scope, call.key, call.policy.manual_on_lease_expiry);
        } else if (is_locked_first(call)) {
            write = lock_first(table, call, &found.version);
            if (write == Write::done)
                write = replace_key(table, &found.version, compose(clock_now()), true);
        } else {
            core::Micros now = found.at;
            write = replace_key_in_time(table, &found.version, &now, true, compose);
        }
        if (write != Write::done)
            continue;
        if (call.change == Change::complete)
            warn_unless_stored(call.response, call.policy);
        if (lease_until != nullptr)
            *lease_until = row.time(KeyColumn::lease_until);
        if (is_waited_for(call))
            wake_waiters(call.space, call.scope, call.key);
        break;
    }
    close_keys(table);
    if (decision == ChangeDecision::stale)
        stats::count(call.scope, stats::Counter::stale_fences);
    return decision;
}

bool change_as_holder(const HolderCall &call, core::Micros *lease_until) {
    const ChangeDecision decision = try_change_as_holder(call, lease_until);
    if (decision == ChangeDecision::stale)
        raise_stale(call);
    return decision != ChangeDecision::no_op;
}

void complete_claim(const KeyTable &table, const ClaimRequest &request, const ScopePolicy &policy, const Claimed &claimed,
                    const Jsonb *response) {
    HolderCall call{};
    call.function = request.function;
    call.change = core::Change::complete;
    call.scope = request.scope;
    call.key = request.key;
    call.policy = policy;
    call.response.body = response;
    // The claim's row is the current one, unless the work itself changed the key.
    if (!is_current(table, claimed.version)) {
        change_as_holder(call);
        return;
    }
    KeyVersion version = claimed.version;
    // The row is this transaction's, so that the write waits for nobody.
    const KeyRow row = completed_row(claimed.row, call.response, policy, clock_now(), is_in_ring(version));
    warn_unless_stored(call.response, policy);
    if (replace_key(table, &version, row, true) != Write::done)
        elog(ERROR, "claim of key \"%s\" was changed by another transaction", text_to_cstring(request.key));
}

HolderCall holder_call(FunctionCallInfo fcinfo, const char *function, Change change, int fence_arg, int scope_arg) {
    HolderCall call{};
    call.function = function;
    call.change = change;
    call.key = key_argument(fcinfo, 0);
    call.scope = scope_argument(fcinfo, scope_arg);
    call.policy = scope_policy(call.scope);
    call.has_fence = !PG_ARGISNULL(fence_arg);
    if (call.has_fence)
        call.fence = PG_GETARG_INT64(fence_arg);
    else if (change == Change::renew || change == Change::step)
        raise_null_argument("fence");
    return call;
}

Response response_arguments(FunctionCallInfo fcinfo, int body_arg, int status_arg) {
    Response response{};
    if (!PG_ARGISNULL(body_arg))
        response.body = PG_GETARG_JSONB_P(body_arg);
    response.has_status_code = !PG_ARGISNULL(status_arg);
    if (response.has_status_code)
        response.status_code = PG_GETARG_INT32(status_arg);
    return response;
}

} // namespace idem

SQL_FUNCTION(idem_renew) {
    idem::HolderCall call = idem::holder_call(fcinfo, "idem_renew()", idem::Change::renew, 1, 3);
    call.lease = PG_ARGISNULL(2) ? call.policy.lease : idem::lease_of(PG_GETARG_INTERVAL_P(2), "lease");
    idem::core::Micros lease_until = 0;
    idem::change_as_holder(call, &lease_until);
    PG_RETURN_TIMESTAMPTZ(lease_until);
}

SQL_FUNCTION(idem_step) {
    idem::HolderCall call = idem::holder_call(fcinfo, "idem_step()", idem::Change::step, 1, 4);
    call.step = idem::step_arguments(fcinfo, 2, 3);
    PG_RETURN_BOOL(idem::change_as_holder(call));
}

SQL_FUNCTION(idem_complete) {
    idem::HolderCall call = idem::holder_call(fcinfo, "idem_complete()", idem::Change::complete, 3, 4);
    call.response = idem::response_arguments(fcinfo, 1, 2);
    idem::change_as_holder(call);
    PG_RETURN_BOOL(idem::is_stored(call.response, call.policy));
}

SQL_FUNCTION(idem_release) {
    const idem::HolderCall call = idem::holder_call(fcinfo, "idem_release()", idem::Change::release, 1, 2);
    idem::change_as_holder(call);
    PG_RETURN_BOOL(true);
}
