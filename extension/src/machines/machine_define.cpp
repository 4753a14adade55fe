// idem_machine_define, idem_machine_drop.
#include "machines/machine.hpp"
#include "machines/machine_attach.hpp"
#include "machines/machine_definition.hpp"
#include "machines/state_column.hpp"
#include "rows/target.hpp"
#include "server/arguments.hpp"
#include "server/guard.hpp"
#include "server/writable.hpp"
#include "storage/internal_sql.hpp"

namespace {

using namespace idem;

constexpr const char *kDefine = "INSERT INTO %s AS m (name, definition) VALUES ($1, $2)"
                                " ON CONFLICT (name) DO UPDATE SET definition = excluded.definition";

constexpr const char *kDrop = "DELETE FROM %s AS m WHERE m.name OPERATOR(pg_catalog.=) $1 RETURNING 1";

// A graph on the C++ heap that lives as long as a memory context.
struct OwnedGraph {
    core::StateGraph *graph;
    MemoryContextCallback when_freed;
};

void free_graph(void *owned) { delete static_cast<OwnedGraph *>(owned)->graph; }

const core::StateGraph &checked_graph(Jsonb *json) {
    const Definition definition = read_definition(json);
    auto *owned = static_cast<OwnedGraph *>(palloc0(sizeof(OwnedGraph)));
    owned->when_freed.func = free_graph;
    owned->when_freed.arg = owned;
    MemoryContextRegisterResetCallback(CurrentMemoryContext, &owned->when_freed);
    owned->graph = call_core([&] { return new core::StateGraph(graph_of(definition)); });
    return *owned->graph;
}

// While this call waited for the table's lock, the machine may have been detached, or the column renamed.
bool is_still_attached(const Attachment &attachment, const char *machine) {
    const ListCell *cell;
    foreach (cell, attachments_of(machine)) {
        const auto *now = static_cast<const Attachment *>(lfirst(cell));
        if (now->table == attachment.table && strcmp(now->column, attachment.column) == 0)
            return true;
    }
    return false;
}

// The lock keeps writers away until this transaction ends. A temporary table of another session cannot be read and is not
// locked: its guard refuses the moves that the new definition lacks.
void check_attached_table(const Attachment &attachment, const char *machine, const StateNames &states) {
    if (isOtherTempNamespace(get_rel_namespace(attachment.table)))
        return;
    Relation table = try_relation_open(attachment.table, ShareRowExclusiveLock);
    if (table == nullptr)
        return; // it was dropped
    if (table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
        (void)find_all_inheritors(attachment.table, ShareRowExclusiveLock, nullptr);
    // The guard of a column that was renamed, or cannot hold states, refuses every write: no row needs to be checked.
    const AttrNumber number = find_column(table, attachment.column);
    if (is_still_attached(attachment, machine) && number != InvalidAttrNumber && holds_states(table, number)) {
        const StateColumn column = state_column(table, attachment.column);
        check_labels(table, column, machine, states);
        // Rows of a guard that is not valid may be in any state, as before.
        if (attachment.is_valid)
            check_rows(table, column, machine, states, true);
    }
    table_close(table, NoLock);
}

[[noreturn]] void raise_still_attached(const char *machine, const List *attachments) {
    StringInfoData tables;
    initStringInfo(&tables);
    const ListCell *cell;
    foreach (cell, attachments) {
        const auto *attachment = static_cast<const Attachment *>(lfirst(cell));
        const char *name = get_rel_name(attachment->table);
        appendStringInfo(&tables, "%scolumn \"%s\" of table \"%s\"", tables.len > 0 ? ", " : "", attachment->column,
                         name != nullptr ? name : "?");
    }
    ereport(ERROR, (errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
                    errmsg("cannot drop state machine \"%s\" because tables depend on it", machine),
                    errdetail("It is attached to %s.", tables.data), errhint("Detach it first with idem_machine_detach.")));
    pg_unreachable();
}

} // namespace

SQL_FUNCTION(idem_machine_define) {
    const char *machine = machine_argument(fcinfo, 0);
    if (PG_ARGISNULL(1))
        raise_null_argument("definition");
    const StateNames states = state_names(checked_graph(PG_GETARG_JSONB_P(1)));
    prevent_unless_writable("idem_machine_define()");
    lock_machines();
    const ListCell *cell;
    foreach (cell, attachments_of(machine))
        check_attached_table(*static_cast<const Attachment *>(lfirst(cell)), machine, states);
    const SqlArgument values[] = {{TEXTOID, PG_GETARG_DATUM(0), false}, {JSONBOID, PG_GETARG_DATUM(1), false}};
    run_as_owner(psprintf(kDefine, member_name(machines_table)), values, lengthof(values));
    invalidate_member(machines_table);
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_machine_drop) {
    const char *machine = machine_argument(fcinfo, 0);
    prevent_unless_writable("idem_machine_drop()");
    lock_machines();
    (void)machine_graph(machine); // raises if there is none
    const List *attachments = attachments_of(machine);
    if (attachments != NIL)
        raise_still_attached(machine, attachments);
    const SqlArgument values[] = {{TEXTOID, PG_GETARG_DATUM(0), false}};
    if (!run_as_owner(psprintf(kDrop, member_name(machines_table)), values, lengthof(values)))
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not serialize access due to a concurrent definition of state machine \"%s\"", machine)));
    invalidate_member(machines_table);
    PG_RETURN_VOID();
}
