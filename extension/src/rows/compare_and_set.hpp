// The one engine under every flow that changes a row if it is as expected: optimistic_update, conditional_update,
// conditional_adjust, idem_transition.
//
// First the UPDATE, which finds, compares, locks and changes in one statement; PostgreSQL makes it wait for a rival and
// compares again with what the rival left. Only when it changed nothing, the row is looked at, to tell a conflict from a
// missing row.
#pragma once

#include "rows/row_statement.hpp"
#include "rows/unique_key.hpp"

namespace idem {

// What a flow's statement is made of; SQL over the item t and the statement's parameters.
struct CompareAndSet {
    UniqueKey key;
    StringInfoData expected; // condition
    StringInfoData changes;  // SET list
    StringInfoData control;  // what is told of the row, besides row_data
};

// An empty one for the key in the call's first object.
CompareAndSet begin_compare_and_set(const RowStatement *statement, const RowCall &call);

// Prepares the plans.
void prepare_compare_and_set(RowStatement *statement, const RowCall &call, const CompareAndSet &flow);

// "t.column = parameter", by the equality of the column's type. 42883 when it has none.
void append_equals(StringInfo sql, Relation table, AttrNumber column, int parameter);

// The same, NULL being equal to NULL.
void append_is_same(StringInfo sql, Relation table, AttrNumber column, int parameter);

// "column = parameter" for the SET list.
void append_assignment(StringInfo sql, Relation table, AttrNumber column, int parameter);

enum class Compared {
    changed, // it was as expected
    differs,
    missing
};

struct Changed {
    Compared what;
    bool has_control;
    Datum control; // `control` of the row as it is now
    Jsonb *row;    // row_data likewise
};

// Changes nothing unless `changed`. 09000 when the row is as expected and yet cannot be changed. Missing is also a row that
// row-level security hides from the caller, or does not let them update.
Changed compare_and_set(const RowRun &run, const RowCall &call, Row row);

// Looks only: `changed` when it is as expected.
Changed compare_only(const RowRun &run, Row row);

// updated, conflict, not_found
const char *update_outcome(Compared what);

} // namespace idem
