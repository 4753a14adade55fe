// How long a message that could not be delivered rests before the next attempt, when its relay does not say.
#pragma once

#include "key_state.hpp"

#include <cstdint>

namespace idem::core {

inline constexpr Micros kFirstBackoff = 1'000'000;
inline constexpr Micros kLongestBackoff = 300'000'000;

// After the n-th failure, from 1 on: 1 s, twice as much with each, at most 5 min.
Micros backoff(std::int32_t failures);

} // namespace idem::core
