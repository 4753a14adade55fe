// How long "for ever" is: the clocks count nanoseconds in 64 bits, and milliseconds::max() added to them is long past.
#pragma once

#include <algorithm>
#include <chrono>

namespace idem::detail {

inline constexpr std::chrono::milliseconds kForEver = std::chrono::hours(24 * 365 * 100);

/// A duration that can be added to the time of a clock.
constexpr std::chrono::milliseconds bounded(std::chrono::milliseconds span) { return std::min(span, kForEver); }

} // namespace idem::detail
