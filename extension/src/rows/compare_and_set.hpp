// The one engine under every flow that changes a row if it is as expected: optimistic_update, conditional_update,
// conditional_adjust, idem_transition.
//
// The UPDATE comes first. It finds, compares, locks and changes the row in one statement; PostgreSQL makes it wait for a
// concurrent change and compares again afterwards. Only when it changed nothing is the row read, to tell a conflict from a
// missing row.
#pragma once

#include "rows/row_statement.hpp"
#include "rows/unique_key.hpp"

namespace idem {

// The parts of a flow's statement: SQL over the item t and the statement's parameters.
struct CompareAndSet {
    UniqueKey key;
    StringInfoData expected; // condition
    StringInfoData changes;  // SET list
    StringInfoData control;  // a value of the row that the flow reports, in addition to row_data
};

// The key is that of the call's first object; the other parts are empty.
CompareAndSet begin_compare_and_set(const RowStatement *statement, const RowCall &call);

// Prepares the plans.
void prepare_compare_and_set(RowStatement *statement, const RowCall &call, const CompareAndSet &flow);

// "t.column = parameter", by the equality of the column's type. 42883 when it has none.
void append_equals(StringInfo sql, Relation table, AttrNumber column, int parameter);

// The same, but NULL is equal to NULL.
void append_is_same(StringInfo sql, Relation table, AttrNumber column, int parameter);

// "column = parameter" for the SET list.
void append_assignment(StringInfo sql, Relation table, AttrNumber column, int parameter);

enum class Compared {
    changed, // it was as expected
    differs,
    missing
};

struct Changed {
    Compared outcome;
    bool has_control;
    Datum control; // `control` of the row as it is now
    Jsonb *row;    // row_data likewise
};

// Changes nothing unless it returns `changed`. 09000 when the row is as expected and yet cannot be changed. A row is also
// missing if row-level security hides it from the caller or does not let the caller update it.
Changed compare_and_set(const RowRun &run, const RowCall &call, Row row);

// Only reads the row. `changed` when it is as expected.
Changed compare_only(const RowRun &run, Row row);

// updated, conflict, not_found
const char *update_outcome(Compared outcome);

} // namespace idem
