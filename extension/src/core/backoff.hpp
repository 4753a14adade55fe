// The delay before the next attempt to deliver a message, for a relay that does not set one.
#pragma once

#include "core/key_state.hpp"

#include <cstdint>

namespace idem::core {

inline constexpr Micros kFirstBackoff = 1'000'000;
inline constexpr Micros kMaxBackoff = 300'000'000;

// 1 s after the first failure, doubled by each further failure, at most 5 min.
Micros backoff(std::int32_t failures);

} // namespace idem::core
