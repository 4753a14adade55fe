// idem_machine_attach, idem_machine_validate, idem_machine_detach.
#include "machines/machine_attach.hpp"

#include "machines/state_column.hpp"
#include "rows/target.hpp"
#include "rows/unique_key.hpp"
#include "server/arguments.hpp"
#include "server/extension.hpp"
#include "server/writable.hpp"
#include "storage/internal_sql.hpp"

namespace idem {

namespace {

bool is_guard(const Trigger &trigger, Oid function) {
    return trigger.tgfoid == function && trigger.tgnargs == GuardArguments::count;
}

// Calls `visit` for each guard on the table, until it returns true. It works on a copy, as any call of the server may rebuild
// the triggers in the relation cache.
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

bool guards_column(const Trigger &trigger, const char *column) {
    return strcmp(trigger.tgargs[GuardArguments::column], column) == 0;
}

bool has_own_guard(Relation table, const char *column) {
    return any_guard(table, [&](const Trigger &trigger) { return !trigger.tgisclone && guards_column(trigger, column); });
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

// As the view idem_guards has them: a trigger that somebody made by hand, and that does not fire for every row, is no guard.
bool fires_for_every_row(HeapTuple trigger, TupleDesc layout) {
    const auto *form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(trigger));
    constexpr int writes = TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE;
    return (form->tgtype & (TRIGGER_TYPE_ROW | TRIGGER_TYPE_TIMING_MASK | writes)) ==
               (TRIGGER_TYPE_ROW | TRIGGER_TYPE_AFTER | writes) &&
           form->tgattr.dim1 == 0 && heap_attisnull(trigger, Anum_pg_trigger_tgqual, layout);
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
            !fires_for_every_row(row, RelationGetDescr(triggers)) ||
            strcmp(argument_of(row, RelationGetDescr(triggers), GuardArguments::machine), machine) != 0)
            continue;
        auto *attachment = static_cast<Attachment *>(palloc(sizeof(Attachment)));
        attachment->table = form->tgrelid;
        attachment->column = pstrdup(argument_of(row, RelationGetDescr(triggers), GuardArguments::column));
        attachment->is_valid =
            strcmp(argument_of(row, RelationGetDescr(triggers), GuardArguments::validity), kValidArgument) == 0;
        found = lappend(found, attachment);
    }
    systable_endscan(scan);
    table_close(triggers, AccessShareLock);
    list_sort(found, compare_attachments);
    return without_duplicates(found);
}

namespace {

[[noreturn]] void raise_not_attached(Relation table, const char *column) {
    (void)column_number(table, column); // raises if there is no such column
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                    errmsg("column \"%s\" of table \"%s\" has no state machine", column, RelationGetRelationName(table)),
                    table->rd_rel->relispartition ? errhint("The state machine is attached to the partitioned table.") : 0,
                    errtable(table)));
    pg_unreachable();
}

} // namespace

AttachedMachine attached_machine(Relation table, const char *state_column) {
    const char *machine = nullptr, *column = nullptr;
    any_guard(table, [&](const Trigger &trigger) {
        const char *guarded = trigger.tgargs[GuardArguments::column];
        if (state_column != nullptr && strcmp(state_column, guarded) != 0)
            return false;
        if (column != nullptr && strcmp(column, guarded) != 0)
            ereport(ERROR, (errcode(ERRCODE_AMBIGUOUS_COLUMN),
                            errmsg("table \"%s\" has several state columns", RelationGetRelationName(table)),
                            errdetail("State machines are attached to \"%s\" and \"%s\".", column, guarded),
                            errhint("Name one of them as state_column."), errtable(table)));
        machine = trigger.tgargs[GuardArguments::machine];
        column = guarded;
        return false;
    });
    if (column == nullptr && state_column != nullptr)
        raise_not_attached(table, state_column);
    if (column == nullptr)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table \"%s\" has no state machine attached", RelationGetRelationName(table)),
                        errhint("Attach one with idem_machine_attach."), errtable(table)));
    return {guarded_column(table, column), pstrdup(machine)};
}

void lock_machines() { table_close(open_member(machines_table, ShareRowExclusiveLock), NoLock); }

namespace {

struct Argument {
    enum { target, state_column_name, machine, wants_log, wants_validation };
};

struct AttachOptions {
    bool log, validate;
};

// Called before anything is locked. CREATE TRIGGER checks again, idem_machine_validate does not.
void check_may_attach(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(Argument::target))
        raise_null_argument("target");
    const Oid table = PG_GETARG_OID(Argument::target);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table)))
        return; // open_target raises
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

