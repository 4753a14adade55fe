#include "state_column.hpp"

#include "other_role.hpp"
#include "target.hpp"

namespace idem {

namespace {

constexpr int kMostStatesNamed = 10;

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
    // A longer one than a name can be is no label.
    return strlen(label) >= NAMEDATALEN
               ? InvalidOid
               : GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid, ObjectIdGetDatum(type), CStringGetDatum(label));
}

// The states as values of the column's type, for = ANY.
Datum state_array(const StateColumn &column, const StateNames &states) {
    auto *values = static_cast<Datum *>(palloc(sizeof(Datum) * states.count));
    for (int i = 0; i < states.count; i++)
        values[i] =
            column.is_enum ? ObjectIdGetDatum(label_oid(column.type, states.names[i])) : CStringGetTextDatum(states.names[i]);
    return PointerGetDatum(column.is_enum ? construct_array(values, states.count, column.type, sizeof(Oid), true, TYPALIGN_INT)
                                          : construct_array(values, states.count, TEXTOID, -1, false, TYPALIGN_INT));
}

// Runs the statement as the table's owner, past row-level security, with a snapshot of now: the answer is about all rows.
void look_at_all_rows(const char *statement, Oid parameter_type, Datum parameter, Oid owner) {
    as_role(owner, [&] {
        SPIPlanPtr plan = SPI_prepare(statement, 1, &parameter_type);
        if (plan == nullptr)
            elog(ERROR, "could not prepare \"%s\": %s", statement, SPI_result_code_string(SPI_result));
        CommandCounterIncrement(); // what the running statement has written so far counts too
        const int status =
            SPI_execute_snapshot(plan, &parameter, nullptr, GetLatestSnapshot(), InvalidSnapshot, true, false, 0);
        if (status != SPI_OK_SELECT)
            elog(ERROR, "internal statement failed: %s", SPI_result_code_string(status));
    });
}

// The first column of the result, for a message.
const char *named_states() {
    StringInfoData list;
    initStringInfo(&list);
    for (uint64 i = 0; i < SPI_processed && i < kMostStatesNamed; i++) {
        const char *state = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
        appendStringInfoString(&list, i > 0 ? ", " : "");
        appendStringInfo(&list, state == nullptr ? "null" : "\"%s\"", state);
    }
    if (SPI_processed > kMostStatesNamed)
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
    // Guards ask for every statement: the usual types need no look into the catalog.
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

void check_rows(Relation table, const StateColumn &column, const char *machine, const StateNames &states, bool may_tell) {
    refuse_foreign_partitions(table);
    StringInfoData value;
    initStringInfo(&value);
    append_column(&value, table, column.number);
    append_cast_to_base(&value, table, column.number);
    StringInfoData statement;
    initStringInfo(&statement);
    appendStringInfo(&statement, "SELECT DISTINCT %s FROM ", value.data);
    append_target(&statement, table);
    appendStringInfo(&statement, " WHERE (%s OPERATOR(pg_catalog.=) ANY ($1)) IS NOT TRUE LIMIT %d", value.data,
                     kMostStatesNamed + 1);
    const Datum array = state_array(column, states);
    SPI_connect();
    look_at_all_rows(statement.data, column.is_enum ? get_array_type(column.type) : TEXTARRAYOID, array,
                     table->rd_rel->relowner);
    if (SPI_processed > 0)
        ereport(ERROR, (errcode(ERRCODE_CHECK_VIOLATION),
                        errmsg("table \"%s\" has rows whose state is not in state machine \"%s\"",
                               RelationGetRelationName(table), machine),
                        may_tell ? errdetail("Column \"%s\" holds: %s.", column_name(table, column.number), named_states()) : 0,
                        errtablecol(table, column.number)));
    SPI_finish();
}

} // namespace idem
