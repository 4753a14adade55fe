#include "rows/row_object.hpp"

#include "server/arguments.hpp"
#include "server/type_of_call.hpp"

namespace idem {

namespace {

// The types that jsonb_populate_record remembers are complete only after a call of it that succeeded. Until then they belong to
// the call: an error frees them with the caller's memory. A call within the call, as by a domain's check, has types of its own.
struct TypeMemory {
    FmgrInfo populate;
    MemoryContext memory;
};

TypeMemory new_type_memory(const RowMaker &maker) {
    TypeMemory types{maker.populate, AllocSetContextCreate(CurrentMemoryContext, "idem row types", ALLOCSET_SMALL_SIZES)};
    types.populate.fn_extra = nullptr;
    types.populate.fn_mcxt = types.memory;
    return types;
}

TypeMemory take_type_memory(RowMaker *maker) {
    if (maker->type_memory == nullptr)
        return new_type_memory(*maker);
    const TypeMemory types{maker->populate, maker->type_memory};
    MemoryContextSetParent(types.memory, CurrentMemoryContext);
    maker->populate.fn_extra = nullptr;
    maker->type_memory = nullptr;
    return types;
}

void keep_type_memory(RowMaker *maker, const TypeMemory &types) {
    if (maker->type_memory != nullptr) {
        MemoryContextDelete(types.memory);
        return;
    }
    MemoryContextSetParent(types.memory, maker->memory);
    maker->type_memory = types.memory;
    maker->populate = types.populate;
}

HeapTupleHeader make_row(RowMaker *maker, const RowObject &object, bool keeps_types) {
    TypeMemory types = keeps_types ? take_type_memory(maker) : new_type_memory(*maker);
    const Datum row = FunctionCall2(&types.populate, PointerGetDatum(maker->empty), PointerGetDatum(object.json));
    if (keeps_types)
        keep_type_memory(maker, types);
    else
        MemoryContextDelete(types.memory);
    return DatumGetHeapTupleHeader(row);
}

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

void prepare_maker(RowMaker *maker, Relation table, MemoryContext memory) {
    const MemoryContext caller = MemoryContextSwitchTo(memory);
    maker->memory = memory;
    maker->type_memory = nullptr;
    const Oid type = table->rd_rel->reltype;
    maker->layout = CreateTupleDescCopy(RelationGetDescr(table));
    const int count = Max(maker->layout->natts, 1);
    auto *values = static_cast<Datum *>(palloc0(sizeof(Datum) * count));
    auto *nulls = static_cast<bool *>(palloc(count));
    memset(nulls, true, count);
    HeapTuple empty = heap_form_tuple(maker->layout, values, nulls);
    maker->empty = DatumGetHeapTupleHeader(heap_copy_tuple_as_datum(empty, maker->layout));
    fmgr_info_cxt(F_JSONB_POPULATE_RECORD, &maker->populate, memory);
    set_argument_type(&maker->populate, type);
    heap_freetuple(empty);
    pfree(values);
    pfree(nulls);
    MemoryContextSwitchTo(caller);
}

void prepare_reader(RowReader *reader, RowMaker *maker, Relation table, const RowObject &object, MemoryContext memory) {
    reader->maker = maker;
    reader->columns = {object.count,
                       static_cast<AttrNumber *>(MemoryContextAlloc(memory, sizeof(AttrNumber) * Max(object.count, 1)))};
    for (int i = 0; i < object.count; i++) {
        const AttrNumber number = column_number(table, object.names[i]);
        reader->columns.columns[i] = number;
        reader->has_nested_types = reader->has_nested_types || is_nested(column_form(table, number)->atttypid);
    }
}

void read_values(const RowReader &reader, const RowObject &object, Datum *values, char *nulls) {
    if (object.count == 0)
        return;
    HeapTupleHeader header = make_row(reader.maker, object, !reader.has_nested_types);
    HeapTupleData tuple{};
    tuple.t_len = HeapTupleHeaderGetDatumLength(header);
    tuple.t_data = header;
    const int count = reader.maker->layout->natts;
    auto *row = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *is_null = static_cast<bool *>(palloc(count));
    heap_deform_tuple(&tuple, reader.maker->layout, row, is_null);
    for (int i = 0; i < object.count; i++) {
        const int place = reader.columns.columns[i] - 1;
        values[i] = row[place];
        nulls[i] = is_null[place] ? 'n' : ' ';
    }
}

void refuse_nulls(const RowReader &reader, const char *nulls, const char *argument) {
    for (int i = 0; i < reader.columns.count; i++)
        if (nulls[i] == 'n')
            ereport(ERROR,
                    (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                     errmsg("column \"%s\" of %s must not be null", NameStr(read_column(reader, i)->attname), argument)));
}

} // namespace idem
