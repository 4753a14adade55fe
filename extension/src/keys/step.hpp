// The steps of a key's work, as one JSON object in its row: {"charge": {"id": 7}, "mail": null}. The value is the output of a
// step that is done; null: the step is intended.
#pragma once

#include "core/key_state.hpp"
#include "scopes/scope.hpp"
#include "storage/key_record.hpp"

namespace idem {

struct Step {
    const text *name;
    const Jsonb *output; // nullptr: the step is intended
};

core::StepFacts step_facts(const KeyRow &row, const Step &step);

// Raises 54000 when the steps of the row would be larger than a response may be.
void set_step(KeyRow *row, const Step &step, const ScopePolicy &policy);

// The arguments of idem_step. Raises 22004 for a name that is null, and 22023 for an output that is JSON's null.
Step step_arguments(FunctionCallInfo fcinfo, int name_arg, int output_arg);

} // namespace idem
