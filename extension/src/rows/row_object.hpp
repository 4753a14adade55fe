// A JSON object with columns of a row, {"column": value, …}, such as `key` or `changes`.
#pragma once

#include "rows/target.hpp"

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

// Makes rows of a table out of such objects, as jsonb_populate_record does. Columns that an object lacks are NULL. All objects
// of a statement share one. The rows are of the table's own row type: a record type for each shape of object would have to be
// registered, and the server never forgets one.
struct RowMaker {
    TupleDesc layout;          // the table's
    HeapTupleHeader empty;     // such a row, all NULL
    FmgrInfo populate;         // jsonb_populate_record, which remembers types in fn_extra
    MemoryContext memory;      // the maker's
    MemoryContext type_memory; // of fn_extra; null when there is none
};
void prepare_maker(RowMaker *maker, Relation table, MemoryContext memory);

// The columns of an object. Part of a statement.
struct RowReader {
    ColumnList columns; // in the order of the object's members
    RowMaker *maker;
    bool has_nested_types; // the maker would remember these, and not notice that one was altered
};

// For objects with these members. 42703 for a member that is no column. Allocated in `memory`.
void prepare_reader(RowReader *reader, RowMaker *maker, Relation table, const RowObject &object, MemoryContext memory);

inline Form_pg_attribute read_column(const RowReader &reader, int position) {
    return TupleDescAttr(reader.maker->layout, reader.columns.columns[position] - 1);
}

// One value per column. Raises the errors of the columns' types and domains.
void read_values(const RowReader &reader, const RowObject &object, Datum *values, char *nulls);

// 22004 if a member of a key is null.
void refuse_nulls(const RowReader &reader, const char *nulls, const char *argument);

} // namespace idem
