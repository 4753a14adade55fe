// Lease locks: leased claims in a key space of their own, whose callers queue. As for keys, the fence decides which caller
// holds a lock. A stale fence returns false; only idem_assert_fence raises an error, because work depends on it.
//
// A call that asserts a fence locks the lock's row FOR KEY SHARE until its transaction ends. A takeover or a release locks the
// row FOR UPDATE first, and so waits for that end. A renewal does not, because it leaves the key's columns unchanged.
#include "keys/claim.hpp"
#include "keys/holder.hpp"
#include "keys/wake_up.hpp"
#include "server/arguments.hpp"
#include "server/errors.hpp"
#include "server/transaction_block.hpp"
#include "server/writable.hpp"
#include "statistics/stats.hpp"
#include "storage/key_store.hpp"
#include "storage/key_wait.hpp"

namespace {

using namespace idem;
using core::Micros;

// A row is retained for this long after its lease, so that a late holder that was not replaced can still renew.
constexpr Micros kRetentionAfterLease = USECS_PER_DAY;

Micros retention_after(Micros lease) { return Min(lease, core::kForever - kRetentionAfterLease) + kRetentionAfterLease; }

// The lease's length: the argument `lease`, else the scope's lease.
Micros lease_argument(FunctionCallInfo fcinfo, int arg, const ScopePolicy &policy) {
    const Micros lease = PG_ARGISNULL(arg) ? policy.lease : lease_of(PG_GETARG_INTERVAL_P(arg), "lease");
    check_deadline(lease, "lease");
    return lease;
}

int64 fence_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        raise_null_argument("fence");
    return PG_GETARG_INT64(arg);
}

bool is_held_by(const KeyRow &row, const text *owner) {
    return state_of(row) == core::State::in_progress && is_owner(row, owner);
}

bool is_held_with(const KeyRow &row, int64 fence) {
    return state_of(row) == core::State::in_progress && DatumGetInt64(row.get(KeyColumn::fence)) == fence;
}

// A holder that calls again does not queue behind the callers that wait for its release.
bool reenter(const KeyTable &table, ClaimRequest request, Claimed *claimed) {
    if (request.owner == nullptr)
        return false;
    const FoundRow found = find_row(table, request.scope, request.key);
    if (found.presence != Presence::found || !is_held_by(read_row(table, found), request.owner))
        return false;
    request.wait_until = 0;
    *claimed = claim_key(table, request);
    if (!is_granted(claimed->outcome))
        return false;
    wake_waiters(KeySpace::locks, request.scope, request.key); // the lease may have become shorter
    return true;
}

Claimed acquire_in_turn(const KeyTable &table, ClaimRequest request) {
    Claimed claimed{};
    claimed.outcome = core::Outcome::in_flight;
    const LOCKTAG queue = waiters_tag(KeySpace::locks, request.scope, request.key);
    if (!try_enter_queue(queue) && (reenter(table, request, &claimed) || !enter_queue(queue, request.wait_until)))
        return claimed;
    request.is_queued = true;
    claimed = claim_key(table, request);
    leave_queue(queue);
    return claimed;
}

void assert_fence(const text *scope, const text *name, int64 fence) {
    const KeyTable table = open_keys(Access::write, KeySpace::locks, nullptr);
    for (;; check_for_interrupts()) {
        FoundRow found = find_row_waiting(table, scope, name, "idem_assert_fence()");
        if (found.presence != Presence::found || !is_held_with(read_row(table, found), fence)) {
            stats::count(scope, stats::Counter::stale_fences);
            ereport(ERROR, (errcode(ERRCODE_IDEM_STALE_FENCE),
                            errmsg("lock \"%s\" is not held with this fence", text_to_cstring(name)),
                            errdetail("It was unlocked or taken over meanwhile, or never taken."),
                            errhint("Roll back; another caller may be doing the work now.")));
        }
        require_in_snapshot(table, found);
        if (lock_key(table, &found.version, LockTupleKeyShare, LockWaitBlock) == Write::done)
            break;
    }
    close_keys(table);
}

// The common arguments of unlocking and renewing. A lock's functions require a transaction that may write, whatever the result.
HolderCall holder_call(FunctionCallInfo fcinfo, const char *function, core::Change change, int scope_arg) {
    HolderCall call{};
    call.function = function;
    call.space = KeySpace::locks;
    call.change = change;
    call.release_waits_for_asserters = true;
    call.key = key_argument(fcinfo, 0, "name");
    call.fence = fence_argument(fcinfo, 1);
    call.has_fence = true;
    call.scope = scope_argument(fcinfo, scope_arg);
    call.policy = scope_policy(call.scope);
    prevent_unless_writable(function);
    return call;
}

} // namespace

SQL_FUNCTION(idem_lock) {
    ClaimRequest request{};
    request.wants_row = true;
    request.function = "idem_lock()";
    request.space = KeySpace::locks;
    request.key = key_argument(fcinfo, 0, "name");
    request.owner = owner_argument(fcinfo, 2);
    request.wait_until = wait_argument(fcinfo, 3);
    request.scope = scope_argument(fcinfo, 4);
    request.lease = lease_argument(fcinfo, 1, scope_policy(request.scope));
    request.ttl = retention_after(request.lease);
    request.renewal_extends_ttl = true;
    request.takeover_waits_for_asserters = true;
    prevent_unless_writable(request.function);
    const KeyTable table = open_keys(Access::write, KeySpace::locks, nullptr);
    const Claimed claimed = acquire_in_turn(table, request);
    close_keys(table);
    count_outcome(request, claimed.outcome);
    if (!is_granted(claimed.outcome))
        PG_RETURN_NULL();
    PG_RETURN_INT64(DatumGetInt64(claimed.row.get(KeyColumn::fence)));
}

SQL_FUNCTION(idem_lock_renew) {
    HolderCall call = holder_call(fcinfo, "idem_lock_renew()", core::Change::renew, 3);
    call.lease = lease_argument(fcinfo, 2, call.policy);
    call.retention = retention_after(call.lease);
    PG_RETURN_BOOL(try_change_as_holder(call) != core::ChangeDecision::stale);
}

SQL_FUNCTION(idem_unlock) {
    const HolderCall call = holder_call(fcinfo, "idem_unlock()", core::Change::release, 2);
    PG_RETURN_BOOL(try_change_as_holder(call) != core::ChangeDecision::stale);
}

SQL_FUNCTION(idem_assert_fence) {
    const text *name = key_argument(fcinfo, 0, "name");
    const int64 fence = fence_argument(fcinfo, 1);
    const text *scope = scope_argument(fcinfo, 2);
    scope_policy(scope); // checks the right to use the scope
    prevent_unless_writable("idem_assert_fence()");
    assert_fence(scope, name, fence);
    expect_work_after(fcinfo, "idem_assert_fence()");
    PG_RETURN_BOOL(true);
}
