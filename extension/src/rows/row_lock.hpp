// Locks one row of the user's table: SELECT … FOR UPDATE, which tells a busy row from a missing one.
#pragma once

#include "core/key_state.hpp"
#include "rows/row_statement.hpp"
#include "rows/unique_key.hpp"

namespace idem {

// The table of argument `arg`, locked for row locks. nullptr when it could not be locked until `wait_until`, a result of
// wait_argument. Raises the errors of open_target.
Relation open_target_within(FunctionCallInfo fcinfo, int arg, core::Micros wait_until);

// Prepares the plans. SQL over the item t: `found_by` is the condition that finds the row, `locked_by` the one that locks it,
// and `columns` has further result columns, each after ", ".
void prepare_row_lock(RowStatement *statement, const RowCall &call, const char *columns, const char *found_by,
                      const char *locked_by);

// Reads the row without locking it. False when there is no such row.
bool read_unlocked(const RowRun &run, RowResult *result);

enum class Locked {
    locked,
    busy,    // locked by another transaction until the wait was over
    missing, // or row-level security hides it from the caller, or does not let the caller update it
    moved    // `locked_by` finds no row, but `found_by` does: it is in `result`
};
Locked lock_row(const RowRun &run, const RowCall &call, core::Micros wait_until, RowResult *result);

} // namespace idem
