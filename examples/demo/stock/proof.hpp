// One article, more buyers than units: "SELECT, then UPDATE" against conditional_adjust, optimistic_update and
// pessimistic_lock.
#pragma once

#include <cstdint>

namespace demo::stock {

// Lets the same buyers at all flows, one flow after the other, and prints who got what. True: the proof holds.
bool prove(std::uint64_t seed);

} // namespace demo::stock
