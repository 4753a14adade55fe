// The steps of a key's work, as one JSON object in its row: {"charge": {"id": 7}, "mail": null}. The value is the output of a
// step that is done; null: the step is intended.
#pragma once

#include "core/key_state.hpp"
#include "keys/holder.hpp"

namespace idem {

core::StepFacts step_facts(const KeyRow &row, const Step &step);

// Raises 54000 when the steps of the row would be larger than a response may be.
void set_step(KeyRow *row, const Step &step, const ScopePolicy &policy);

} // namespace idem
