// conditional_update: change a row if its columns are as expected.
#include "rows/compare_and_set.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { target, key, expected, changes };
};
struct Object {
    enum { key, expected, changes, count };
};

void build(RowStatement *statement, const RowCall &call) {
    CompareAndSet flow = begin_compare_and_set(statement, call);
    const ColumnList &compared = statement->reader[Object::expected].columns;
    for (int i = 0; i < compared.count; i++) {
        appendStringInfoString(&flow.expected, i > 0 ? " AND " : "");
        append_is_same(&flow.expected, call.table, compared.columns[i], statement->first[Object::expected] + i);
    }
    const ColumnList &changed = statement->reader[Object::changes].columns;
    for (int i = 0; i < changed.count; i++)
        append_assignment(&flow.changes, call.table, changed.columns[i], statement->first[Object::changes] + i);
    appendStringInfoString(&flow.control, "true");
    prepare_compare_and_set(statement, call, flow);
}

RowObject not_empty(RowObject object, const char *argument) {
    if (object.count == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must name at least one column", argument)));
    return object;
}

} // namespace

SQL_FUNCTION(conditional_update) {
    RowCall call{};
    call.function = "conditional_update";
    call.table = open_target(fcinfo, Argument::target, RowExclusiveLock);
    call.objects = Object::count;
    call.object[Object::key] = row_object_argument(fcinfo, Argument::key, "key");
    call.object[Object::expected] = not_empty(row_object_argument(fcinfo, Argument::expected, "expected"), "expected");
    call.object[Object::changes] = not_empty(row_object_argument(fcinfo, Argument::changes, "changes"), "changes");
    call.visible = selectable_columns(call.table);

    const RowRun run = begin_run(call, build);
    const Changed done = compare_and_set(run, call, Row::wanted);
    end_run(call);
    return make_answer(fcinfo, update_outcome(done.outcome), row_column(done.row));
}
