// Rows that functions answer with, of OUT columns or of a composite type; the row flows answer with (outcome text, …).
//
// The SQL declares their columns, and may be altered or be of another version than the library. So the columns that are filled
// in are compared with the row that is made: 55000 where they differ.
#pragma once

#include "server/extension.hpp"

namespace idem {

// Raises 55000 unless the rows of `name`, a function or a type, have columns of just these types.
void check_answer(TupleDesc layout, const char *name, const Oid *types, int count);

// One of the extension's composite types.
struct AnswerType {
    static constexpr int kMostColumns = 10;
    const char *name;
    EnumType *first; // the type of the first column, where that is an enum
    int count;
    Oid types[kMostColumns];
};
Datum make_composite(const AnswerType &type, const Datum *values, const bool *nulls);
void check_answer_type(const AnswerType &type);

// A row of the function's OUT columns.
Datum make_record(FunctionCallInfo fcinfo, const Oid *types, int count, const Datum *values, const bool *nulls);
template <int count>
Datum make_record(FunctionCallInfo fcinfo, const Oid (&types)[count], const Datum *values, const bool *nulls) {
    return make_record(fcinfo, types, count, values, nulls);
}

// Rows of a function that returns a set: begin, then put each.
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

// A record of the SQL function's OUT columns, whose first is `outcome`.
struct AnswerColumn {
    Oid type; // invalid: there is no such column
    Datum value;
    bool is_null;
};
inline constexpr AnswerColumn kNoColumn = {InvalidOid, Datum{0}, true};
Datum make_answer(FunctionCallInfo fcinfo, const char *outcome, AnswerColumn second, AnswerColumn third = kNoColumn);

// A null pointer is NULL.
inline AnswerColumn row_column(const Jsonb *row) { return {JSONBOID, PointerGetDatum(row), row == nullptr}; }

} // namespace idem
