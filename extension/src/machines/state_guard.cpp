// idem_state_guard: the AFTER ROW trigger that idem_machine_attach puts on a table. It sees the row as all BEFORE triggers have
// left it, and runs no query: the graph is in memory, the state is in the row.
#include "machines/machine.hpp"
#include "machines/machine_attach.hpp"
#include "machines/moved_rows.hpp"
#include "machines/state_column.hpp"
#include "machines/transition_log.hpp"
#include "rows/target.hpp"
#include "server/extension.hpp"

namespace {

using namespace idem;

// The facts about its table that a guard needs. They are kept with the trigger's call information, which lasts for a statement.
struct Guard {
    StateColumn column;
    bool logs;
    Oid attached_table;  // InvalidOid until needed
    LoggedTable *logged; // nullptr until needed
};

struct GuardCall {
    const TriggerData *trigger;
    Guard *guard;
    MemoryContext memory; // the guard's

    const char *argument(int number) const { return trigger->tg_trigger->tgargs[number]; }
    const char *machine() const { return argument(GuardArguments::machine); }
    const char *column() const { return argument(GuardArguments::column); }
    Relation table() const { return trigger->tg_relation; }
};

void check_call(FunctionCallInfo fcinfo) {
    const auto *call = reinterpret_cast<const TriggerData *>(fcinfo->context);
    if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(call->tg_event) || !TRIGGER_FIRED_FOR_ROW(call->tg_event) ||
        call->tg_trigger->tgnargs != GuardArguments::count)
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function \"%s\" is the trigger that idem_machine_attach makes", "idem_state_guard")));
}

Guard *make_guard(const GuardCall &call) {
    (void)guarded_column(call.table(), call.column()); // raises if there is no such column any more
    auto *guard = static_cast<Guard *>(MemoryContextAllocZero(call.memory, sizeof(Guard)));
    guard->column = state_column(call.table(), call.column());
    guard->logs = strcmp(call.argument(GuardArguments::log), kLogArgument) == 0;
    return guard;
}

GuardCall guard_call(FunctionCallInfo fcinfo) {
    check_call(fcinfo);
    GuardCall call{reinterpret_cast<const TriggerData *>(fcinfo->context), static_cast<Guard *>(fcinfo->flinfo->fn_extra),
                   fcinfo->flinfo->fn_mcxt};
    if (call.guard == nullptr)
        fcinfo->flinfo->fn_extra = call.guard = make_guard(call);
    return call;
}

struct RowState {
    Datum value;
    bool is_null;
};

RowState state_in(const GuardCall &call, HeapTuple row) {
    RowState state;
    state.value = heap_getattr(row, call.guard->column.number, RelationGetDescr(call.table()), &state.is_null);
    return state;
}

// The state as text. A null view stands for NULL.
std::string_view name_of(const GuardCall &call, const RowState &state) {
    return state.is_null ? std::string_view() : state_name(call.guard->column, state.value);
}

std::string_view state_of(const GuardCall &call, HeapTuple row) { return name_of(call, state_in(call, row)); }

const char *for_message(std::string_view state) {
    return state.data() == nullptr ? nullptr : pnstrdup(state.data(), state.size());
}

// The table of the trigger that idem_machine_attach created: a partition's trigger is a copy of it.
Oid attached_table_of(const Trigger &trigger, Oid table) {
    if (!trigger.tgisclone)
        return table;
    Relation triggers = table_open(TriggerRelationId, AccessShareLock);
    for (Oid next = trigger.tgoid; OidIsValid(next);) {
        ScanKeyData entry;
        ScanKeyInit(&entry, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(next));
        SysScanDesc scan = systable_beginscan(triggers, TriggerOidIndexId, true, nullptr, 1, &entry);
        HeapTuple row = systable_getnext(scan);
        const auto *form = HeapTupleIsValid(row) ? reinterpret_cast<Form_pg_trigger>(GETSTRUCT(row)) : nullptr;
        next = form != nullptr ? form->tgparentid : InvalidOid;
        table = form != nullptr ? form->tgrelid : table;
        systable_endscan(scan);
    }
    table_close(triggers, AccessShareLock);
    return table;
}

