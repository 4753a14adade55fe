#include "machines/state_column.hpp"

#include "rows/target.hpp"
#include "server/compat.hpp"

#include <algorithm>

namespace idem {

namespace {

constexpr int kMaxNamedStates = 10;

bool is_string(Oid type) { return type == TEXTOID || type == VARCHAROID; }

[[noreturn]] void raise_wrong_type(Relation table, AttrNumber column) {
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("column \"%s\" of table \"%s\" cannot hold states", column_name(table, column),
                           RelationGetRelationName(table)),
                    errdetail("It is of type %s.", format_type_be(column_form(table, column)->atttypid)),
                    errhint("Use text, varchar, an enum, or a domain over one of them."), errtablecol(table, column)));
    pg_unreachable();
}

[[noreturn]] void raise_in_partition_key(Relation table, const char *column) {
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("column \"%s\" is part of the partition key of table \"%s\"", column, RelationGetRelationName(table)),
             errdetail("Every transition would move the row to another partition."), errtable(table)));
    pg_unreachable();
}

std::string_view label_of(Oid value) {
    HeapTuple label = SearchSysCache1(ENUMOID, ObjectIdGetDatum(value));
    if (!HeapTupleIsValid(label))
        elog(ERROR, "cache lookup failed for enum value %u", value);
    const char *name = pstrdup(NameStr(reinterpret_cast<Form_pg_enum>(GETSTRUCT(label))->enumlabel));
    ReleaseSysCache(label);
    return name;
}

Oid label_oid(Oid type, const char *label) {
    // No label is longer than a name.
    return strlen(label) >= NAMEDATALEN
               ? InvalidOid
               : GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid, ObjectIdGetDatum(type), CStringGetDatum(label));
}

// A machine's states as the column holds them, sorted: an enum's labels by OID, text by its bytes.
struct KnownStates {
    int count;
    Oid *labels;
    std::string_view *names;
};

KnownStates known_states(const StateColumn &column, const StateNames &states) {
    KnownStates known{states.count, static_cast<Oid *>(palloc(sizeof(Oid) * states.count)),
                      static_cast<std::string_view *>(palloc(sizeof(std::string_view) * states.count))};
    for (int i = 0; i < states.count; i++) {
        known.labels[i] = column.is_enum ? label_oid(column.type, states.names[i]) : InvalidOid;
        known.names[i] = states.names[i];
    }
    std::sort(known.labels, known.labels + known.count);
    std::sort(known.names, known.names + known.count);
    return known;
}

bool is_known(const KnownStates &known, const StateColumn &column, Datum value) {
    if (column.is_enum)
        return std::binary_search(known.labels, known.labels + known.count, DatumGetObjectId(value));
    return std::binary_search(known.names, known.names + known.count, state_name(column, value));
}

// Values of rows that are no states: the first ones found, each once, and whether there are more. A null view stands for NULL.
struct UnknownStates {
    int count;
    std::string_view values[kMaxNamedStates];
    bool has_more;
};

void note_unknown_state(UnknownStates *unknown, std::string_view value, MemoryContext memory) {
    for (int i = 0; i < unknown->count; i++)
        if (unknown->values[i] == value && (unknown->values[i].data() == nullptr) == (value.data() == nullptr))
            return;
    unknown->has_more = unknown->count == kMaxNamedStates;
    if (unknown->has_more)
        return;
    if (value.data() != nullptr) {
        auto *copy = static_cast<char *>(MemoryContextAlloc(memory, value.size() + 1));
        memcpy(copy, value.data(), value.size());
        value = {copy, value.size()};
    }
    unknown->values[unknown->count++] = value;
}

// Reads the table itself, without a query: privileges, policies and code of any role have no influence on the answer.
void find_unknown_states(Relation table, const StateColumn &column, const KnownStates &known, Snapshot snapshot,
                         UnknownStates *unknown) {
    const MemoryContext caller = CurrentMemoryContext;
    MemoryContext row = AllocSetContextCreate(caller, "idem state of a row", ALLOCSET_SMALL_SIZES);
    TupleTableSlot *slot = table_slot_create(table, nullptr);
    TableScanDesc scan = compat_table_beginscan(table, snapshot);
    while (!unknown->has_more && table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
        bool is_null;
        const Datum value = slot_getattr(slot, column.number, &is_null);
        MemoryContextSwitchTo(row);
        if (is_null || !is_known(known, column, value))
            note_unknown_state(unknown, is_null ? std::string_view() : state_name(column, value), caller);
        MemoryContextSwitchTo(caller);
        MemoryContextReset(row);
    }
    table_endscan(scan);
    ExecDropSingleTupleTableSlot(slot);
    MemoryContextDelete(row);
}

