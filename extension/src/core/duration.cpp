#include "duration.hpp"

namespace idem::core {

std::optional<Micros> duration(std::int32_t months, std::int32_t days, Micros time) {
    // Wide enough for any sum: parts of different signs may each be out of range.
    const __int128 span = (static_cast<__int128>(months) * 30 + days) * kMicrosPerDay + time;
    if (span < INT64_MIN || span > INT64_MAX)
        return std::nullopt;
    return static_cast<Micros>(span);
}

std::optional<Micros> deadline(Micros now, Micros span, Micros last) {
    if (span == kForever)
        return kForever;
    Micros end;
    if (__builtin_add_overflow(now, span, &end) || end > last)
        return std::nullopt;
    return end;
}

} // namespace idem::core
