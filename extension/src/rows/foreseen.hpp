// The values that columns of a row will have once it is inserted. A value is given, or the default, or generated from others.
#pragma once

#include "rows/row_statement.hpp"

namespace idem {

// The source of a column's value.
struct ForeseenColumn {
    AttrNumber column;
    int parameter;    // the column's own, for conditions; 0: none needed
    int given;        // the new row's parameter; 0: the column was not given
    Expr *expression; // its default or generation expression if it was not given; nullptr: NULL
};

struct Foreseen {
    int count;
    ForeseenColumn *columns;
    int inputs; // further columns that generation expressions refer to
    ForeseenColumn *input;
};

// Adds a parameter for each of the columns. REQUIRES: the call's first object is the new row. 22023 for an identity column or a
// volatile default: such a row is never a duplicate.
Foreseen *foresee_columns(RowStatement *statement, const RowCall &call, const ColumnList &columns);

// Sets the parameters to the values that are given, generated or the default.
void foresee_values(const RowRun &run, const RowCall &call, const Foreseen &foreseen);

// Whether BEFORE triggers may change the row, and can be run. Those of a partitioned table belong to its partitions.
inline bool has_insert_triggers(Relation table) {
    return table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE && table->trigdesc != nullptr &&
           table->trigdesc->trig_insert_before_row;
}

// Sets all of them to the values after BEFORE triggers and generation. False when a trigger discards the row. For this the
// triggers run once more, in a subtransaction that is rolled back. REQUIRES: has_insert_triggers.
bool foresee_triggered_values(const RowRun &run, const RowCall &call, const Foreseen &foreseen);

} // namespace idem
