// Orders on their way through their states, moved by two workers at once: "SELECT, then UPDATE" against idem_transition.
#pragma once

#include <cstdint>

namespace demo::orders {

// Sends the same events through both halves and prints what became of the orders. True: the proof holds.
bool prove(std::uint64_t seed);

} // namespace demo::orders
