#include "row_answer.hpp"

namespace idem {

Datum make_answer(FunctionCallInfo fcinfo, const char *outcome, AnswerColumn second, AnswerColumn third) {
    TupleDesc layout;
    if (get_call_result_type(fcinfo, nullptr, &layout) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type is not a row type");
    Datum values[kMostAnswerColumns] = {CStringGetTextDatum(outcome), second.value, third.value};
    bool nulls[kMostAnswerColumns] = {false, second.is_null, third.is_null};
    return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(layout), values, nulls));
}

} // namespace idem
