#include "machines/machine_definition.hpp"

namespace idem {

namespace {

struct Steps {
    Definition made;
    int room;
};

void add_step(Steps *steps, DefinitionStep step) {
    if (steps->made.count == steps->room) {
        steps->room *= 2;
        steps->made.steps =
            static_cast<DefinitionStep *>(repalloc_huge(steps->made.steps, sizeof(DefinitionStep) * steps->room));
    }
    steps->made.steps[steps->made.count++] = step;
}

[[noreturn]] void refuse(const char *what, const char *needed) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be %s", what, needed),
                    errhint("A definition looks like {\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\", \"c\"]}}.")));
    pg_unreachable();
}

std::string_view view_of(const JsonbValue &value) { return {value.val.string.val, static_cast<size_t>(value.val.string.len)}; }

JsonbIterator *iterate(const JsonbValue &value, bool is_array, const char *what) {
    const bool fits = value.type == jbvBinary &&
                      (is_array ? JsonContainerIsArray(value.val.binary.data) : JsonContainerIsObject(value.val.binary.data));
    if (!fits)
        refuse(what, is_array ? "an array of states" : "an object");
    return JsonbIteratorInit(value.val.binary.data);
}

// One step of the kind for each string of the array. `from`: of the transitions in it.
void read_states(Steps *steps, const JsonbValue &array, DefinitionStep::Kind kind, const char *what,
                 std::string_view from = {}) {
    JsonbIterator *iterator = iterate(array, true, what);
    JsonbValue value;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE; check_for_interrupts()) {
        if (token != WJB_ELEM)
            continue;
        if (value.type != jbvString)
            refuse(psprintf("each state in %s", what), "a string");
        const std::string_view name = view_of(value);
        add_step(steps, kind == DefinitionStep::transition ? DefinitionStep{kind, from, name} : DefinitionStep{kind, name, {}});
    }
}

void read_transitions(Steps *steps, const JsonbValue &object) {
    JsonbIterator *iterator = iterate(object, false, "\"transitions\"");
    JsonbValue value;
    std::string_view from;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE;) {
        if (token == WJB_KEY) {
            from = view_of(value);
            add_step(steps, {DefinitionStep::transitions, from, {}});
        } else if (token == WJB_VALUE) {
            const char *what = psprintf("\"transitions\" of \"%s\"", pnstrdup(from.data(), from.size()));
            read_states(steps, value, DefinitionStep::transition, what, from);
        }
    }
}

void read_member(Steps *steps, std::string_view member, const JsonbValue &value) {
    if (member == "initial")
        return read_states(steps, value, DefinitionStep::initial, "\"initial\"");
    if (member == "transitions")
        return read_transitions(steps, value);
    if (member != "states")
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("definition has an unknown member \"%s\"", pnstrdup(member.data(), member.size())),
                        errhint("Its members are \"initial\", \"transitions\" and, if you like, \"states\".")));
    add_step(steps, {DefinitionStep::states, {}, {}});
    read_states(steps, value, DefinitionStep::state, "\"states\"");
}

} // namespace

Definition read_definition(Jsonb *json) {
    if (!JB_ROOT_IS_OBJECT(json))
        refuse("definition", "a JSON object");
    Steps steps{{0, nullptr}, 16};
    steps.made.steps = static_cast<DefinitionStep *>(palloc(sizeof(DefinitionStep) * steps.room));
    JsonbIterator *iterator = JsonbIteratorInit(&json->root);
    JsonbValue value;
    std::string_view member;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE;) {
        if (token == WJB_KEY)
            member = view_of(value);
        else if (token == WJB_VALUE)
            read_member(&steps, member, value);
    }
    return steps.made;
}

core::StateGraph graph_of(const Definition &definition) {
    core::StateGraph::Builder builder;
    for (int i = 0; i < definition.count; i++) {
        const DefinitionStep &step = definition.steps[i];
        switch (step.kind) {
        case DefinitionStep::states:
            builder.states_are_listed();
            break;
        case DefinitionStep::state:
            builder.state(step.name);
            break;
        case DefinitionStep::initial:
            builder.initial(step.name);
            break;
        case DefinitionStep::transitions:
            builder.transitions(step.name);
            break;
        case DefinitionStep::transition:
            builder.transition(step.name, step.to);
            break;
        }
    }
    return builder.build();
}

} // namespace idem
