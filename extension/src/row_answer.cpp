#include "row_answer.hpp"

namespace idem {

namespace {

// A function's OUT columns never change: it would be another function. So each is looked up once per backend.
struct KnownAnswer {
    Oid function;
    TupleDesc layout;
};
constexpr int kMostFunctions = 16;
constinit KnownAnswer known[kMostFunctions] = {};
constinit int next = 0;

TupleDesc answer_layout(FunctionCallInfo fcinfo) {
    const Oid function = fcinfo->flinfo->fn_oid;
    for (const KnownAnswer &answer : known)
        if (answer.function == function)
            return answer.layout;
    TupleDesc layout;
    if (get_call_result_type(fcinfo, nullptr, &layout) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type is not a row type");
    const MemoryContext caller = MemoryContextSwitchTo(CacheMemoryContext);
    TupleDesc kept = BlessTupleDesc(CreateTupleDescCopy(layout));
    MemoryContextSwitchTo(caller);
    KnownAnswer &place = known[next++ % kMostFunctions];
    if (place.layout != nullptr)
        FreeTupleDesc(place.layout);
    place = {function, kept};
    return kept;
}

} // namespace

Datum make_record(FunctionCallInfo fcinfo, const Datum *values, const bool *nulls) {
    return HeapTupleGetDatum(heap_form_tuple(answer_layout(fcinfo), const_cast<Datum *>(values), const_cast<bool *>(nulls)));
}

Datum make_answer(FunctionCallInfo fcinfo, const char *outcome, AnswerColumn second, AnswerColumn third) {
    const Datum values[kMostAnswerColumns] = {CStringGetTextDatum(outcome), second.value, third.value};
    const bool nulls[kMostAnswerColumns] = {false, second.is_null, third.is_null};
    return make_record(fcinfo, values, nulls);
}

} // namespace idem
