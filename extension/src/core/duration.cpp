#include "core/duration.hpp"

namespace idem::core {

std::optional<Micros> duration(std::int32_t months, std::int32_t days, Micros time) {
    std::int64_t whole_days = std::int64_t{months} * 30 + days + time / kMicrosPerDay;
    Micros rest = time % kMicrosPerDay;
    // Days and rest get the same sign; otherwise one could overflow although the sum does not.
    if (whole_days < 0 && rest > 0) {
        ++whole_days;
        rest -= kMicrosPerDay;
    } else if (whole_days > 0 && rest < 0) {
        --whole_days;
        rest += kMicrosPerDay;
    }
    Micros span;
    if (__builtin_mul_overflow(whole_days, kMicrosPerDay, &span) || __builtin_add_overflow(span, rest, &span))
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

std::int32_t milliseconds(Micros span) {
    const Micros whole = span / 1000 + (span % 1000 > 0);
    return whole > INT32_MAX ? INT32_MAX : static_cast<std::int32_t>(whole);
}

} // namespace idem::core