// With two guards on one column, each would take a row that moved for a new one, as the other has taken the note of its state.
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

// Column names may be as long as trigger names, so two of them can be cut to the same trigger name.
char *free_trigger_name(Relation table, const char *column) {
    for (int number = 0;; number++) {
        char *name = makeObjectName("idem_state", column, number == 0 ? nullptr : psprintf("%d", number));
        if (!OidIsValid(get_trigger_oid(RelationGetRelid(table), name, true)))
            return name;
    }
}

// The trigger has no WHEN clause: the server would prepare it again in every UPDATE of the table, which costs more than the
// guard's own comparison of the states.
char *guard_statement(Relation table, const char *column, const char *machine_name, AttachOptions options) {
    // The server moves a row to another partition by a deletion and an insertion.
    const char *deletion = table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? " OR DELETE" : "";
    return psprintf("CREATE TRIGGER %s AFTER INSERT OR UPDATE%s ON %s FOR EACH ROW EXECUTE FUNCTION %s(%s, %s, %s, %s)",
                    quote_identifier(free_trigger_name(table, column)), deletion, target_name(table),
                    qualified_name("idem_state_guard"), quote_literal_cstr(machine_name), quote_literal_cstr(column),
                    quote_literal_cstr(options.log ? kLogArgument : kNoLogArgument),
                    quote_literal_cstr(options.validate ? kValidArgument : kNotValidArgument));
}

void check_attachable(Relation table, const StateColumn &column, const char *machine_name, AttachOptions options) {
    check_not_attached(table, column_name(table, column.number)); // locks the partitions
    check_state_column(table, column);
    refuse_foreign_partitions(table);
    if (options.log)
        check_has_key(table);
    const StateNames states = state_names(machine_graph(machine_name));
    check_labels(table, column, machine_name, states);
    if (options.validate)
        check_rows(table, column, machine_name, states, may_read(table, column.number));
}

// DROP TRIGGER for every guard of the column.
List *drop_statements(Relation table, const char *column) {
    List *statements = NIL;
    any_guard(table, [&](const Trigger &trigger) {
        if (!trigger.tgisclone && guards_column(trigger, column))
            statements =
                lappend(statements, psprintf("DROP TRIGGER %s ON %s", quote_identifier(trigger.tgname), target_name(table)));
        return false;
    });
    return statements;
}

// 55000: rows could change past a guard that does not fire, while they are read.
void require_enabled(Relation table, const char *column) {
    any_guard(table, [&](const Trigger &trigger) {
        if (guards_column(trigger, column) && trigger.tgenabled != TRIGGER_FIRES_ON_ORIGIN &&
            trigger.tgenabled != TRIGGER_FIRES_ALWAYS)
            ereport(ERROR,
                    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                     errmsg("the guard of column \"%s\" of table \"%s\" is disabled", column, RelationGetRelationName(table)),
                     errhint("Run ALTER TABLE %s ENABLE TRIGGER %s.", target_name(table), quote_identifier(trigger.tgname)),
                     errtable(table)));
        return false;
    });
}

void require_enabled_everywhere(Relation table, const char *column) {
    require_enabled(table, column);
    if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return;
    ListCell *cell;
    foreach (cell, find_all_inheritors(RelationGetRelid(table), ShareUpdateExclusiveLock, nullptr)) {
        Relation part = table_open(lfirst_oid(cell), NoLock);
        require_enabled(part, column);
        table_close(part, NoLock);
    }
}

bytea *arguments_of(const Trigger &trigger) {
    StringInfoData bytes;
    initStringInfo(&bytes);
    for (int i = 0; i < GuardArguments::count; i++) {
        const char *argument = i == GuardArguments::validity ? kValidArgument : trigger.tgargs[i];
        appendBinaryStringInfo(&bytes, argument, static_cast<int>(strlen(argument)) + 1);
    }
    auto *packed = static_cast<bytea *>(palloc(VARHDRSZ + bytes.len));
    SET_VARSIZE(packed, VARHDRSZ + bytes.len);
    memcpy(VARDATA(packed), bytes.data, bytes.len);
    return packed;
}

