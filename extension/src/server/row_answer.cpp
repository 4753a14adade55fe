#include "server/row_answer.hpp"

namespace idem {

namespace {

// The row layouts of functions, cached per backend. A function's OUT columns cannot be altered, so an entry never becomes
// stale.
struct CachedLayout {
    Oid function;
    TupleDesc layout; // in CacheMemoryContext
};
constexpr int kCachedLayouts = 16;
constinit CachedLayout cache[kCachedLayouts] = {};
constinit int next_entry = 0;

TupleDesc answer_layout(FunctionCallInfo fcinfo, const Oid *types, int count) {
    const Oid function = fcinfo->flinfo->fn_oid;
    for (const CachedLayout &entry : cache)
        if (entry.function == function)
            return entry.layout;
    require_function(fcinfo);
    TupleDesc layout;
    if (get_call_result_type(fcinfo, nullptr, &layout) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type is not a row type");
    check_answer(layout, get_func_name(function), types, count);
    const MemoryContext caller = MemoryContextSwitchTo(CacheMemoryContext);
    TupleDesc copy = BlessTupleDesc(CreateTupleDescCopy(layout));
    MemoryContextSwitchTo(caller);
    CachedLayout &entry = cache[next_entry++ % kCachedLayouts];
    if (entry.layout != nullptr)
        FreeTupleDesc(entry.layout);
    entry = {function, copy};
    return copy;
}

Datum form_answer(TupleDesc layout, const Datum *values, const bool *nulls) {
    return HeapTupleGetDatum(heap_form_tuple(layout, const_cast<Datum *>(values), const_cast<bool *>(nulls)));
}

TupleDesc checked_layout(const AnswerType &type) {
    AnswerType expected = type;
    if (type.first_column_enum != nullptr)
        expected.types[0] = type_of(*type.first_column_enum);
    TupleDesc layout = lookup_rowtype_tupdesc(member_type(type.name), -1);
    check_answer(layout, type.name, expected.types, type.count);
    return layout;
}

} // namespace

void check_answer(TupleDesc layout, const char *name, const Oid *types, int count) {
    bool same = layout->natts == count;
    for (int i = 0; same && i < count; i++) {
        Form_pg_attribute column = TupleDescAttr(layout, i);
        same = !column->attisdropped && column->atttypid == types[i];
    }
    if (!same)
        raise_not_as_installed(name, "The columns of its rows were changed.");
}

Datum make_composite(FunctionCallInfo fcinfo, const AnswerType &type, const Datum *values, const bool *nulls) {
    require_function(fcinfo);
    TupleDesc layout = checked_layout(type);
    const Datum row = form_answer(layout, values, nulls);
    ReleaseTupleDesc(layout);
    return row;
}

void check_answer_type(const AnswerType &type) {
    TupleDesc layout = checked_layout(type); // a variable, as the macro ReleaseTupleDesc evaluates its argument twice
    ReleaseTupleDesc(layout);
}

Datum make_record(FunctionCallInfo fcinfo, const Oid *types, int count, const Datum *values, const bool *nulls) {
    return form_answer(answer_layout(fcinfo, types, count), values, nulls);
}

AnswerRows begin_answer_rows(FunctionCallInfo fcinfo, const Oid *types, int count) {
    require_function(fcinfo);
    InitMaterializedSRF(fcinfo, 0);
    const auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    check_answer(result->setDesc, get_func_name(fcinfo->flinfo->fn_oid), types, count);
    return {result->setResult, result->setDesc};
}

Datum make_answer(FunctionCallInfo fcinfo, const char *outcome, AnswerColumn second, AnswerColumn third) {
    const Oid types[] = {TEXTOID, second.type, third.type};
    const Datum values[] = {CStringGetTextDatum(outcome), second.value, third.value};
    const bool nulls[] = {false, second.is_null, third.is_null};
    return make_record(fcinfo, types, OidIsValid(third.type) ? 3 : 2, values, nulls);
}

} // namespace idem
