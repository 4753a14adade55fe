// The key columns of a new row, with the values that they have when it is inserted: after defaults, BEFORE triggers and
// generation.
#pragma once

#include "rows/row_statement.hpp"

namespace idem {

struct NewKeyColumn {
    AttrNumber column;
    int parameter; // the column's own, for conditions
    int given;     // the parameter of new_row; 0: new_row lacks the column
};

struct NewKey {
    int count;
    NewKeyColumn *columns;
    bool is_given; // new_row has all of them
};

// Adds a parameter for each column. REQUIRES: the call's first object is the new row. 22023 for a column that new_row lacks and
// whose default is volatile or an identity: such a row is never a duplicate.
NewKey *new_key(RowStatement *statement, const RowCall &call, const ColumnList &columns);

// Sets the parameters to the values of new_row. REQUIRES: key.is_given.
void set_given_key(const RowRun &run, const NewKey &key);

// Sets the parameters to the values of the row that an INSERT shows. It may be that of a partition. False if they were the
// same.
bool set_shown_key(const RowRun &run, const RowCall &call, const NewKey &key, TupleTableSlot *row);

} // namespace idem
