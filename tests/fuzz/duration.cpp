// Durations and deadlines against arithmetic that cannot overflow.
#include "core/duration.hpp"

#include "fuzz.hpp"

namespace {

using namespace idem;
using core::Micros;
using Exact = __int128;

constexpr Exact kLeast = INT64_MIN, kGreatest = INT64_MAX;

} // namespace

FUZZ_TARGET(input) {
    const auto months = input.number<std::int32_t>(), days = input.number<std::int32_t>();
    const auto time = input.number<Micros>();
    const Exact sum = (Exact{months} * 30 + days) * core::kMicrosPerDay + time;
    const auto span = core::duration(months, days, time);
    REQUIRE(span.has_value() == (sum >= kLeast && sum <= kGreatest));
    REQUIRE(!span || *span == sum);

    // A span's end, for spans that are let through: not negative.
    const auto now = input.number<Micros>(), last = input.number<Micros>();
    const auto wait = span && *span >= 0 ? *span : input.number<Micros>() & INT64_MAX;
    const auto end = core::deadline(now, wait, last);
    if (wait == core::kForever) {
        REQUIRE(end == core::kForever);
        return;
    }
    const Exact exact = Exact{now} + wait;
    REQUIRE(end.has_value() == (exact <= kGreatest && exact <= last));
    REQUIRE(!end || *end == exact);
}
