#include "keys/step.hpp"

#include "keys/key_row.hpp"
#include "server/arguments.hpp"
#include "server/json_builder.hpp"

namespace idem {

namespace {

using core::StepState;

JsonbValue name_of(const Step &step) { return string_value({VARDATA_ANY(step.name), VARSIZE_ANY_EXHDR(step.name)}); }

JsonbValue value_of(const Jsonb *document) {
    if (document != nullptr)
        return document_value(document);
    JsonbValue value;
    value.type = jbvNull;
    return value;
}

const Jsonb *object_of(const Step &step) {
    JsonBuilder object = JsonBuilder::object();
    object.add_member(name_of(step), value_of(step.output));
    return object.finish_object();
}

Datum with_step(const KeyRow &row, const Step &step) {
    const Datum added = PointerGetDatum(object_of(step));
    return row.is_null(KeyColumn::steps) ? added : DirectFunctionCall2(jsonb_concat, row.get(KeyColumn::steps), added);
}

bool is_json_null(const Jsonb *document) {
    JsonbValue value;
    return JsonbExtractScalar(const_cast<JsonbContainer *>(&document->root), &value) && value.type == jbvNull;
}

const Jsonb *output_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        return nullptr;
    const Jsonb *output = PG_GETARG_JSONB_P(arg);
    if (is_json_null(output))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("output must not be the JSON value null"),
                        errdetail("Among the steps of a key, null says that a step is intended."),
                        errhint("For a step without output, give an empty object.")));
    return output;
}

} // namespace

core::StepFacts step_facts(const KeyRow &row, const Step &step) {
    core::StepFacts facts{StepState::absent, step.output != nullptr, false};
    if (row.is_null(KeyColumn::steps))
        return facts;
    Jsonb *steps = DatumGetJsonbP(row.get(KeyColumn::steps));
    JsonbValue name = name_of(step);
    JsonbValue *stored = findJsonbValueFromContainer(&steps->root, JB_FOBJECT, &name);
    if (stored == nullptr)
        return facts;
    facts.state = stored->type == jbvNull ? StepState::intended : StepState::done;
    if (facts.state == StepState::done && facts.output_given)
        facts.same_output =
            compareJsonbContainers(&JsonbValueToJsonb(stored)->root, const_cast<JsonbContainer *>(&step.output->root)) == 0;
    return facts;
}

void set_step(KeyRow *row, const Step &step, const ScopePolicy &policy) {
    const Datum steps = with_step(*row, step);
    const int size = response_size(DatumGetJsonbP(steps));
    if (size > policy.max_response_size)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("steps are too large"),
                 errdetail("They would have %d bytes; the scope allows %d.", size, policy.max_response_size),
                 errhint("Store less, or raise max_response_size of the scope, or the setting idem.max_response_size.")));
    row->set(KeyColumn::steps, steps);
}

Step step_arguments(FunctionCallInfo fcinfo, int name_arg, int output_arg) {
    return {key_argument(fcinfo, name_arg, "step"), output_argument(fcinfo, output_arg)};
}

} // namespace idem
