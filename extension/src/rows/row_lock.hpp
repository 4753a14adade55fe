// Locking one row of the user's table: SELECT … FOR UPDATE that tells "busy" from "not there".
#pragma once

#include "core/key_state.hpp"
#include "rows/row_statement.hpp"
#include "rows/unique_key.hpp"

namespace idem {

// The table of argument `arg`, locked for row locks; nullptr when that took longer. wait_until: as wait_argument has it. Errors
// as open_target.
Relation open_target_within(FunctionCallInfo fcinfo, int arg, core::Micros wait_until);

// Prepares the plans. SQL over the item t: `found_by` is the condition that finds the row, `locked_by` the one it is locked by,
// `told` further result columns, each with ", " before it.
void prepare_row_lock(RowStatement *statement, const RowCall &call, const char *told, const char *found_by,
                      const char *locked_by);

// Looks, without locking; false when there is no such row.
bool look_at_row(const RowRun &run, RowResult *result);

enum class Locked {
    locked,
    busy,    // by another transaction, until the wait was over
    missing, // or hidden from the caller, or not theirs to update, by row-level security
    moved    // not there under `locked_by`, but still under `found_by`, as `result` tells
};
Locked lock_row(const RowRun &run, const RowCall &call, core::Micros wait_until, RowResult *result);

} // namespace idem
