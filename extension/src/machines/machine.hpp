// State machines by name: their graphs, and the errors for transitions that a graph lacks.
#pragma once

#include "core/state_graph.hpp"
#include "storage/member.hpp"

namespace idem {

extern Member machines_table;

inline constexpr int kMaxMachineBytes = 255;

// Argument `arg` as a machine's name: 22004 when NULL, 22023 when empty or over 255 bytes.
char *machine_argument(FunctionCallInfo fcinfo, int arg);

// The machine as it is defined now, including changes of this transaction. 42704 when there is none. It is read from memory
// unless a definition changed. Valid until the next call of this function.
const core::StateGraph &machine_graph(const char *name);

// The names of a graph's states, in the current memory context.
struct StateNames {
    int count;
    const char **names;
};
StateNames state_names(const core::StateGraph &graph);

// ID003. A null pointer stands for a NULL state. `table` and `column`: of the row, if there is one.
[[noreturn]] void raise_transition_not_allowed(const char *machine, const char *from, const char *to, Relation table = nullptr,
                                               AttrNumber column = InvalidAttrNumber, HeapTuple row = nullptr);
[[noreturn]] void raise_not_initial(const char *machine, const char *state, Relation table, AttrNumber column, HeapTuple row);

} // namespace idem
