// A machine's definition, from jsonb to graph. There are two steps, as the first needs the server and the second must not call
// it.
#pragma once

#include "core/state_graph.hpp"
#include "server/pg.hpp"

namespace idem {

// One thing that a definition says. The names point into the jsonb.
struct DefinitionStep {
    enum class Kind { states, state, initial, transitions, transition };
    Kind kind;
    std::string_view name, to;
};

// The members of a definition, in their order.
struct Definition {
    int count;
    DefinitionStep *steps;
};

// 22023 when the shape is wrong. The graph checks the names.
Definition read_definition(Jsonb *json);

// Core code: it throws, and calls no function of the server.
core::StateGraph graph_of(const Definition &definition);

} // namespace idem
