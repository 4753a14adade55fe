// idem_machine_attach, idem_machine_detach.
#include "machine_attach.hpp"

#include "arguments.hpp"
#include "catalog.hpp"
#include "internal_sql.hpp"
#include "key_store.hpp"
#include "state_column.hpp"
#include "target.hpp"
#include "unique_key.hpp"

namespace idem {

namespace {

bool is_guard(const Trigger &trigger, Oid function) {
    return trigger.tgfoid == function && trigger.tgnargs == GuardArguments::count;
}

// Calls `visit` for each guard on the table, until it says true. On a copy: the relation cache may build its own anew whenever
// the server is called.
template <typename Visit> bool any_guard(Relation table, Visit visit) {
    const TriggerDesc *triggers = CopyTriggerDesc(table->trigdesc);
    if (triggers == nullptr)
        return false;
    const Oid function = member_trigger_function("idem_state_guard");
    for (int i = 0; i < triggers->numtriggers; i++)
        if (is_guard(triggers->triggers[i], function) && visit(triggers->triggers[i]))
            return true;
    return false;
}

bool has_own_guard(Relation table, const char *column) {
    return any_guard(table, [&](const Trigger &trigger) {
        return !trigger.tgisclone && strcmp(trigger.tgargs[GuardArguments::column], column) == 0;
    });
}

// The zero-terminated arguments of a row of pg_trigger.
const char *argument_of(HeapTuple trigger, TupleDesc layout, int wanted) {
    bool is_null;
    const Datum arguments = heap_getattr(trigger, Anum_pg_trigger_tgargs, layout, &is_null);
    const char *argument = VARDATA_ANY(DatumGetByteaPCopy(arguments));
    for (int i = 0; i < wanted; i++)
        argument += strlen(argument) + 1;
    return argument;
}

int compare_attachments(const ListCell *left, const ListCell *right) {
    const auto *a = static_cast<const Attachment *>(lfirst(left)), *b = static_cast<const Attachment *>(lfirst(right));
    return a->table != b->table ? (a->table < b->table ? -1 : 1) : strcmp(a->column, b->column);
}

bool same_attachment(const Attachment &a, const Attachment &b) { return a.table == b.table && strcmp(a.column, b.column) == 0; }

List *without_duplicates(List *sorted) {
    List *unique = NIL;
    ListCell *cell;
    foreach (cell, sorted) {
        auto *attachment = static_cast<Attachment *>(lfirst(cell));
        if (unique == NIL || !same_attachment(*static_cast<Attachment *>(llast(unique)), *attachment))
            unique = lappend(unique, attachment);
    }
    return unique;
}

} // namespace

void raise_renamed_column(Relation table, const char *column) {
    ereport(ERROR,
            (errcode(ERRCODE_UNDEFINED_COLUMN),
             errmsg("state column \"%s\" of table \"%s\" is no longer there", column, RelationGetRelationName(table)),
             errhint("If it was renamed, use idem_machine_detach with the old name and idem_machine_attach with the new."),
             errtable(table)));
    pg_unreachable();
}

List *attachments_of(const char *machine) {
    List *found = NIL;
    Relation triggers = table_open(TriggerRelationId, AccessShareLock);
    ScanKeyData entry;
    ScanKeyInit(&entry, Anum_pg_trigger_tgfoid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(member_trigger_function("idem_state_guard")));
    // There is no index on the function.
    SysScanDesc scan = systable_beginscan(triggers, InvalidOid, false, nullptr, 1, &entry);
    for (HeapTuple row; HeapTupleIsValid(row = systable_getnext(scan)); check_for_interrupts()) {
        const auto *form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(row));
        if (OidIsValid(form->tgparentid) || form->tgnargs != GuardArguments::count ||
            strcmp(argument_of(row, RelationGetDescr(triggers), GuardArguments::machine), machine) != 0)
            continue;
        auto *attachment = static_cast<Attachment *>(palloc(sizeof(Attachment)));
        attachment->table = form->tgrelid;
        attachment->column = pstrdup(argument_of(row, RelationGetDescr(triggers), GuardArguments::column));
        found = lappend(found, attachment);
    }
    systable_endscan(scan);
    table_close(triggers, AccessShareLock);
    list_sort(found, compare_attachments);
    return without_duplicates(found);
}

