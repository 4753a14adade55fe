// The values that columns of a row will have once it is inserted, foreseen: given, or else by default or generated from others.
#pragma once

#include "rows/row_statement.hpp"

namespace idem {

// Where to find the value of a column that the new row must not duplicate.
struct ForeseenColumn {
    AttrNumber column;
    int parameter;    // its own, for conditions; 0: none needed
    int given;        // the new row's parameter; 0: the column was not given
    Expr *expression; // then: its default or generation expression; nullptr is NULL
};

struct Foreseen {
    int count;
    ForeseenColumn *columns;
    int inputs; // further columns that generation expressions refer to
    ForeseenColumn *input;
};

// For a builder whose call's first object is the new row: a parameter for each of the columns.
// 22023 for an identity column or a default that gives another value each time: such a row duplicates nothing.
Foreseen *foresee_columns(RowStatement *statement, const RowCall &call, const ColumnList &columns);

// Sets the parameters to what was given, or is generated or the default.
void foresee_values(const RowRun &run, const RowCall &call, const Foreseen &foreseen);

// Whether BEFORE triggers may make another row of it, and can be asked: those of a partitioned table are its partitions'.
inline bool has_insert_triggers(Relation table) {
    return table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE && table->trigdesc != nullptr &&
           table->trigdesc->trig_insert_before_row;
}

// Sets all of them to what BEFORE triggers and generation make of the row; false when a trigger discards it. The triggers run
// once more for that, in a subtransaction that is undone. REQUIRES: has_insert_triggers.
bool foresee_triggered_values(const RowRun &run, const RowCall &call, const Foreseen &foreseen);

} // namespace idem
