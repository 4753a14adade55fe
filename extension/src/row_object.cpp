#include "row_object.hpp"

#include "arguments.hpp"
#include "type_of_call.hpp"

namespace idem {

namespace {

bool is_nested(Oid column_type) {
    const Oid type = getBaseType(column_type), element = get_base_element_type(type);
    return type_is_rowtype(OidIsValid(element) ? element : type);
}

} // namespace

RowObject row_object(Jsonb *json, const char *argument) {
    if (!JB_ROOT_IS_OBJECT(json))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be a JSON object", argument),
                        errhint("Give column names and values, such as '{\"id\": 7}'.")));
    RowObject object{json, 0, static_cast<const char **>(palloc(sizeof(char *) * Max(JB_ROOT_COUNT(json), 1u)))};
    JsonbIterator *members = JsonbIteratorInit(&json->root);
    JsonbValue member;
    for (auto token = JsonbIteratorNext(&members, &member, true); token != WJB_DONE;
         token = JsonbIteratorNext(&members, &member, true))
        if (token == WJB_KEY)
            object.names[object.count++] = pnstrdup(member.val.string.val, member.val.string.len);
    return object;
}

RowObject row_object_argument(FunctionCallInfo fcinfo, int arg, const char *argument) {
    if (PG_ARGISNULL(arg))
        raise_null_argument(argument);
    return row_object(PG_GETARG_JSONB_P(arg), argument);
}

void prepare_reader(RowReader *reader, Relation table, const RowObject &object, MemoryContext memory) {
    const MemoryContext caller = MemoryContextSwitchTo(memory);
    reader->columns = {object.count, static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * Max(object.count, 1)))};
    reader->record = CreateTemplateTupleDesc(object.count);
    for (int i = 0; i < object.count; i++) {
        const AttrNumber number = column_number(table, object.names[i]);
        reader->columns.columns[i] = number;
        reader->has_nested_types = reader->has_nested_types || is_nested(column_form(table, number)->atttypid);
        TupleDescCopyEntry(reader->record, i + 1, RelationGetDescr(table), number);
    }
    reader->record = BlessTupleDesc(reader->record);
    auto *nulls = static_cast<bool *>(palloc(Max(object.count, 1)));
    memset(nulls, true, Max(object.count, 1));
    auto *values = static_cast<Datum *>(palloc0(sizeof(Datum) * Max(object.count, 1)));
    HeapTuple empty = heap_form_tuple(reader->record, values, nulls);
    reader->empty = DatumGetHeapTupleHeader(heap_copy_tuple_as_datum(empty, reader->record));
    fmgr_info_cxt(F_JSONB_POPULATE_RECORD, &reader->populate, memory);
    set_argument_type(&reader->populate, RECORDOID);
    MemoryContextSwitchTo(caller);
}

void read_values(RowReader *reader, const RowObject &object, Datum *values, char *nulls) {
    if (object.count == 0)
        return;
    FmgrInfo fresh;
    FmgrInfo *populate = &reader->populate;
    if (reader->has_nested_types) {
        fmgr_info_copy(&fresh, populate, CurrentMemoryContext);
        populate = &fresh;
    }
    const Datum made = FunctionCall2(populate, PointerGetDatum(reader->empty), PointerGetDatum(object.json));
    HeapTupleHeader header = DatumGetHeapTupleHeader(made);
    HeapTupleData tuple{};
    tuple.t_len = HeapTupleHeaderGetDatumLength(header);
    tuple.t_data = header;
    auto *is_null = static_cast<bool *>(palloc(object.count));
    heap_deform_tuple(&tuple, reader->record, values, is_null);
    for (int i = 0; i < object.count; i++)
        nulls[i] = is_null[i] ? 'n' : ' ';
}

void refuse_nulls(const RowReader &reader, const char *nulls, const char *argument) {
    for (int i = 0; i < reader.columns.count; i++)
        if (nulls[i] == 'n')
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("column \"%s\" of %s must not be null", NameStr(TupleDescAttr(reader.record, i)->attname),
                                   argument)));
}

} // namespace idem
