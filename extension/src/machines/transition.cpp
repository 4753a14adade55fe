// idem_transition: move a row to a state, as the machine on its state column allows.
#include "machines/machine.hpp"
#include "machines/machine_attach.hpp"
#include "machines/state_column.hpp"
#include "rows/compare_and_set.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { target, key, from_state, to_state, state_column };
};

void build(RowStatement *statement, const RowCall &call) {
    const AttrNumber column = column_number(call.table, call.name[0]);
    const Oid type = column_form(call.table, column)->atttypid;
    const int expected = add_parameter(statement, type), to = add_parameter(statement, type);
    CompareAndSet flow = begin_compare_and_set(statement, call);
    // Never NULL, as a row is only moved from a state. IS TRUE keeps an index on the state from being used (see plan_by_index).
    appendStringInfoChar(&flow.expected, '(');
    append_equals(&flow.expected, call.table, column, expected);
    appendStringInfoString(&flow.expected, ") IS TRUE");
    append_assignment(&flow.changes, call.table, column, to);
    append_column(&flow.control, call.table, column);
    prepare_compare_and_set(statement, call, flow);
}

struct Moved {
    const char *outcome;
    const char *state; // nullptr: none
};

// One call. The statement's own parameters are the expected state and the new one.
struct Move {
    RowRun run;
    const RowCall *call;
    AttachedMachine machine;
    StateColumn column;
    const char *to;
    const char *expected; // nullptr: any
};

void set_state(const Move &move, int parameter, const char *state) {
    Form_pg_attribute column = column_form(move.call->table, move.column.number);
    Oid input, io_parameter;
    getTypeInputInfo(column->atttypid, &input, &io_parameter);
    RowValues values = move.run.values;
    values.set(parameter, OidInputFunctionCall(input, pstrdup(state), io_parameter, column->atttypmod));
}

const char *state_of(const Move &move, const Changed &found) {
    if (!found.has_control)
        return nullptr;
    const std::string_view state = state_name(move.column, found.control);
    return pnstrdup(state.data(), state.size());
}

// The outcome for a row in this state, or nullptr when it can be moved. The machine does not change during the call:
// idem_machine_define waits for the lock that this call has on the table.
const char *outcome_unless_movable(const Move &move, const char *state) {
    if (state != nullptr && strcmp(state, move.to) == 0)
        return "already";
    if (move.expected != nullptr && (state == nullptr || strcmp(state, move.expected) != 0))
        return "conflict";
    if (state == nullptr || !machine_graph(move.machine.machine).can(state, move.to))
        return "not_allowed";
    return nullptr;
}

Moved move_row(const Move &move) {
    const int own = move.run.statement->parameters - 1;
    const char *from = move.expected;
    // If the caller expects a state that can be moved from, the UPDATE comes first. Otherwise the row's state is read first.
    if (from == nullptr || strcmp(from, move.to) == 0 || !machine_graph(move.machine.machine).can(from, move.to)) {
        const Changed found = compare_only(move.run, Row::unwanted);
        if (found.outcome == Compared::missing)
            return {"not_found", nullptr};
        from = state_of(move, found);
        if (const char *outcome = outcome_unless_movable(move, from))
            return {outcome, from};
    }
    set_state(move, own + 1, move.to);
    for (;; check_for_interrupts()) {
        set_state(move, own, from);
        const Changed done = compare_and_set(move.run, *move.call, Row::unwanted);
        if (done.outcome == Compared::missing)
            return {"not_found", nullptr};
        from = state_of(move, done);
        if (done.outcome == Compared::changed)
            return {"moved", from};
        // Another transaction moved it first.
        if (const char *outcome = outcome_unless_movable(move, from))
            return {outcome, from};
    }
}

} // namespace

SQL_FUNCTION(idem_transition) {
    RowCall call{};
    call.function = "idem_transition";
    call.table = open_target(fcinfo, Argument::target, RowExclusiveLock);
    call.objects = 1;
    call.object[0] = row_object_argument(fcinfo, Argument::key, "key");
    Move move{};
    move.to = text_to_cstring(required_text(fcinfo, Argument::to_state, "to_state"));
    move.expected = PG_ARGISNULL(Argument::from_state) ? nullptr : text_to_cstring(PG_GETARG_TEXT_PP(Argument::from_state));
    move.machine = attached_machine(
        call.table, PG_ARGISNULL(Argument::state_column) ? nullptr : NameStr(*PG_GETARG_NAME(Argument::state_column)));
    move.call = &call;
    const char *column = column_name(call.table, move.machine.column);
    call.names = 1;
    call.name = &column;
    move.column = state_column(call.table, column);
    move.run = begin_run(call, build);
    const MemoryContext own = MemoryContextSwitchTo(move.run.memory); // the answer outlives SPI's memory
    const Moved moved = move_row(move);
    MemoryContextSwitchTo(own);
    end_run(call);
    return make_answer(fcinfo, moved.outcome,
                       {TEXTOID, moved.state == nullptr ? Datum{0} : CStringGetTextDatum(moved.state), moved.state == nullptr});
}
