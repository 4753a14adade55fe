#include "server/json_value.hpp"

#include "server/json_builder.hpp"
#include "server/type_of_call.hpp"

namespace idem {

namespace {

bool is_json(Oid type) {
    const Oid base = getBaseType(type);
    return base == JSONOID || base == JSONBOID;
}

// The text that a type's input function takes; nullptr for null.
char *input_text(const JsonbValue &scalar) {
    switch (scalar.type) {
    case jbvString:
        return pnstrdup(scalar.val.string.val, scalar.val.string.len);
    case jbvNumeric:
        return DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(scalar.val.numeric)));
    case jbvBool:
        return pstrdup(scalar.val.boolean ? "true" : "false");
    default:
        return nullptr;
    }
}

// The function is called for NULL too, as a domain may reject it.
Datum value_of_text(char *input, Oid type, bool *is_null) {
    Oid function, io_parameter;
    getTypeInputInfo(type, &function, &io_parameter);
    *is_null = input == nullptr;
    return OidInputFunctionCall(function, input, io_parameter, -1);
}

constexpr char kColumn[] = "value";

Jsonb *object_with(const JsonbValue &json) {
    JsonBuilder object = JsonBuilder::object();
    object.add_member(kColumn, json);
    return object.finish_object();
}

// jsonb_populate_record for a row of one column.
Datum value_by_record(const JsonbValue &json, Oid type, bool *is_null) {
    TupleDesc row = CreateTemplateTupleDesc(1);
    TupleDescInitEntry(row, 1, kColumn, type, -1, 0);
    row = BlessTupleDesc(row);
    Datum nothing = 0;
    bool is_nothing = true;
    const Datum empty = heap_copy_tuple_as_datum(heap_form_tuple(row, &nothing, &is_nothing), row);
    FmgrInfo populate;
    fmgr_info(F_JSONB_POPULATE_RECORD, &populate);
    set_argument_type(&populate, RECORDOID);
    HeapTupleHeader filled = DatumGetHeapTupleHeader(FunctionCall2(&populate, empty, JsonbPGetDatum(object_with(json))));
    HeapTupleData tuple{};
    tuple.t_len = HeapTupleHeaderGetDatumLength(filled);
    tuple.t_data = filled;
    return heap_getattr(&tuple, 1, row, is_null);
}

} // namespace

Datum value_of_json(const JsonbValue &json, Oid type, bool *is_null) {
    if (json.type == jbvBinary || is_json(type))
        return value_by_record(json, type, is_null);
    return value_of_text(input_text(json), type, is_null);
}

} // namespace idem
