// Durations. An interval counts as a span of time and not of the calendar (contract, section 2): a day is 24 h and a month 30
// days in every time zone.
#pragma once

#include "core/key_state.hpp"

#include <optional>

namespace idem::core {

// Returns an SQL interval in microseconds, or nullopt when the sum does not fit.
std::optional<Micros> duration(std::int32_t months, std::int32_t days, Micros time);

// Returns `now + span`, or nullopt past `last`, the largest finite timestamp. A `span` of kForever returns kForever.
std::optional<Micros> deadline(Micros now, Micros span, Micros last);

// The milliseconds of a span that is not negative, rounded up: a caller that waits for so long does not come too early. A span
// that an SQL integer cannot hold (24 days) becomes the largest one.
std::int32_t milliseconds(Micros span);

} // namespace idem::core
