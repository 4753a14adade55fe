#include "duration.hpp"

namespace idem::core {

std::optional<Micros> duration(std::int32_t months, std::int32_t days, Micros time) {
    const std::int64_t whole_days = std::int64_t{months} * 30 + days;
    Micros span;
    if (__builtin_mul_overflow(whole_days, kMicrosPerDay, &span) || __builtin_add_overflow(span, time, &span))
        return std::nullopt;
    return span;
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
