// A machine's definition, from jsonb to graph. The way is in two parts, as the first needs the server and the second must not
// call it.
#pragma once

#include "core/state_graph.hpp"
#include "server/pg.hpp"

namespace idem {

// What a definition says, member by member. The names point into the jsonb.
struct DefinitionStep {
    enum Kind { states, state, initial, transitions, transition } kind;
    std::string_view name, to;
};
struct Definition {
    int count;
    DefinitionStep *steps;
};

// 22023 where the shape is wrong; what the names mean is the graph's to check.
Definition read_definition(Jsonb *json);

// Core code: throws, and calls nothing of the server's.
core::StateGraph graph_of(const Definition &definition);

} // namespace idem
