// idem_transition_log: one row for each move of a row whose table was attached with log => true.
#pragma once

#include "storage/member.hpp"

#include <string_view>

namespace idem {

extern Member transition_log;

// How the rows of one table are named in the log.
struct LoggedTable {
    text *name;    // of the table that the machine is attached to
    TupleDesc key; // the columns of its key
    FmgrInfo jsonb_of_key;
    AttrNumber columns[INDEX_MAX_KEYS]; // where they are in the rows
};

// For rows of `table`, which is `attached_table` or a partition of it. Allocated in the current memory context. 42P10 when the
// table has no key any more.
LoggedTable *logged_table(Relation table, Oid attached_table);

// Writes without the executor, as the caller has no privileges on the log: user triggers and row-level security have no effect.
// A null view as `from`: the row is new.
void log_transition(LoggedTable *logged, HeapTuple row, TupleDesc layout, const char *column, std::string_view from,
                    std::string_view to);

} // namespace idem
