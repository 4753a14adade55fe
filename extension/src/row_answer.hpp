// Records of a function's OUT columns; the row flows answer with (outcome text, …).
#pragma once

#include "pg.hpp"

namespace idem {

inline constexpr int kMostAnswerColumns = 3;

// A record of the SQL function's OUT columns.
Datum make_record(FunctionCallInfo fcinfo, const Datum *values, const bool *nulls);

// A record of the SQL function's OUT columns, whose first is `outcome`. A null pointer or `is_null` is NULL.
struct AnswerColumn {
    Datum value;
    bool is_null;
};
Datum make_answer(FunctionCallInfo fcinfo, const char *outcome, AnswerColumn second, AnswerColumn third = {Datum{0}, true});

inline AnswerColumn row_column(const Jsonb *row) { return {PointerGetDatum(row), row == nullptr}; }

} // namespace idem
