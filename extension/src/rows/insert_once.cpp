#include "rows/insert_once.hpp"

#include "server/arguments.hpp"
#include "server/other_role.hpp"
#include "server/row_answer.hpp"

namespace idem {

namespace {

struct Plan {
    enum { insert, find, find_hidden };
};

void append_values(StringInfo sql, const RowStatement *statement, const RowCall &call) {
    const ColumnList &columns = statement->reader[0].columns;
    if (columns.count == 0) {
        appendStringInfoString(sql, " DEFAULT VALUES");
        return;
    }
    appendStringInfoChar(sql, ' ');
    for (int i = 0; i < columns.count; i++)
        appendStringInfo(sql, "%s%s", i > 0 ? ", " : "(", quote_identifier(column_name(call.table, columns.columns[i])));
    appendStringInfoString(sql, ") VALUES ");
    for (int i = 0; i < columns.count; i++)
        appendStringInfo(sql, "%s$%d", i > 0 ? ", " : "(", statement->first[0] + i);
    appendStringInfoChar(sql, ')');
}

} // namespace

void prepare_insert(RowStatement *statement, const RowCall &call, const char *clause) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "INSERT INTO %s AS t", target_name(call.table));
    append_values(&sql, statement, call);
    appendStringInfo(&sql, "%s RETURNING true", clause);
    append_row(&sql, call);
    statement->controls = 1;
    statement->observer = add_parameter(statement, BOOLOID);
    prepare_plan(statement, Plan::insert, sql);
}

void prepare_find(RowStatement *statement, const RowCall &call, const char *condition) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT true");
    append_row(&sql, call);
    appendStringInfoString(&sql, " FROM ");
    append_target(&sql, call.table);
    appendStringInfo(&sql, " WHERE %s", condition);
    prepare_plan(statement, Plan::find, sql);
    resetStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT true FROM ");
    append_target(&sql, call.table);
    appendStringInfo(&sql, " WHERE %s", condition);
    // As it is run: for an owner whom FORCE ROW LEVEL SECURITY binds, the server would keep a plan with the policies.
    const Oid reader = is_row_secured(call.table) ? call.table->rd_rel->relowner : GetUserId();
    as_role(reader, [&] { prepare_plan(statement, Plan::find_hidden, sql); });
}

void require_insert_or_find(const RowRun &run) {
    require_runnable(run, Plan::insert);
    require_runnable(run, Plan::find);
}

bool insert_row(const RowRun &run, RowResult *result, const RowObserver &observer) {
    return run_plan(run, Plan::insert, result, Row::wanted, nullptr, &observer);
}

bool find_duplicate(const RowRun &run, RowResult *result, Snapshot snapshot) {
    return run_plan(run, Plan::find, result, Row::wanted, snapshot);
}

bool is_hidden_duplicate(const RowRun &run, const RowCall &call, Snapshot snapshot) {
    if (!is_row_secured(call.table))
        return false;
    bool found = false;
    as_role(call.table->rd_rel->relowner, [&] {
        RowResult result{};
        found = run_plan(run, Plan::find_hidden, &result, Row::unwanted, snapshot);
    });
    return found;
}

void column_names_argument(FunctionCallInfo fcinfo, int arg, const char *argument, RowCall *call) {
    Datum *names;
    bool *nulls;
    deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &names, &nulls, &call->names);
    if (call->names == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must name at least one column", argument)));
    call->name = static_cast<const char **>(palloc(sizeof(char *) * call->names));
    for (int i = 0; i < call->names; i++) {
        if (nulls[i])
            raise_null_argument(psprintf("an element of %s", argument));
        call->name[i] = NameStr(*DatumGetName(names[i]));
        for (int j = 0; j < i; j++)
            if (strcmp(call->name[i], call->name[j]) == 0)
                ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                                errmsg("%s names column \"%s\" more than once", argument, call->name[i])));
    }
}

ColumnList named_columns(const RowCall &call) {
    ColumnList list{call.names, static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * Max(call.names, 1)))};
    for (int i = 0; i < call.names; i++)
        list.columns[i] = column_number(call.table, call.name[i]);
    return list;
}

Datum insert_answer(FunctionCallInfo fcinfo, bool inserted, const Jsonb *row) {
    return make_answer(fcinfo, inserted ? "inserted" : "duplicate", row_column(row));
}

} // namespace idem