Oid attached_table(const GuardCall &call) {
    if (!OidIsValid(call.guard->attached_table))
        call.guard->attached_table = attached_table_of(*call.trigger->tg_trigger, RelationGetRelid(call.table()));
    return call.guard->attached_table;
}

void log_move(const GuardCall &call, HeapTuple row, std::string_view from, std::string_view to) {
    if (!call.guard->logs)
        return;
    if (call.guard->logged == nullptr) {
        const MemoryContext caller = MemoryContextSwitchTo(call.memory);
        call.guard->logged = logged_table(call.table(), attached_table(call));
        MemoryContextSwitchTo(caller);
    }
    log_transition(call.guard->logged, row, RelationGetDescr(call.table()), call.column(), from, to);
}

void check_move(const GuardCall &call, HeapTuple row, std::string_view from, std::string_view to) {
    if (from == to && (from.data() == nullptr) == (to.data() == nullptr))
        return;
    if (from.data() == nullptr || to.data() == nullptr || !machine_graph(call.machine()).can(from, to))
        raise_transition_not_allowed(call.machine(), for_message(from), for_message(to), call.table(),
                                     call.guard->column.number, row);
    log_move(call, row, from, to);
}

void guard_update(const GuardCall &call) {
    HeapTuple row = call.trigger->tg_newtuple;
    const RowState before = state_in(call, call.trigger->tg_trigtuple), after = state_in(call, row);
    // Most updates leave the state alone. Values of an enum are compared without their labels.
    if (call.guard->column.is_enum && !before.is_null && !after.is_null && before.value == after.value)
        return;
    check_move(call, row, name_of(call, before), name_of(call, after));
}

void check_new_row(const GuardCall &call, HeapTuple row, std::string_view state) {
    if (state.data() == nullptr || !machine_graph(call.machine()).is_initial(state))
        raise_not_initial(call.machine(), for_message(state), call.table(), call.guard->column.number, row);
    log_move(call, row, {}, state);
}

// Only in a heap do rows have the number of the command that wrote them.
bool is_heap_partition(const GuardCall &call) {
    return call.table()->rd_rel->relispartition && call.table()->rd_rel->relam == HEAP_TABLE_AM_OID;
}

void guard_insert(const GuardCall &call) {
    HeapTuple row = call.trigger->tg_trigtuple;
    const std::string_view state = state_of(call, row);
    if (is_heap_partition(call)) {
        const TransactionId writer = HeapTupleHeaderGetXmin(row->t_data);
        std::string_view before;
        if (TransactionIdIsCurrentTransactionId(writer) &&
            take_arrival({attached_table(call), call.column(), writer, HeapTupleHeaderGetCmin(row->t_data)}, &before))
            return check_move(call, row, before, state);
    }
    check_new_row(call, row, state);
}

void guard_delete(const GuardCall &call) {
    HeapTuple row = call.trigger->tg_trigtuple;
    if (!is_heap_partition(call) || !HeapTupleHeaderIndicatesMovedPartitions(row->t_data))
        return;
    const TransactionId writer = HeapTupleHeaderGetUpdateXid(row->t_data);
    if (TransactionIdIsCurrentTransactionId(writer))
        note_departure({attached_table(call), call.column(), writer, HeapTupleHeaderGetCmax(row->t_data)}, state_of(call, row));
}

} // namespace

SQL_FUNCTION(idem_state_guard) {
    const GuardCall call = guard_call(fcinfo);
    const TriggerEvent event = call.trigger->tg_event;
    if (TRIGGER_FIRED_BY_UPDATE(event))
        guard_update(call);
    else if (TRIGGER_FIRED_BY_INSERT(event))
        guard_insert(call);
    else if (TRIGGER_FIRED_BY_DELETE(event))
        guard_delete(call);
    return Datum{0};
}
