#include "machines/machine_definition.hpp"

namespace idem {

namespace {

struct Steps {
    Definition definition;
    int capacity;
};

void add_step(Steps *steps, DefinitionStep step) {
    if (steps->definition.count == steps->capacity) {
        steps->capacity *= 2;
        steps->definition.steps =
            static_cast<DefinitionStep *>(repalloc_huge(steps->definition.steps, sizeof(DefinitionStep) * steps->capacity));
    }
    steps->definition.steps[steps->definition.count++] = step;
}

[[noreturn]] void refuse(const char *subject, const char *requirement) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be %s", subject, requirement),
                    errhint("A definition looks like {\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\", \"c\"]}}.")));
    pg_unreachable();
}

std::string_view view_of(const JsonbValue &value) { return {value.val.string.val, static_cast<size_t>(value.val.string.len)}; }

JsonbIterator *iterate(const JsonbValue &value, bool is_array, const char *subject) {
    const bool fits = value.type == jbvBinary &&
                      (is_array ? JsonContainerIsArray(value.val.binary.data) : JsonContainerIsObject(value.val.binary.data));
    if (!fits)
        refuse(subject, is_array ? "an array of states" : "an object");
    return JsonbIteratorInit(value.val.binary.data);
}

// Adds a step of this kind for each string of the array. `from`: the state that the transitions in it start from.
void read_states(Steps *steps, const JsonbValue &array, DefinitionStep::Kind kind, const char *subject,
                 std::string_view from = {}) {
    JsonbIterator *iterator = iterate(array, true, subject);
    JsonbValue value;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE; check_for_interrupts()) {
        if (token != WJB_ELEM)
            continue;
        if (value.type != jbvString)
            refuse(psprintf("each state in %s", subject), "a string");
        const std::string_view name = view_of(value);
        add_step(steps,
                 kind == DefinitionStep::Kind::transition ? DefinitionStep{kind, from, name} : DefinitionStep{kind, name, {}});
    }
}

void read_transitions(Steps *steps, const JsonbValue &object) {
    JsonbIterator *iterator = iterate(object, false, "\"transitions\"");
    JsonbValue value;
    std::string_view from;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE;) {
        if (token == WJB_KEY) {
            from = view_of(value);
            add_step(steps, {DefinitionStep::Kind::transitions, from, {}});
        } else if (token == WJB_VALUE) {
            const char *subject = psprintf("\"transitions\" of \"%s\"", pnstrdup(from.data(), from.size()));
            read_states(steps, value, DefinitionStep::Kind::transition, subject, from);
        }
    }
}

void read_member(Steps *steps, std::string_view member, const JsonbValue &value) {
    if (member == "initial")
        return read_states(steps, value, DefinitionStep::Kind::initial, "\"initial\"");
    if (member == "transitions")
        return read_transitions(steps, value);
    if (member != "states")
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("definition has an unknown member \"%s\"", pnstrdup(member.data(), member.size())),
                        errhint("Its members are \"initial\", \"transitions\" and, if you like, \"states\".")));
    add_step(steps, {DefinitionStep::Kind::states, {}, {}});
    read_states(steps, value, DefinitionStep::Kind::state, "\"states\"");
}

} // namespace

Definition read_definition(Jsonb *json) {
    if (!JB_ROOT_IS_OBJECT(json))
        refuse("definition", "a JSON object");
    Steps steps{{0, nullptr}, 16};
    steps.definition.steps = static_cast<DefinitionStep *>(palloc(sizeof(DefinitionStep) * steps.capacity));
    JsonbIterator *iterator = JsonbIteratorInit(&json->root);
    JsonbValue value;
    std::string_view member;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE;) {
        if (token == WJB_KEY)
            member = view_of(value);
        else if (token == WJB_VALUE)
            read_member(&steps, member, value);
    }
    return steps.definition;
}

core::StateGraph graph_of(const Definition &definition) {
    core::StateGraph::Builder builder;
    for (int i = 0; i < definition.count; i++) {
        const DefinitionStep &step = definition.steps[i];
        using Kind = DefinitionStep::Kind;
        switch (step.kind) {
        case Kind::states:
            builder.states_are_listed();
            break;
        case Kind::state:
            builder.state(step.name);
            break;
        case Kind::initial:
            builder.initial(step.name);
            break;
        case Kind::transitions:
            builder.transitions(step.name);
            break;
        case Kind::transition:
            builder.transition(step.name, step.to);
            break;
        }
    }
    return builder.build();
}

} // namespace idem
