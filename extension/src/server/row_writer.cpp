#include "server/row_writer.hpp"

#include "server/type_of_call.hpp"

namespace idem {

namespace {

// The form in which values of a type are written, which is that of to_jsonb. Only `other` calls to_jsonb.
enum class Form { int2, int4, int8, numeric, boolean, string, jsonb, date, timestamp, timestamptz, uuid, other };

// The limit for a jsonb string. to_jsonb raises an error for a longer one.
constexpr Size kMaxStringBytes = JENTRY_OFFLENMASK;

Form form_of(Oid type) {
    switch (type) {
    case INT2OID:
        return Form::int2;
    case INT4OID:
        return Form::int4;
    case INT8OID:
        return Form::int8;
    case NUMERICOID:
        return Form::numeric;
    case BOOLOID:
        return Form::boolean;
    case TEXTOID:
    case VARCHAROID:
    case BPCHAROID:
        return Form::string;
    case JSONBOID:
        return Form::jsonb;
    case DATEOID:
        return Form::date;
    case TIMESTAMPOID:
        return Form::timestamp;
    case TIMESTAMPTZOID:
        return Form::timestamptz;
    case UUIDOID:
        return Form::uuid;
    default:
        return Form::other;
    }
}

JsonbValue string_value(const char *bytes, Size length) {
    JsonbValue value;
    value.type = jbvString;
    value.val.string.val = const_cast<char *>(bytes);
    value.val.string.len = static_cast<int>(length);
    return value;
}

JsonbValue numeric_value(Numeric number) {
    if (numeric_is_nan(number) || numeric_is_inf(number)) {
        const char *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
        return string_value(text, strlen(text));
    }
    JsonbValue value;
    value.type = jbvNumeric;
    value.val.numeric = number;
    return value;
}

JsonbValue time_value(Datum time, Oid type) {
    const char *text = JsonEncodeDateTime(nullptr, time, type, nullptr);
    return string_value(text, strlen(text));
}

JsonbValue jsonb_value(Jsonb *json) {
    JsonbValue value;
    if (JB_ROOT_IS_SCALAR(json)) {
        (void)JsonbExtractScalar(&json->root, &value);
        return value;
    }
    value.type = jbvBinary;
    value.val.binary.data = &json->root;
    value.val.binary.len = VARSIZE(json) - VARHDRSZ;
    return value;
}

} // namespace

struct WrittenColumn {
    int position; // among the columns of the row
    NameData name;
    int name_length;
    Form form;
    FmgrInfo to_jsonb;
};

static JsonbValue name_of(const WrittenColumn &column) { return string_value(NameStr(column.name), column.name_length); }

// The order of an object's members in a jsonb.
static int compare_names(const void *left, const void *right) {
    const auto *a = static_cast<const WrittenColumn *>(left), *b = static_cast<const WrittenColumn *>(right);
    return a->name_length != b->name_length ? a->name_length - b->name_length
                                            : memcmp(NameStr(a->name), NameStr(b->name), a->name_length);
}

static JsonbValue column_value(const WrittenColumn &column, Datum datum, bool is_null) {
    JsonbValue value;
    value.type = jbvNull;
    if (is_null)
        return value;
    switch (column.form) {
    case Form::int2:
        return numeric_value(int64_to_numeric(DatumGetInt16(datum)));
    case Form::int4:
        return numeric_value(int64_to_numeric(DatumGetInt32(datum)));
    case Form::int8:
        return numeric_value(int64_to_numeric(DatumGetInt64(datum)));
    case Form::numeric:
        return numeric_value(DatumGetNumeric(datum));
    case Form::boolean:
        value.type = jbvBool;
        value.val.boolean = DatumGetBool(datum);
        return value;
    case Form::string: {
        const text *string = DatumGetTextPP(datum);
        if (VARSIZE_ANY_EXHDR(string) <= kMaxStringBytes)
            return string_value(VARDATA_ANY(string), VARSIZE_ANY_EXHDR(string));
        break;
    }
    case Form::jsonb:
        return jsonb_value(DatumGetJsonbP(datum));
    case Form::date:
        return time_value(datum, DATEOID);
    case Form::timestamp:
        return time_value(datum, TIMESTAMPOID);
    case Form::timestamptz:
        return time_value(datum, TIMESTAMPTZOID);
    case Form::uuid: {
        const char *text = DatumGetCString(DirectFunctionCall1(uuid_out, datum));
        return string_value(text, strlen(text));
    }
    case Form::other:
        break;
    }
    auto *to_jsonb = const_cast<FmgrInfo *>(&column.to_jsonb);
    return jsonb_value(DatumGetJsonbP(FunctionCall1(to_jsonb, datum)));
}

void prepare_writer(RowWriter *writer, TupleDesc row, int first, MemoryContext memory) {
    const MemoryContext caller = MemoryContextSwitchTo(memory);
    writer->count = row->natts - first;
    auto *columns = static_cast<WrittenColumn *>(palloc0(sizeof(WrittenColumn) * Max(writer->count, 1)));
    for (int i = 0; i < writer->count; i++) {
        Form_pg_attribute from = TupleDescAttr(row, first + i);
        WrittenColumn *column = &columns[i];
        column->position = first + i;
        column->name = from->attname;
        column->name_length = static_cast<int>(strlen(NameStr(from->attname)));
        column->form = form_of(getBaseType(from->atttypid));
        fmgr_info_cxt(F_TO_JSONB, &column->to_jsonb, memory);
        set_argument_type(&column->to_jsonb, from->atttypid);
    }
    qsort(columns, writer->count, sizeof(WrittenColumn), compare_names);
    writer->columns = columns; // set last, so that an error leaves the writer unprepared
    MemoryContextSwitchTo(caller);
}

static JsonbPair *members_of(const RowWriter &writer, const Datum *values, const bool *nulls) {
    auto *members = static_cast<JsonbPair *>(palloc(sizeof(JsonbPair) * Max(writer.count, 1)));
    for (int i = 0; i < writer.count; i++) {
        const WrittenColumn &column = writer.columns[i];
        members[i].key = name_of(column);
        members[i].value = column_value(column, values[column.position], nulls[column.position]);
    }
    return members;
}

static void push_members(JsonBuilder *builder, const JsonbPair *members, int count) {
    builder->begin_object();
    for (int i = 0; i < count; i++)
        builder->add_member(members[i].key, members[i].value);
    builder->end_object();
}

void push_row(JsonBuilder *builder, const RowWriter &writer, const Datum *values, const bool *nulls) {
    push_members(builder, members_of(writer, values, nulls), writer.count);
}

Jsonb *write_row(const RowWriter &writer, const Datum *values, const bool *nulls) {
    JsonbPair *members = members_of(writer, values, nulls);
    // A member that is a whole document must be pushed. Scalar members, which are in order, form an object as they are.
    for (int i = 0; i < writer.count; i++)
        if (members[i].value.type == jbvBinary) {
            JsonBuilder builder;
            push_members(&builder, members, writer.count);
            return builder.document();
        }
    JsonbValue object;
    object.type = jbvObject;
    object.val.object.nPairs = writer.count;
    object.val.object.pairs = members;
    return JsonbValueToJsonb(&object);
}

} // namespace idem
