#include "rows/row_lock.hpp"

#include "server/arguments.hpp"
#include "server/lock_wait_limit.hpp"

namespace idem {

namespace {

struct Plan {
    enum { read, lock, lock_if_free, lock_or_fail };
};

void prepare_select(RowStatement *statement, int plan, const RowCall &call, const char *columns, const char *condition,
                    const char *locking) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "SELECT true%s", columns);
    append_row(&sql, call);
    appendStringInfoString(&sql, " FROM ");
    append_target(&sql, call.table);
    appendStringInfo(&sql, " WHERE %s%s", condition, locking);
    prepare_plan(statement, plan, sql);
}

} // namespace

void prepare_row_lock(RowStatement *statement, const RowCall &call, const char *columns, const char *found_by,
                      const char *locked_by) {
    prepare_select(statement, Plan::read, call, columns, found_by, "");
    prepare_select(statement, Plan::lock, call, columns, locked_by, " FOR UPDATE");
    prepare_select(statement, Plan::lock_if_free, call, columns, locked_by, " FOR UPDATE SKIP LOCKED");
    prepare_select(statement, Plan::lock_or_fail, call, columns, locked_by, " FOR UPDATE NOWAIT");
}

Relation open_target_within(FunctionCallInfo fcinfo, int arg, core::Micros wait_until) {
    if (wait_until != core::kForever && !PG_ARGISNULL(arg)) {
        const Oid oid = PG_GETARG_OID(arg);
        if (!ConditionalLockRelationOid(oid, RowShareLock)) {
            const core::Micros left = time_left(wait_until);
            if (left <= 0 || !within_wait_limit(left, [&] { LockRelationOid(oid, RowShareLock); }))
                return nullptr;
        }
    }
    return open_target(fcinfo, arg, RowShareLock);
}

bool read_unlocked(const RowRun &run, RowResult *result) { return run_plan(run, Plan::read, result, Row::unwanted); }

namespace {

Locked lock_row_once(const RowRun &run, const RowCall &call, core::Micros wait_until, RowResult *result) {
    if (run_plan(run, wait_until == core::kForever ? Plan::lock : Plan::lock_if_free, result, Row::wanted))
        return Locked::locked;
    if (!run_plan(run, Plan::read, result, Row::unwanted))
        return Locked::missing;
    if (wait_until == core::kForever)
        return Locked::moved;
    const core::Micros left = time_left(wait_until);
    if (left <= 0 && !is_row_secured(call.table))
        return Locked::busy;
    // Another transaction has locked it, or row-level security lets the caller see it but not update it. Only a busy row
    // raises.
    bool locked = false;
    const auto attempt = [&](int plan) { return [&, plan] { locked = run_plan(run, plan, result, Row::wanted); }; };
    if (left <= 0 ? !without_waiting(attempt(Plan::lock_or_fail)) : !within_wait_limit(left, attempt(Plan::lock)))
        return Locked::busy;
    return locked ? Locked::locked : Locked::moved;
}

} // namespace

Locked lock_row(const RowRun &run, const RowCall &call, core::Micros wait_until, RowResult *result) {
    for (int attempt = 1;; attempt++) {
        const Locked outcome = lock_row_once(run, call, wait_until, result);
        if (outcome != Locked::moved || !is_row_secured(call.table))
            return outcome;
        if (attempt == kAttemptsAtHiddenRow)
            return Locked::missing;
    }
}

} // namespace idem
