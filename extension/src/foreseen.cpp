#include "foreseen.hpp"

namespace idem {

namespace {

[[noreturn]] void raise_unforeseeable(Relation table, AttrNumber column) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("new_row lacks column \"%s\" of table \"%s\"", column_name(table, column), RelationGetRelationName(table)),
             errdetail("Its default gives every row another value, so such a row is never a duplicate."),
             errhint("Give the column, or name the columns of another unique key."), errtablecol(table, column)));
    pg_unreachable();
}

// The planned expression for a column that is not given, in the statement's memory.
Expr *expression_for(const RowStatement *statement, Relation table, AttrNumber column) {
    Node *expression = build_column_default(table, column);
    if (expression == nullptr)
        return nullptr;
    if (column_form(table, column)->attidentity != '\0' || contain_volatile_functions(expression))
        raise_unforeseeable(table, column);
    const MemoryContext caller = MemoryContextSwitchTo(statement->memory);
    auto *planned = static_cast<Expr *>(copyObjectImpl(expression_planner(reinterpret_cast<Expr *>(expression))));
    MemoryContextSwitchTo(caller);
    return planned;
}

ForeseenColumn foresee_column(RowStatement *statement, const RowCall &call, AttrNumber column, bool needs_parameter) {
    const int position = position_in(statement->reader[0].columns, column);
    if (position >= 0)
        return {column, statement->first[0] + position, nullptr, true};
    const int parameter = needs_parameter ? add_parameter(statement, column_form(call.table, column)->atttypid) : 0;
    return {column, parameter, expression_for(statement, call.table, column), false};
}

// The columns that the generation expressions of `foreseen` refer to.
ColumnList columns_used(const Foreseen &foreseen) {
    Bitmapset *used = nullptr;
    for (int i = 0; i < foreseen.count; i++)
        pull_varattnos(reinterpret_cast<Node *>(foreseen.columns[i].expression), 1, &used);
    ColumnList list{0, static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * Max(bms_num_members(used), 1)))};
    for (int i = bms_next_member(used, -1); i >= 0; i = bms_next_member(used, i))
        if (i + FirstLowInvalidHeapAttributeNumber > 0)
            list.columns[list.count++] = static_cast<AttrNumber>(i + FirstLowInvalidHeapAttributeNumber);
    return list;
}

ForeseenColumn *foresee_list(RowStatement *statement, const RowCall &call, const ColumnList &columns, bool need_parameters) {
    auto *list = static_cast<ForeseenColumn *>(
        MemoryContextAllocZero(statement->memory, sizeof(ForeseenColumn) * Max(columns.count, 1)));
    for (int i = 0; i < columns.count; i++)
        list[i] = foresee_column(statement, call, columns.columns[i], need_parameters);
    return list;
}

struct Value {
    Datum datum;
    bool is_null;
};

Value value_of(const RowRun &run, const ForeseenColumn &column, EState *state) {
    if (column.is_given)
        return {run.values.get(column.parameter), run.values.is_null(column.parameter)};
    if (column.expression == nullptr)
        return {Datum{0}, true};
    Value value;
    ExprState *expression = ExecPrepareExpr(column.expression, state);
    value.datum = ExecEvalExpr(expression, GetPerTupleExprContext(state), &value.is_null);
    return value;
}

// A row that has the columns which generation expressions refer to.
TupleTableSlot *input_row(const RowRun &run, const RowCall &call, const Foreseen &foreseen, EState *state) {
    TupleTableSlot *row = MakeSingleTupleTableSlot(RelationGetDescr(call.table), &TTSOpsVirtual);
    ExecStoreAllNullTuple(row);
    for (int i = 0; i < foreseen.inputs; i++) {
        const Value value = value_of(run, foreseen.input[i], state);
        row->tts_values[foreseen.input[i].column - 1] = value.datum;
        row->tts_isnull[foreseen.input[i].column - 1] = value.is_null;
    }
    return row;
}

} // namespace

Foreseen *foresee_columns(RowStatement *statement, const RowCall &call, const ColumnList &columns) {
    auto *foreseen = static_cast<Foreseen *>(MemoryContextAllocZero(statement->memory, sizeof(Foreseen)));
    foreseen->count = columns.count;
    foreseen->columns = foresee_list(statement, call, columns, true);
    const ColumnList used = columns_used(*foreseen);
    foreseen->inputs = used.count;
    foreseen->input = foresee_list(statement, call, used, false);
    return foreseen;
}

void foresee_values(const RowRun &run, const RowCall &call, const Foreseen &foreseen) {
    EState *state = CreateExecutorState();
    TupleTableSlot *row = input_row(run, call, foreseen, state);
    GetPerTupleExprContext(state)->ecxt_scantuple = row;
    for (int i = 0; i < foreseen.count; i++) {
        const ForeseenColumn &column = foreseen.columns[i];
        if (column.is_given)
            continue;
        const Value value = value_of(run, column, state);
        if (!value.is_null) {
            Form_pg_attribute form = column_form(call.table, column.column);
            run.values.nulls[column.parameter - 1] = ' ';
            run.values.values[column.parameter - 1] = datumCopy(value.datum, form->attbyval, form->attlen);
        }
    }
    ExecDropSingleTupleTableSlot(row);
    FreeExecutorState(state);
}

} // namespace idem