// The table, and the partitions of a partitioned one at all levels. Tables that inherit otherwise have guards of their own.
List *parts_of(Relation table) {
    const Oid oid = RelationGetRelid(table);
    return table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? find_all_inheritors(oid, NoLock, nullptr)
                                                               : list_make1_oid(oid);
}

const char *named_states(const UnknownStates &unknown) {
    StringInfoData list;
    initStringInfo(&list);
    for (int i = 0; i < unknown.count; i++) {
        const std::string_view state = unknown.values[i];
        appendStringInfoString(&list, i > 0 ? ", " : "");
        if (state.data() == nullptr)
            appendStringInfoString(&list, "null");
        else
            appendStringInfo(&list, "\"%.*s\"", static_cast<int>(state.size()), state.data());
    }
    if (unknown.has_more)
        appendStringInfoString(&list, " and others");
    return list.data;
}

} // namespace

bool holds_states(Relation table, AttrNumber column) {
    const Oid type = getBaseType(column_form(table, column)->atttypid);
    return is_string(type) || type_is_enum(type);
}

StateColumn state_column(Relation table, const char *name) {
    StateColumn column;
    column.number = column_number(table, name);
    column.type = column_form(table, column.number)->atttypid;
    column.is_enum = false;
    // Guards call this for every statement. The usual types need no lookup in the catalog.
    if (is_string(column.type))
        return column;
    column.type = getBaseType(column.type);
    column.is_enum = type_is_enum(column.type);
    if (!column.is_enum && !is_string(column.type))
        raise_wrong_type(table, column.number);
    return column;
}

std::string_view state_name(const StateColumn &column, Datum value) {
    if (column.is_enum)
        return label_of(DatumGetObjectId(value));
    const struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
    return {VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text)};
}

AttrNumber guarded_column(Relation table, const char *name) {
    const AttrNumber number = find_column(table, name);
    if (number == InvalidAttrNumber)
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_COLUMN),
                 errmsg("state column \"%s\" of table \"%s\" is no longer there", name, RelationGetRelationName(table)),
                 errhint("If it was renamed, use idem_machine_detach with the old name and idem_machine_attach with the new."),
                 errtable(table)));
    return number;
}

void check_state_column(Relation table, const StateColumn &column) {
    const char *name = column_name(table, column.number);
    const Oid collation = column_form(table, column.number)->attcollation;
    if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("column \"%s\" of table \"%s\" has a nondeterministic collation", name, RelationGetRelationName(table)),
                 errdetail("Different states would be equal."), errtablecol(table, column.number)));
    if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return;
    ListCell *cell;
    foreach (cell, find_all_inheritors(RelationGetRelid(table), NoLock, nullptr)) {
        Relation part = table_open(lfirst_oid(cell), AccessShareLock);
        if (part->rd_rel->relkind == RELKIND_PARTITIONED_TABLE) {
            const int number = get_attnum(RelationGetRelid(part), name) - FirstLowInvalidHeapAttributeNumber;
            if (has_partition_attrs(part, bms_make_singleton(number), nullptr))
                raise_in_partition_key(part, name);
        }
        table_close(part, NoLock);
    }
}

void check_labels(Relation table, const StateColumn &column, const char *machine, const StateNames &states) {
    for (int i = 0; column.is_enum && i < states.count; i++)
        if (!OidIsValid(label_oid(column.type, states.names[i])))
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("type %s lacks the state \"%s\" of state machine \"%s\"", format_type_be(column.type),
                                   states.names[i], machine),
                            errhint("Add it with ALTER TYPE … ADD VALUE."), errtablecol(table, column.number)));
}

void check_rows(Relation table, const StateColumn &column, const char *machine, const StateNames &states, bool shows_values) {
    const char *name = column_name(table, column.number);
    const KnownStates known = known_states(column, states);
    UnknownStates unknown{};
    CommandCounterIncrement(); // rows that the running statement has written are checked, too
    Snapshot now = RegisterSnapshot(GetLatestSnapshot());
    ListCell *cell;
    foreach (cell, parts_of(table)) {
        Relation part = table_open(lfirst_oid(cell), NoLock);
        if (part->rd_rel->relkind == RELKIND_RELATION)
            find_unknown_states(part, {column_number(part, name), column.type, column.is_enum}, known, now, &unknown);
        table_close(part, NoLock);
    }
    UnregisterSnapshot(now);
    if (unknown.count > 0)
        ereport(ERROR, (errcode(ERRCODE_CHECK_VIOLATION),
                        errmsg("table \"%s\" has rows whose state is not in state machine \"%s\"",
                               RelationGetRelationName(table), machine),
                        shows_values ? errdetail("Column \"%s\" holds: %s.", name, named_states(unknown)) : 0,
                        errtablecol(table, column.number)));
}

} // namespace idem
