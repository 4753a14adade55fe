#include "rows/compare_and_set.hpp"

namespace idem {

namespace {

struct Plan {
    enum { update, read, lock };
};
struct Control {
    enum { is_expected, reported, count };
};

// SELECT … WHERE key
StringInfoData read_statement(const RowStatement *statement, const RowCall &call, const CompareAndSet &flow) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "SELECT (%s) IS TRUE, %s", flow.expected.data, flow.control.data);
    append_row(&sql, call);
    appendStringInfoString(&sql, " FROM ");
    append_target(&sql, call.table);
    appendStringInfoString(&sql, " WHERE ");
    append_key_condition(&sql, call.table, flow.key, statement->reader[0].columns, statement->first[0]);
    return sql;
}

StringInfoData update_statement(const RowStatement *statement, const RowCall &call, const CompareAndSet &flow) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "UPDATE ");
    append_target(&sql, call.table);
    appendStringInfo(&sql, " SET %s WHERE ", flow.changes.data);
    append_key_condition(&sql, call.table, flow.key, statement->reader[0].columns, statement->first[0]);
    appendStringInfo(&sql, " AND (%s) RETURNING true, %s", flow.expected.data, flow.control.data);
    append_row(&sql, call);
    return sql;
}

Changed answer(Compared outcome, const RowResult &result) {
    return {outcome, !result.control_is_null[Control::reported], result.control[Control::reported], result.row};
}

} // namespace

CompareAndSet begin_compare_and_set(const RowStatement *statement, const RowCall &call) {
    CompareAndSet flow{};
    flow.key = unique_key(call.table, statement->reader[0].columns, Nulls::refused);
    initStringInfo(&flow.expected);
    initStringInfo(&flow.changes);
    initStringInfo(&flow.control);
    return flow;
}

void prepare_compare_and_set(RowStatement *statement, const RowCall &call, const CompareAndSet &flow) {
    statement->controls = Control::count;
    prepare_plan(statement, Plan::update, update_statement(statement, call, flow));
    StringInfoData sql = read_statement(statement, call, flow);
    prepare_plan(statement, Plan::read, sql);
    appendStringInfoString(&sql, " FOR UPDATE");
    prepare_plan(statement, Plan::lock, sql);
}

void append_equals(StringInfo sql, Relation table, AttrNumber column, int parameter) {
    Form_pg_attribute form = column_form(table, column);
    const Oid equality = lookup_type_cache(form->atttypid, TYPECACHE_EQ_OPR)->eq_opr;
    if (!OidIsValid(equality))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("could not identify an equality operator for type %s", format_type_be(form->atttypid)),
                        errdetail("Column \"%s\" cannot be compared.", NameStr(form->attname)), errtablecol(table, column)));
    append_column(sql, table, column);
    append_cast_to_base(sql, table, column);
    append_operator(sql, equality);
    appendStringInfo(sql, "$%d", parameter);
    append_cast_to_base(sql, table, column);
}

void append_is_same(StringInfo sql, Relation table, AttrNumber column, int parameter) {
    appendStringInfoString(sql, "((");
    append_equals(sql, table, column, parameter);
    appendStringInfoString(sql, ") IS TRUE OR (");
    // IS NULL is also true of a composite value whose fields are all null.
    appendStringInfoString(sql, "pg_catalog.num_nulls(");
    append_column(sql, table, column);
    appendStringInfo(sql, ", $%d) OPERATOR(pg_catalog.=) 2))", parameter);
}

void append_assignment(StringInfo sql, Relation table, AttrNumber column, int parameter) {
    appendStringInfo(sql, "%s%s = $%d", sql->len > 0 ? ", " : "", quote_identifier(column_name(table, column)), parameter);
}

Changed compare_and_set(const RowRun &run, const RowCall &call, Row row) {
    for (int attempt = 1;; attempt++) {
        check_for_interrupts();
        RowResult result{};
        if (run_plan(run, Plan::update, &result, row))
            return answer(Compared::changed, result);
        const Changed found = compare_only(run, row);
        if (found.outcome != Compared::changed)
            return found;
        // The row has become as expected after the UPDATE, or may not be updated. Once locked, it no longer changes.
        if (!run_plan(run, Plan::lock, &result, row)) {
            if (attempt >= kAttemptsAtHiddenRow && is_row_secured(call.table))
                return {Compared::missing, false, Datum{0}, nullptr};
            continue;
        }
        if (!DatumGetBool(result.control[Control::is_expected]))
            return answer(Compared::differs, result);
        if (run_plan(run, Plan::update, &result, row))
            return answer(Compared::changed, result);
        raise_suppressed(call.table, "UPDATE");
    }
}

Changed compare_only(const RowRun &run, Row row) {
    RowResult result{};
    if (!run_plan(run, Plan::read, &result, row))
        return {Compared::missing, false, Datum{0}, nullptr};
    return answer(DatumGetBool(result.control[Control::is_expected]) ? Compared::changed : Compared::differs, result);
}

const char *update_outcome(Compared outcome) {
    switch (outcome) {
    case Compared::changed:
        return "updated";
    case Compared::differs:
        return "conflict";
    case Compared::missing:
        break;
    }
    return "not_found";
}

} // namespace idem
