// optimistic_update: change a row if it still has the version that the caller has read.
#include "rows/compare_and_set.hpp"
#include "rows/version_guard.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { target, key, expected_version, changes };
};
struct Object {
    enum { key, changes, count };
};

void build(RowStatement *statement, const RowCall &call) {
    const char *version_name = required_version_column(call.table);
    const AttrNumber version = column_number(call.table, version_name);
    const int expected = add_parameter(statement, INT8OID);
    CompareAndSet flow = begin_compare_and_set(statement, call);
    append_column(&flow.expected, call.table, version);
    appendStringInfo(&flow.expected, " OPERATOR(pg_catalog.=) $%d", expected);

    const RowReader &changed = statement->reader[Object::changes];
    if (position_in(changed.columns, version) >= 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("changes must not contain the version column \"%s\"", version_name),
                        errdetail("It is set to expected_version plus one.")));
    for (int i = 0; i < changed.columns.count; i++)
        append_assignment(&flow.changes, call.table, changed.columns.columns[i], statement->first[Object::changes] + i);
    appendStringInfo(&flow.changes, "%s%s = ", flow.changes.len > 0 ? ", " : "", quote_identifier(version_name));
    append_column(&flow.changes, call.table, version);
    appendStringInfoString(&flow.changes, " OPERATOR(pg_catalog.+) 1");

    appendStringInfoString(&flow.control, "CAST(");
    append_column(&flow.control, call.table, version);
    appendStringInfoString(&flow.control, " AS pg_catalog.int8)");
    prepare_compare_and_set(statement, call, flow);
}

} // namespace

SQL_FUNCTION(optimistic_update) {
    RowCall call{};
    call.function = "optimistic_update";
    call.table = open_target(fcinfo, Argument::target, RowExclusiveLock);
    call.objects = Object::count;
    call.object[Object::key] = row_object_argument(fcinfo, Argument::key, "key");
    if (PG_ARGISNULL(Argument::expected_version))
        raise_null_argument("expected_version");
    call.object[Object::changes] = row_object_argument(fcinfo, Argument::changes, "changes");
    call.visible = selectable_columns(call.table);

    RowRun run = begin_run(call, build);
    run.values.set(run.statement->parameters, PG_GETARG_DATUM(Argument::expected_version));
    const Changed done = compare_and_set(run, call, Row::wanted);
    end_run(call);
    return make_answer(fcinfo, update_outcome(done.outcome), {INT8OID, done.control, !done.has_control}, row_column(done.row));
}
