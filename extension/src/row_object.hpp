// A JSON object that stands for columns of a row: {"column": value, …}, such as `key` or `changes`.
#pragma once

#include "target.hpp"

namespace idem {

// The argument as it was given.
struct RowObject {
    Jsonb *json;
    int count;
    const char **names; // the members' names, in jsonb's order
};

// 22004 when NULL, 22023 when it is not an object.
RowObject row_object_argument(FunctionCallInfo fcinfo, int arg, const char *argument);
RowObject row_object(Jsonb *json, const char *argument);

// Makes the columns' values out of such an object, as jsonb_populate_record does. Kept with a statement.
struct RowReader {
    ColumnList columns;    // in the order of the object's members
    TupleDesc record;      // these columns
    HeapTupleHeader empty; // such a record, all NULL
    FmgrInfo populate;     // jsonb_populate_record
    bool has_nested_types; // it remembers those, and would not notice that one was altered
};

// For objects with these members: 42703 for one that is no column. Allocated in `memory`.
void prepare_reader(RowReader *reader, Relation table, const RowObject &object, MemoryContext memory);

// One value per column. Raises what the columns' types and domains say of the values.
void read_values(RowReader *reader, const RowObject &object, Datum *values, char *nulls);

// 22004 if a member of a key is null.
void refuse_nulls(const RowReader &reader, const char *nulls, const char *argument);

} // namespace idem
