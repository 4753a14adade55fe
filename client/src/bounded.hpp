// Durations that can be added to the time of a clock.
#pragma once

#include <algorithm>
#include <chrono>

namespace idem::detail {

/// Clocks count nanoseconds in 64 bits: adding milliseconds::max() to their time overflows, adding 100 years does not.
inline constexpr std::chrono::milliseconds kLongestDuration = std::chrono::hours(24 * 365 * 100);

constexpr std::chrono::milliseconds bounded(std::chrono::milliseconds span) { return std::min(span, kLongestDuration); }

} // namespace idem::detail
