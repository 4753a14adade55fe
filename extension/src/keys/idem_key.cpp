// idem_key: one text key from several values. Parts are compared by their text, so 1, 1::bigint and '1' are the same part. The
// text does not depend on any setting.
#include "core/composite_key.hpp"
#include "server/arguments.hpp"
#include "server/guard.hpp"

namespace {

using namespace idem;

[[noreturn]] void raise_unsupported(Oid type) {
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("cannot make a key part from type %s", format_type_be(type)),
                    errhint("Use text, an integer type, numeric, uuid, boolean or date, or cast to text.")));
    pg_unreachable();
}

const char *date_text(DateADT date) {
    if (DATE_IS_NOBEGIN(date))
        return "-infinity";
    if (DATE_IS_NOEND(date))
        return "infinity";
    int year, month, day;
    j2date(date + POSTGRES_EPOCH_JDATE, &year, &month, &day);
    return year > 0 ? psprintf("%04d-%02d-%02d", year, month, day) : psprintf("%04d-%02d-%02d BC", 1 - year, month, day);
}

// The text of one value; equal values of one type have the same text.
std::string_view part_text(Oid type, Datum value) {
    const auto view = [](const char *text) { return std::string_view(text); };
    switch (getBaseType(type)) {
    case UNKNOWNOID:
        return view(DatumGetCString(value));
    case TEXTOID:
    case VARCHAROID: {
        const text *string = DatumGetTextPP(value);
        return {VARDATA_ANY(string), VARSIZE_ANY_EXHDR(string)};
    }
    case BPCHAROID: {
        BpChar *string = DatumGetBpCharPP(value);
        return {VARDATA_ANY(string), static_cast<size_t>(bpchartruelen(VARDATA_ANY(string), VARSIZE_ANY_EXHDR(string)))};
    }
    case INT2OID:
        return view(psprintf("%d", DatumGetInt16(value)));
    case INT4OID:
        return view(psprintf("%d", DatumGetInt32(value)));
    case INT8OID:
        return view(psprintf(INT64_FORMAT, DatumGetInt64(value)));
    case NUMERICOID:
        return view(DatumGetCString(DirectFunctionCall1(numeric_out, DirectFunctionCall1(numeric_trim_scale, value))));
    case UUIDOID:
        return view(DatumGetCString(DirectFunctionCall1(uuid_out, value)));
    case BOOLOID:
        return view(DatumGetBool(value) ? "true" : "false");
    case DATEOID:
        return view(date_text(DatumGetDateADT(value)));
    default:
        raise_unsupported(type);
    }
}

struct Parts {
    std::string_view *texts;
    int count;
};

Parts array_parts(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(0))
        raise_null_argument("key part");
    ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
    const Oid type = ARR_ELEMTYPE(array);
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(type, &length, &by_value, &align);
    Datum *elements;
    bool *nulls;
    Parts parts;
    deconstruct_array(array, type, length, by_value, align, &elements, &nulls, &parts.count);
    parts.texts = static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(parts.count, 1)));
    for (int i = 0; i < parts.count; i++) {
        if (nulls[i])
            raise_null_argument("key part");
        parts.texts[i] = part_text(type, elements[i]);
    }
    return parts;
}

Parts listed_parts(FunctionCallInfo fcinfo) {
    Parts parts{static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(PG_NARGS(), 1))), PG_NARGS()};
    for (int i = 0; i < parts.count; i++) {
        if (PG_ARGISNULL(i))
            raise_null_argument("key part");
        parts.texts[i] = part_text(get_fn_expr_argtype(fcinfo->flinfo, i), PG_GETARG_DATUM(i));
    }
    return parts;
}

Datum key_of(const Parts &parts) {
    if (parts.count == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a key needs at least one part")));
    PG_RETURN_TEXT_P(core_string([&] {
        core::CompositeKey key;
        for (int i = 0; i < parts.count; i++)
            key.append(parts.texts[i]);
        return std::move(key).take();
    }));
}

} // namespace

SQL_FUNCTION(idem_key) { return key_of(get_fn_expr_variadic(fcinfo->flinfo) ? array_parts(fcinfo) : listed_parts(fcinfo)); }

SQL_FUNCTION(idem_key_texts) { return key_of(array_parts(fcinfo)); }
