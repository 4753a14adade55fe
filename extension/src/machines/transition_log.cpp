#include "machines/transition_log.hpp"

#include "rows/target.hpp"
#include "rows/unique_key.hpp"
#include "server/own_settings.hpp"
#include "server/type_of_call.hpp"
#include "server/writable.hpp"
#include "storage/heap_table.hpp"

namespace idem {

namespace {

// Columns of the log, by attribute number.
struct LogColumn {
    enum : AttrNumber { target = 1, key, state_column, from_state, to_state, at, by, count = by };
};

constexpr Column kColumns[] = {
    {"target", TEXTOID},   {"key", JSONBOID},      {"state_column", TEXTOID}, {"from_state", TEXTOID, kNullable},
    {"to_state", TEXTOID}, {"at", TIMESTAMPTZOID}, {"by", TEXTOID},
};
static_assert(lengthof(kColumns) == LogColumn::count);

// A partition may number its columns differently, so they are found by name.
void describe_key(LoggedTable *logged, Relation table, Relation attached) {
    UniqueKey key;
    if (!find_main_key(attached, &key))
        ereport(ERROR, (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
                        errmsg("table \"%s\" no longer has a key to log transitions by", RelationGetRelationName(attached)),
                        errhint("Add a primary key, or attach the state machine again without a log."), errtable(attached)));
    logged->key = CreateTemplateTupleDesc(key.count);
    for (int i = 0; i < key.count; i++) {
        logged->columns[i] = column_number(table, column_name(attached, key.columns[i]));
        TupleDescCopyEntry(logged->key, i + 1, RelationGetDescr(table), logged->columns[i]);
    }
    logged->key->tdtypeid = RECORDOID;
    logged->key->tdtypmod = -1;
    BlessTupleDesc(logged->key);
}

Datum key_of_row(LoggedTable *logged, HeapTuple row, TupleDesc layout) {
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    for (int i = 0; i < logged->key->natts; i++)
        values[i] = heap_getattr(row, logged->columns[i], layout, &nulls[i]);
    HeapTuple key = heap_form_tuple(logged->key, values, nulls);
    return FunctionCall1(&logged->jsonb_of_key, heap_copy_tuple_as_datum(key, logged->key));
}

Datum text_datum(std::string_view bytes) { return PointerGetDatum(cstring_to_text_with_len(bytes.data(), bytes.size())); }

} // namespace

constinit Member transition_log = member_table("idem_transition_log", kColumns, InvalidAttrNumber, InvalidAttrNumber);

LoggedTable *logged_table(Relation table, Oid attached_table) {
    auto *logged = static_cast<LoggedTable *>(palloc0(sizeof(LoggedTable)));
    Relation attached = table_open(attached_table, AccessShareLock);
    constexpr Setting kNotTheCallers[] = {{"quote_all_identifiers", "off"}}; // readers look for the name
    with_settings(kNotTheCallers, [&] { logged->name = cstring_to_text(target_name(attached)); });
    describe_key(logged, table, attached);
    table_close(attached, NoLock);
    fmgr_info_cxt(F_TO_JSONB, &logged->jsonb_of_key, CurrentMemoryContext);
    set_argument_type(&logged->jsonb_of_key, RECORDOID);
    return logged;
}

void log_transition(LoggedTable *logged, HeapTuple row, TupleDesc layout, const char *column, std::string_view from,
                    std::string_view to) {
    prevent_unless_writable("a logged transition");
    Datum values[LogColumn::count];
    bool nulls[LogColumn::count] = {};
    values[LogColumn::target - 1] = PointerGetDatum(logged->name);
    values[LogColumn::key - 1] = key_of_row(logged, row, layout);
    values[LogColumn::state_column - 1] = text_datum(column);
    nulls[LogColumn::from_state - 1] = from.data() == nullptr;
    values[LogColumn::from_state - 1] = from.data() == nullptr ? Datum{0} : text_datum(from);
    values[LogColumn::to_state - 1] = text_datum(to);
    values[LogColumn::at - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
    values[LogColumn::by - 1] = text_datum(GetUserNameFromId(GetUserId(), false));
    const HeapTable log = open_heap(transition_log, RowExclusiveLock);
    insert_row(log, values, nulls);
    close_heap(log);
    CommandCounterIncrement();
}

} // namespace idem