// Writes the catalog itself, as VALIDATE CONSTRAINT does. CREATE OR REPLACE TRIGGER would keep writers away. REQUIRES:
// ShareUpdateExclusiveLock, so that nobody else changes the trigger. The copies on partitions stay as they are: nothing reads
// the validity of these.
void record_valid(Relation table, const Trigger &trigger) {
    Relation triggers = table_open(TriggerRelationId, RowExclusiveLock);
    ScanKeyData entry;
    ScanKeyInit(&entry, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(trigger.tgoid));
    SysScanDesc scan = systable_beginscan(triggers, TriggerOidIndexId, true, nullptr, 1, &entry);
    HeapTuple row = systable_getnext(scan);
    if (!HeapTupleIsValid(row))
        elog(ERROR, "could not find trigger %u", trigger.tgoid);
    int columns[] = {Anum_pg_trigger_tgargs};
    Datum values[] = {PointerGetDatum(arguments_of(trigger))};
    bool nulls[] = {false};
    HeapTuple changed = heap_modify_tuple_by_cols(row, RelationGetDescr(triggers), 1, columns, values, nulls);
    CatalogTupleUpdate(triggers, &changed->t_self, changed);
    systable_endscan(scan);
    table_close(triggers, RowExclusiveLock);
    CacheInvalidateRelcache(table);
    CommandCounterIncrement();
}

bool is_valid(const Trigger &trigger) { return strcmp(trigger.tgargs[GuardArguments::validity], kValidArgument) == 0; }

void validate(Relation table, const char *column_name, const Trigger &trigger) {
    require_enabled_everywhere(table, column_name); // locks the partitions
    const char *machine = trigger.tgargs[GuardArguments::machine];
    (void)guarded_column(table, column_name); // raises if there is no such column any more
    const StateColumn column = state_column(table, column_name);
    const StateNames states = state_names(machine_graph(machine));
    check_labels(table, column, machine, states);
    check_rows(table, column, machine, states, may_read(table, column.number));
    record_valid(table, trigger);
}

} // namespace

} // namespace idem

SQL_FUNCTION(idem_machine_attach) {
    using namespace idem;
    check_may_attach(fcinfo);
    const char *machine_name = machine_argument(fcinfo, Argument::machine);
    const AttachOptions options{!PG_ARGISNULL(Argument::wants_log) && PG_GETARG_BOOL(Argument::wants_log),
                                PG_ARGISNULL(Argument::wants_validation) || PG_GETARG_BOOL(Argument::wants_validation)};
    prevent_unless_writable("idem_machine_attach()");
    lock_machines();
    Relation table = open_target(fcinfo, Argument::target, ShareRowExclusiveLock);
    check_not_partition(table);
    if (PG_ARGISNULL(Argument::state_column_name))
        raise_null_argument("state_column");
    const StateColumn column = state_column(table, NameStr(*PG_GETARG_NAME(Argument::state_column_name)));
    check_attachable(table, column, machine_name, options);
    warn_of_children(table, "idem_machine_attach");
    const char *statement = guard_statement(table, column_name(table, column.number), machine_name, options);
    table_close(table, NoLock);
    run_as_caller(statement);
    PG_RETURN_VOID();
}

// The rows that are there are compared with the machine as it is. The lock on machines keeps idem_machine_define from
// redefining it meanwhile: it does not read the rows of a guard that is not valid.
SQL_FUNCTION(idem_machine_validate) {
    using namespace idem;
    check_may_attach(fcinfo);
    if (PG_ARGISNULL(Argument::state_column_name))
        raise_null_argument("state_column");
    const char *column = NameStr(*PG_GETARG_NAME(Argument::state_column_name));
    prevent_unless_writable("idem_machine_validate()");
    lock_machines();
    Relation table = open_target(fcinfo, Argument::target, ShareUpdateExclusiveLock);
    const bool is_attached = any_guard(table, [&](const Trigger &trigger) {
        if (trigger.tgisclone || !guards_column(trigger, column))
            return false;
        if (!is_valid(trigger))
            validate(table, column, trigger);
        return true;
    });
    if (!is_attached)
        raise_not_attached(table, column);
    table_close(table, NoLock);
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_machine_detach) {
    using namespace idem;
    if (PG_ARGISNULL(Argument::state_column_name))
        raise_null_argument("state_column");
    const char *column = NameStr(*PG_GETARG_NAME(Argument::state_column_name));
    prevent_unless_writable("idem_machine_detach()");
    Relation table = open_own_target(fcinfo, Argument::target, AccessExclusiveLock);
    const List *statements = drop_statements(table, column);
    if (statements == NIL)
        raise_not_attached(table, column);
    table_close(table, NoLock); // DROP TRIGGER refuses a table that is in use
    ListCell *cell;
    foreach (cell, statements)
        run_as_caller(static_cast<const char *>(lfirst(cell)));
    PG_RETURN_VOID();
}