AttachedMachine attached_machine(Relation table) {
    const char *machine = nullptr, *column = nullptr;
    any_guard(table, [&](const Trigger &trigger) {
        const char *guarded = trigger.tgargs[GuardArguments::column];
        if (column != nullptr && strcmp(column, guarded) != 0)
            ereport(ERROR, (errcode(ERRCODE_AMBIGUOUS_COLUMN),
                            errmsg("table \"%s\" has several state columns", RelationGetRelationName(table)),
                            errdetail("State machines are attached to \"%s\" and \"%s\".", column, guarded), errtable(table)));
        machine = trigger.tgargs[GuardArguments::machine];
        column = guarded;
        return false;
    });
    if (column == nullptr)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table \"%s\" has no state machine attached", RelationGetRelationName(table)),
                        errhint("Attach one with idem_machine_attach."), errtable(table)));
    const AttrNumber number = get_attnum(RelationGetRelid(table), column);
    if (number <= 0)
        raise_renamed_column(table, column);
    return {number, pstrdup(machine)};
}

void lock_machines() { table_close(open_member(&Catalog::machines, ShareRowExclusiveLock), NoLock); }

namespace {

enum Argument { target, state_column_name, machine, wants_log };

// Before anything is locked; CREATE TRIGGER asks again.
void check_may_attach(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(target))
        raise_null_argument("target");
    const Oid table = PG_GETARG_OID(target);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table)))
        return; // open_target says so
    const AclResult may = pg_class_aclcheck(table, GetUserId(), ACL_TRIGGER);
    if (may != ACLCHECK_OK)
        aclcheck_error(may, get_relkind_objtype(get_rel_relkind(table)), get_rel_name(table));
}

void check_not_partition(Relation table) {
    if (table->rd_rel->relispartition)
        ereport(ERROR,
                (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("table \"%s\" is a partition", RelationGetRelationName(table)),
                 errhint("Attach the state machine to the partitioned table."), errtable(table)));
}

// Two guards on one column would each take the other's moved row for a new one.
void check_not_attached(Relation table, const char *column) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(RelationGetRelid(table), ShareRowExclusiveLock, nullptr)) {
        Relation part = table_open(lfirst_oid(cell), NoLock);
        const bool counts = part->rd_rel->relispartition || RelationGetRelid(part) == RelationGetRelid(table);
        if (counts && has_own_guard(part, column))
            ereport(ERROR,
                    (errcode(ERRCODE_DUPLICATE_OBJECT),
                     errmsg("column \"%s\" of table \"%s\" already has a state machine", column, RelationGetRelationName(part)),
                     errhint("Detach it first with idem_machine_detach."), errtable(part)));
        table_close(part, NoLock);
    }
}

void check_has_key(Relation table) {
    UniqueKey key;
    if (!find_main_key(table, &key))
        ereport(ERROR, (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
                        errmsg("table \"%s\" has no key to log transitions by", RelationGetRelationName(table)),
                        errhint("Add a primary key, or attach the state machine without a log."), errtable(table)));
}

char *free_trigger_name(Relation table, const char *column, const char *event) {
    for (int number = 0;; number++) {
        const char *label = number == 0 ? event : psprintf("%s%d", event, number);
        char *name = makeObjectName("idem_state", column, label);
        if (!OidIsValid(get_trigger_oid(RelationGetRelid(table), name, true)))
            return name;
    }
}

// CREATE TRIGGER without its name and what it fires on.
char *guard_call(const char *machine_name, const char *column, bool logs) {
    return psprintf("EXECUTE FUNCTION %s(%s, %s, %s)", qualified_name("idem_state_guard"), quote_literal_cstr(machine_name),
                    quote_literal_cstr(column), quote_literal_cstr(logs ? kLogArgument : kNoLogArgument));
}

// An UPDATE that leaves the state alone queues no event. The operator is named in full: another one of the caller's could find
// states equal that are not.
char *changed_condition(Relation table, const StateColumn &column) {
    const char *name = quote_identifier(column_name(table, column.number)), *cast = cast_to_base(table, column);
    return psprintf("(OLD.%s%s OPERATOR(pg_catalog.=) NEW.%s%s) IS NOT TRUE", name, cast, name, cast);
}

