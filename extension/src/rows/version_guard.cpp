// optimistic_enable, optimistic_disable, and the trigger that they create and drop.
#include "rows/version_guard.hpp"

#include "rows/row_name.hpp"
#include "server/arguments.hpp"
#include "server/errors.hpp"
#include "server/extension.hpp"
#include "server/writable.hpp"
#include "storage/internal_sql.hpp"

namespace {

using namespace idem;

// Triggers fire in the order of their names: this one sees the row after the others.
constexpr const char *kTriggerName = "zz_idem_version_guard";

// A trigger with the function that was created by hand, and does not fire for every UPDATE, is no guard.
bool is_guard(const Trigger &trigger, Oid function) {
    return trigger.tgfoid == function && trigger.tgnargs == 1 && trigger.tgnattr == 0 && trigger.tgqual == nullptr &&
           TRIGGER_FOR_ROW(trigger.tgtype) && TRIGGER_FOR_BEFORE(trigger.tgtype) && TRIGGER_FOR_UPDATE(trigger.tgtype);
}

constexpr const char *kVersionColumn = "version"; // unless another one is given

struct Guard {
    const char *trigger; // its name; nullptr: there is no guard
    const char *column;
};

// Works on a copy, as any call of the server may rebuild the triggers in the relation cache.
Guard guard_of(Relation table) {
    const TriggerDesc *triggers = CopyTriggerDesc(table->trigdesc);
    const Oid function = member_trigger_function("idem_version_guard");
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
        if (is_guard(triggers->triggers[i], function))
            return {triggers->triggers[i].tgname, triggers->triggers[i].tgargs[0]};
    return {nullptr, nullptr};
}

bool is_integer(Oid type) { return type == INT2OID || type == INT4OID || type == INT8OID; }

void check_version_column(Relation table, const char *name) {
    const AttrNumber number = column_number(table, name);
    Form_pg_attribute column = column_form(table, number);
    // The constraints of a domain would not be checked for the versions that the trigger sets.
    if (!is_integer(column->atttypid))
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("column \"%s\" of table \"%s\" is of type %s", name, RelationGetRelationName(table),
                               format_type_be(column->atttypid)),
                        errdetail("A version is a smallint, integer or bigint."), errtablecol(table, number)));
    if (column->attgenerated != '\0' || column->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
        ereport(ERROR, (errcode(ERRCODE_GENERATED_ALWAYS),
                        errmsg("column \"%s\" of table \"%s\" is always generated", name, RelationGetRelationName(table)),
                        errtablecol(table, number)));
    if (!column->attnotnull)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("column \"%s\" of table \"%s\" allows nulls", name, RelationGetRelationName(table)),
                        errhint("Run ALTER TABLE %s ALTER COLUMN %s SET NOT NULL.", target_name(table), quote_identifier(name)),
                        errtablecol(table, number)));
}

struct Version {
    int64 number;
    bool is_null;
};

int64 integer_value(Datum value, Oid type) {
    if (type == INT8OID)
        return DatumGetInt64(value);
    return type == INT4OID ? DatumGetInt32(value) : DatumGetInt16(value);
}

Version version_of(HeapTuple row, TupleDesc layout, AttrNumber column, Oid type) {
    Version version{};
    const Datum value = heap_getattr(row, column, layout, &version.is_null);
    if (!version.is_null)
        version.number = integer_value(value, type);
    return version;
}

int64 most_of(Oid type) {
    if (type == INT8OID)
        return PG_INT64_MAX;
    return type == INT4OID ? PG_INT32_MAX : PG_INT16_MAX;
}

[[noreturn]] void raise_stale(Relation table, AttrNumber column, HeapTuple row, Version before, Version after) {
    ereport(ERROR, (errcode(ERRCODE_IDEM_STALE_VERSION),
                    errmsg("stale version of a row of table \"%s\"", RelationGetRelationName(table)),
                    after.is_null ? errdetail("The row has version %lld; the update sets it to null.%s",
                                              (long long)before.number, row_name(table, row))
                                  : errdetail("The row has version %lld; the update sets it to %lld.%s",
                                              (long long)before.number, (long long)after.number, row_name(table, row)),
                    errhint("Read the row again, and repeat the change on what it holds now."), errtablecol(table, column)));
    pg_unreachable();
}

[[noreturn]] void raise_no_column(Relation table, const char *name) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                    errmsg("version column \"%s\" of table \"%s\" does not exist", name, RelationGetRelationName(table)),
                    errhint("After renaming it, call optimistic_disable and optimistic_enable."), errtable(table)));
    pg_unreachable();
}

