// Durations: an interval counts as a span of time, not of calendar (contract, section 2): a day is 24 h, a month 30 days,
// whatever the session's TimeZone says.
#pragma once

#include "key_state.hpp"

#include <optional>

namespace idem::core {

inline constexpr Micros kMicrosPerDay = 86'400'000'000;

// The parts of an SQL interval as microseconds; nothing when the sum does not fit.
std::optional<Micros> duration(std::int32_t months, std::int32_t days, Micros time);

// `now + span`; nothing past `last`, the largest finite timestamp. kForever stays kForever.
std::optional<Micros> deadline(Micros now, Micros span, Micros last);

} // namespace idem::core