struct GuardStatements {
    char *insert, *update;
};

GuardStatements guard_statements(Relation table, const StateColumn &column, const char *machine_name, bool logs) {
    const char *name = column_name(table, column.number), *call = guard_call(machine_name, name, logs);
    // A row that moves to another partition is a deletion there and an insertion here.
    const char *events = table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? "INSERT OR DELETE" : "INSERT";
    return {psprintf("CREATE TRIGGER %s AFTER %s ON %s FOR EACH ROW %s",
                     quote_identifier(free_trigger_name(table, name, "insert")), events, target_name(table), call),
            psprintf("CREATE TRIGGER %s AFTER UPDATE ON %s FOR EACH ROW WHEN (%s) %s",
                     quote_identifier(free_trigger_name(table, name, "update")), target_name(table),
                     changed_condition(table, column), call)};
}

void check_attachable(Relation table, const StateColumn &column, const char *machine_name, bool logs) {
    check_not_attached(table, column_name(table, column.number)); // locks the partitions
    check_state_column(table, column);
    if (logs)
        check_has_key(table);
    const StateNames states = state_names(machine_graph(machine_name));
    check_labels(table, column, machine_name, states);
    check_rows(table, column, machine_name, states);
}

// DROP TRIGGER for every guard of the column.
List *drop_statements(Relation table, const char *column) {
    List *statements = NIL;
    any_guard(table, [&](const Trigger &trigger) {
        if (!trigger.tgisclone && strcmp(trigger.tgargs[GuardArguments::column], column) == 0)
            statements =
                lappend(statements, psprintf("DROP TRIGGER %s ON %s", quote_identifier(trigger.tgname), target_name(table)));
        return false;
    });
    return statements;
}

[[noreturn]] void raise_not_attached(Relation table, const char *column) {
    (void)column_number(table, column); // raises if that is what is wrong
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                    errmsg("column \"%s\" of table \"%s\" has no state machine", column, RelationGetRelationName(table)),
                    table->rd_rel->relispartition ? errhint("Detach it from the partitioned table.") : 0, errtable(table)));
    pg_unreachable();
}

} // namespace

} // namespace idem

extern "C" {

PG_FUNCTION_INFO_V1(idem_machine_attach);
PG_FUNCTION_INFO_V1(idem_machine_detach);

PGDLLEXPORT Datum idem_machine_attach(PG_FUNCTION_ARGS) {
    using namespace idem;
    check_may_attach(fcinfo);
    const char *machine_name = machine_argument(fcinfo, machine);
    if (PG_ARGISNULL(wants_log))
        raise_null_argument("log");
    prevent_unless_writable("idem_machine_attach()");
    lock_machines();
    Relation table = open_target(fcinfo, target, ShareRowExclusiveLock);
    check_not_partition(table);
    if (PG_ARGISNULL(state_column_name))
        raise_null_argument("state_column");
    const StateColumn column = state_column(table, NameStr(*PG_GETARG_NAME(state_column_name)));
    check_attachable(table, column, machine_name, PG_GETARG_BOOL(wants_log));
    const GuardStatements statements = guard_statements(table, column, machine_name, PG_GETARG_BOOL(wants_log));
    table_close(table, NoLock);
    run_as_caller(statements.insert);
    run_as_caller(statements.update);
    PG_RETURN_VOID();
}

PGDLLEXPORT Datum idem_machine_detach(PG_FUNCTION_ARGS) {
    using namespace idem;
    if (PG_ARGISNULL(state_column_name))
        raise_null_argument("state_column");
    const char *column = NameStr(*PG_GETARG_NAME(state_column_name));
    Relation table = open_own_target(fcinfo, target, AccessExclusiveLock);
    const List *statements = drop_statements(table, column);
    if (statements == NIL)
        raise_not_attached(table, column);
    table_close(table, NoLock); // DROP TRIGGER refuses a table that is in use
    ListCell *cell;
    foreach (cell, statements)
        run_as_caller(static_cast<const char *>(lfirst(cell)));
    PG_RETURN_VOID();
}

} // extern "C"