Datum datum_of(int64 number, Oid type) {
    if (type == INT8OID)
        return Int64GetDatum(number);
    return type == INT4OID ? Int32GetDatum(static_cast<int32>(number)) : Int16GetDatum(static_cast<int16>(number));
}

HeapTuple guard_update(const TriggerData &call) {
    Relation table = call.tg_relation;
    TupleDesc layout = RelationGetDescr(table);
    const char *name = call.tg_trigger->tgargs[0];
    const int found = SPI_fnumber(layout, name);
    if (found <= 0)
        raise_no_column(table, name);
    const auto column = static_cast<AttrNumber>(found);
    const Oid type = column_form(table, column)->atttypid;
    if (!is_integer(type))
        check_version_column(table, name);
    const Version before = version_of(call.tg_trigtuple, layout, column, type);
    const Version after = version_of(call.tg_newtuple, layout, column, type);
    if (before.is_null)
        check_version_column(table, name);
    if (after.is_null ||
        (after.number != before.number && (before.number == PG_INT64_MAX || after.number != before.number + 1)))
        raise_stale(table, column, call.tg_trigtuple, before, after);
    if (after.number != before.number)
        return call.tg_newtuple;
    if (before.number == most_of(type))
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                        errmsg("version column \"%s\" of table \"%s\" is at its maximum", name, RelationGetRelationName(table)),
                        errtablecol(table, column)));
    int columns[] = {column};
    Datum values[] = {datum_of(before.number + 1, type)};
    bool nulls[] = {false};
    return heap_modify_tuple_by_cols(call.tg_newtuple, layout, 1, columns, values, nulls);
}

} // namespace

namespace idem {

const char *guarded_version_column(Relation table) { return guard_of(table).column; }

const char *required_version_column(Relation table) {
    const char *column = guarded_version_column(table);
    if (column == nullptr)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table \"%s\" has no version guard", RelationGetRelationName(table)),
                        errhint("Call optimistic_enable(%s) once.", quote_literal_cstr(target_name(table))), errtable(table)));
    return column;
}

} // namespace idem

SQL_FUNCTION(optimistic_enable) {
    prevent_unless_writable("optimistic_enable()");
    const char *column = PG_ARGISNULL(1) ? kVersionColumn : NameStr(*PG_GETARG_NAME(1));
    const bool add = !PG_ARGISNULL(0) && get_attnum(PG_GETARG_OID(0), column) == InvalidAttrNumber;
    Relation table = open_own_target(fcinfo, 0, add ? AccessExclusiveLock : ShareRowExclusiveLock);
    const char *name = target_name(table), *enabled = guarded_version_column(table);
    if (enabled != nullptr && strcmp(enabled, column) != 0)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("table \"%s\" already has a version guard on column \"%s\"", RelationGetRelationName(table), enabled),
                 errhint("Call optimistic_disable(%s) first.", quote_literal_cstr(name)), errtable(table)));
    if (enabled == nullptr && !add)
        check_version_column(table, column);
    if (enabled == nullptr)
        warn_of_children(table, "optimistic_enable");
    relation_close(table, NoLock);
    if (enabled != nullptr)
        PG_RETURN_VOID();
    if (add)
        run_as_caller(
            psprintf("ALTER TABLE %s ADD COLUMN %s pg_catalog.int8 NOT NULL DEFAULT 1", name, quote_identifier(column)));
    run_as_caller(psprintf("CREATE TRIGGER %s BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s(%s)", kTriggerName, name,
                           qualified_name("idem_version_guard"), quote_literal_cstr(column)));
    PG_RETURN_VOID();
}

SQL_FUNCTION(optimistic_disable) {
    prevent_unless_writable("optimistic_disable()");
    Relation table = open_own_target(fcinfo, 0, AccessExclusiveLock);
    (void)required_version_column(table);
    const char *drop = psprintf("DROP TRIGGER %s ON %s", quote_identifier(guard_of(table).trigger), target_name(table));
    relation_close(table, NoLock);
    run_as_caller(drop);
    PG_RETURN_VOID();
}

// BEFORE UPDATE, for each row. Argument: the version column.
SQL_FUNCTION(idem_version_guard) {
    auto *call = reinterpret_cast<TriggerData *>(fcinfo->context);
    if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(call->tg_event) || !TRIGGER_FIRED_FOR_ROW(call->tg_event) ||
        !TRIGGER_FIRED_BY_UPDATE(call->tg_event) || call->tg_trigger->tgnargs != 1)
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function \"%s\" is the trigger that optimistic_enable makes", "idem_version_guard")));
    return PointerGetDatum(guard_update(*call));
}
