#include "rows/foreseen.hpp"

#include "server/subtransaction.hpp"

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

// The expression for a column that is not given, in the statement's memory. It is not planned: a plan may contain the body of a
// function, which may be replaced later.
Expr *expression_for(const RowStatement *statement, Relation table, AttrNumber column) {
    Node *expression = build_column_default(table, column);
    if (expression == nullptr)
        return nullptr;
    if (column_form(table, column)->attidentity != '\0' || contain_volatile_functions(expression))
        raise_unforeseeable(table, column);
    const MemoryContext caller = MemoryContextSwitchTo(statement->memory);
    auto *copy = static_cast<Expr *>(copyObjectImpl(expression));
    MemoryContextSwitchTo(caller);
    return copy;
}

ForeseenColumn foresee_column(RowStatement *statement, const RowCall &call, AttrNumber column, bool needs_parameter) {
    const int position = position_in(statement->reader[0].columns, column);
    ForeseenColumn foreseen{column, 0, position >= 0 ? statement->first[0] + position : 0, nullptr};
    if (needs_parameter)
        foreseen.parameter = add_parameter(statement, column_form(call.table, column)->atttypid);
    if (foreseen.given == 0)
        foreseen.expression = expression_for(statement, call.table, column);
    return foreseen;
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
    if (column.given != 0)
        return {run.values.get(column.given), run.values.is_null(column.given)};
    if (column.expression == nullptr)
        return {Datum{0}, true};
    Value value;
    ExprState *expression = ExecPrepareExpr(column.expression, state);
    value.datum = ExecEvalExpr(expression, GetPerTupleExprContext(state), &value.is_null);
    return value;
}

// A row with the columns that generation expressions refer to.
TupleTableSlot *input_row(const RowRun &run, const RowCall &call, const Foreseen &foreseen, EState *state) {
    TupleTableSlot *row = MakeSingleTupleTableSlot(RelationGetDescr(call.table), &TTSOpsVirtual);
    ExecStoreAllNullTuple(row);
    row->tts_tableOid = RelationGetRelid(call.table);
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

namespace {

void set_parameter(const RowRun &run, const RowCall &call, const ForeseenColumn &column, Value value) {
    Form_pg_attribute form = column_form(call.table, column.column);
    run.values.nulls[column.parameter - 1] = value.is_null ? 'n' : ' ';
    if (!value.is_null) {
        const MemoryContext own = MemoryContextSwitchTo(run.memory);
        run.values.values[column.parameter - 1] = datumCopy(value.datum, form->attbyval, form->attlen);
        MemoryContextSwitchTo(own);
    }
}

} // namespace

void foresee_values(const RowRun &run, const RowCall &call, const Foreseen &foreseen) {
    EState *state = CreateExecutorState();
    TupleTableSlot *row = input_row(run, call, foreseen, state);
    GetPerTupleExprContext(state)->ecxt_scantuple = row;
    for (int i = 0; i < foreseen.count; i++)
        set_parameter(run, call, foreseen.columns[i], value_of(run, foreseen.columns[i], state));
    ExecDropSingleTupleTableSlot(row);
    FreeExecutorState(state);
}

namespace {

// The row as the executor would pass it to the triggers: given values, defaults, nulls.
void fill_new_row(TupleTableSlot *row, const RowRun &run, const RowCall &call, EState *state) {
    ExecStoreAllNullTuple(row);
    row->tts_tableOid = RelationGetRelid(call.table);
    for (AttrNumber column = 1; column <= RelationGetDescr(call.table)->natts; column++) {
        Form_pg_attribute form = column_form(call.table, column);
        const int position = position_in(run.statement->reader[0].columns, column);
        if (form->attisdropped || form->attgenerated != '\0')
            continue;
        ForeseenColumn source{column, 0, position >= 0 ? run.statement->first[0] + position : 0, nullptr};
        if (position < 0) {
            Node *expression = build_column_default(call.table, column);
            if (expression != nullptr)
                source.expression = reinterpret_cast<Expr *>(expression);
        }
        const Value value = value_of(run, source, state);
        row->tts_values[column - 1] = value.datum;
        row->tts_isnull[column - 1] = value.is_null;
    }
}

void generate(ResultRelInfo *target, EState *state, TupleTableSlot *row) {
    const TupleConstr *constraints = RelationGetDescr(target->ri_RelationDesc)->constr;
    if (constraints != nullptr && constraints->has_generated_stored)
        ExecComputeStoredGenerated(target, state, row, CMD_INSERT);
    slot_getallattrs(row);
}

} // namespace

bool foresee_triggered_values(const RowRun &run, const RowCall &call, const Foreseen &foreseen) {
    bool passed_triggers = false;
    in_subtransaction([&] {
        EState *state = CreateExecutorState();
        ResultRelInfo *target = makeNode(ResultRelInfo);
        InitResultRelInfo(target, call.table, 1, nullptr, 0);
        TupleTableSlot *row = MakeSingleTupleTableSlot(RelationGetDescr(call.table), &TTSOpsVirtual);
        fill_new_row(row, run, call, state);
        passed_triggers = ExecBRInsertTriggers(state, target, row);
        if (passed_triggers) {
            generate(target, state, row);
            for (int i = 0; i < foreseen.count; i++) {
                const int column = foreseen.columns[i].column - 1;
                set_parameter(run, call, foreseen.columns[i], {row->tts_values[column], row->tts_isnull[column]});
            }
        }
        ExecDropSingleTupleTableSlot(row);
        FreeExecutorState(state);
        return false;
    });
    return passed_triggers;
}

} // namespace idem
