#include "rows/row_observer.hpp"

namespace idem {

namespace {

constexpr char kName[] = "idem";

void show_row(ExprState *, ExprEvalStep *step, ExprContext *context) {
    const auto *observer = static_cast<const RowObserver *>(step->d.cparam.paramarg);
    observer->observe(observer->argument, context->ecxt_scantuple);
    *step->resvalue = BoolGetDatum(true);
    *step->resnull = false;
}

void compile_parameter(ParamListInfo list, Param *parameter, ExprState *state, Datum *value, bool *is_null) {
    ExprEvalStep step{};
    step.resvalue = value;
    step.resnull = is_null;
    if (parameter->paramid == list->numParams) {
        step.opcode = EEOP_PARAM_CALLBACK;
        step.d.cparam.paramfunc = show_row;
        step.d.cparam.paramarg = list->paramCompileArg;
    } else {
        step.opcode = EEOP_PARAM_EXTERN;
        step.d.param.paramid = parameter->paramid;
        step.d.param.paramtype = parameter->paramtype;
    }
    ExprEvalPushStep(state, &step);
}

} // namespace

ModifyTable *unobserved_insert(const CachedPlan *plan, Oid table) {
    const auto *planned = linitial_node(PlannedStmt, plan->stmt_list);
    if (!IsA(planned->planTree, ModifyTable))
        return nullptr;
    auto *insert = castNode(ModifyTable, planned->planTree);
    if (insert->operation != CMD_INSERT || rt_fetch(linitial_int(insert->resultRelations), planned->rtable)->relid != table)
        return nullptr;
    const List *checks = insert->withCheckOptionLists;
    const bool is_observed = checks != NIL && linitial_node(WithCheckOption, linitial_node(List, checks))->relname == kName;
    return is_observed ? nullptr : insert;
}

void add_observer(CachedPlan *plan, ModifyTable *insert, int parameter) {
    const MemoryContext caller = MemoryContextSwitchTo(plan->context);
    Param *observer = makeNode(Param);
    observer->paramkind = PARAM_EXTERN;
    observer->paramid = parameter;
    observer->paramtype = BOOLOID;
    observer->paramtypmod = observer->location = -1;
    WithCheckOption *check = makeNode(WithCheckOption);
    check->kind = WCO_RLS_INSERT_CHECK;
    check->relname = const_cast<char *>(kName);
    check->qual = reinterpret_cast<Node *>(list_make1(observer));
    List *others = insert->withCheckOptionLists == NIL ? NIL : linitial_node(List, insert->withCheckOptionLists);
    insert->withCheckOptionLists = list_make1(lcons(check, others));
    MemoryContextSwitchTo(caller);
}

ParamListInfo observed_parameters(const Oid *types, const Datum *values, const char *nulls, int count,
                                  const RowObserver *observer) {
    ParamListInfo list = makeParamList(count);
    for (int i = 0; i < count; i++)
        list->params[i] = {values[i], nulls[i] == 'n', PARAM_FLAG_CONST, types[i]};
    list->paramCompile = compile_parameter;
    list->paramCompileArg = const_cast<RowObserver *>(observer);
    return list;
}

} // namespace idem
