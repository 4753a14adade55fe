// Writes rows as JSON objects, as to_jsonb does. A writer is prepared once for a row type, so that writing a row needs no
// lookups.
#pragma once

#include "server/json_builder.hpp"

namespace idem {

struct WrittenColumn;

struct RowWriter {
    int count;
    WrittenColumn *columns; // in the order of an object's members
};

// Prepares a writer, allocated in `memory`, for rows of this type from column `first` on, counted from 0. REQUIRES: the columns
// have different names.
void prepare_writer(RowWriter *writer, TupleDesc row, int first, MemoryContext memory);

// Pushes the row as an object. `values` and `nulls` have all columns of the row.
void push_row(JsonBuilder *builder, const RowWriter &writer, const Datum *values, const bool *nulls);

// The row as jsonb.
Jsonb *write_row(const RowWriter &writer, const Datum *values, const bool *nulls);

} // namespace idem
