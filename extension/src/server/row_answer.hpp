// Rows that functions return, with OUT columns or as a composite type. The row flows return (outcome text, …).
//
// The SQL declares the columns. It may have been altered, or belong to another version of the library. The declared columns are
// therefore compared with the columns that the code fills; 55000 if they differ.
#pragma once

#include "server/extension.hpp"

namespace idem {

// Raises 55000 unless the columns of `layout` have exactly these types. `name` is the function or type, for the message.
void check_answer(TupleDesc layout, const char *name, const Oid *types, int count);

// One of the extension's composite types.
struct AnswerType {
    static constexpr int kMaxColumns = 10;
    const char *name;
    EnumType *first_column_enum; // replaces types[0]; nullptr if the first column is not an enum
    int count;
    Oid types[kMaxColumns];
};
Datum make_composite(FunctionCallInfo fcinfo, const AnswerType &type, const Datum *values, const bool *nulls);
void check_answer_type(const AnswerType &type);

// A row with the function's OUT columns.
Datum make_record(FunctionCallInfo fcinfo, const Oid *types, int count, const Datum *values, const bool *nulls);
template <int count>
Datum make_record(FunctionCallInfo fcinfo, const Oid (&types)[count], const Datum *values, const bool *nulls) {
    return make_record(fcinfo, types, count, values, nulls);
}

// The rows of a function that returns a set: call begin_answer_rows once, then put_answer_row for each row.
struct AnswerRows {
    Tuplestorestate *store;
    TupleDesc layout;
};
AnswerRows begin_answer_rows(FunctionCallInfo fcinfo, const Oid *types, int count);
template <int count> AnswerRows begin_answer_rows(FunctionCallInfo fcinfo, const Oid (&types)[count]) {
    return begin_answer_rows(fcinfo, types, count);
}
inline AnswerRows begin_answer_rows(FunctionCallInfo fcinfo, const AnswerType &type) {
    return begin_answer_rows(fcinfo, type.types, type.count);
}
inline void put_answer_row(const AnswerRows &rows, const Datum *values, const bool *nulls) {
    tuplestore_putvalues(rows.store, rows.layout, const_cast<Datum *>(values), const_cast<bool *>(nulls));
}

// A column after `outcome` in the record that make_answer returns.
struct AnswerColumn {
    Oid type; // InvalidOid: the record has no such column
    Datum value;
    bool is_null;
};
inline constexpr AnswerColumn kNoColumn = {InvalidOid, Datum{0}, true};
Datum make_answer(FunctionCallInfo fcinfo, const char *outcome, AnswerColumn second, AnswerColumn third = kNoColumn);

// A null pointer is NULL.
inline AnswerColumn row_column(const Jsonb *row) { return {JSONBOID, PointerGetDatum(row), row == nullptr}; }

} // namespace idem
