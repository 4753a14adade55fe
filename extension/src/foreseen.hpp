// The values that columns of a row will have once it is inserted, foreseen: given, or else by default or generated from others.
#pragma once

#include "row_statement.hpp"

namespace idem {

// Where to find the value of a column that the new row must not duplicate.
struct ForeseenColumn {
    AttrNumber column;
    int parameter;
    Expr *expression; // for a column that was not given: its default or generation expression; nullptr is NULL
    bool is_given;
};

struct Foreseen {
    int count;
    ForeseenColumn *columns;
    int inputs; // further columns that generation expressions refer to
    ForeseenColumn *input;
};

// For a builder whose call's first object is the new row: a parameter for each of the columns, the row's own where it is given.
// 22023 for an identity column or a default that gives another value each time: such a row duplicates nothing.
Foreseen *foresee_columns(RowStatement *statement, const RowCall &call, const ColumnList &columns);

// Sets the parameters that were not given.
void foresee_values(const RowRun &run, const RowCall &call, const Foreseen &foreseen);

} // namespace idem
