// Durations in human notation.
#pragma once

#include <chrono>
#include <string_view>

namespace idem::cli {

/// "30s", "5 min", "1h30m", "1.5 hours": numbers with units, added up. Units: ms, s, m (minutes), h, d (24 hours), w, and their
/// long forms. A number without a unit is rejected, except 0. At most 100 years; rounded to milliseconds.
/// Throws usage_error.
std::chrono::milliseconds parse_duration(std::string_view text);

} // namespace idem::cli
