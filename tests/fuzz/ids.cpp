// Snowflake ids, the generator's high-water mark and UUIDs: parts and whole are one another's inverse; the next id is the least
// that may be; and no value is handed out twice, whatever the clock does and whenever the server crashes.
#include "core/high_water.hpp"
#include "core/snowflake.hpp"
#include "core/uuid_v7.hpp"

#include "fuzz.hpp"

namespace {

using namespace idem;
using core::Micros;
using idem::fuzz::Input;

// What a timestamptz can be; the clock of UUIDs stops in the year 9999.
constexpr Micros kFirstTime = -211'813'488'000'000'000, kLastTime = 9'223'371'331'199'999'999;
constexpr Micros kYear10000 = 252'455'616'000'000'000;

constexpr std::int64_t kSequences = 1 << core::kSequenceBits;

void check_parts(Input &input) {
    const std::int64_t id = input.number<std::int64_t>() & INT64_MAX;
    const core::IdParts parts = core::id_parts(id);
    REQUIRE(parts.millis >= 0 && parts.millis <= core::kLastIdMillis);
    REQUIRE(parts.node >= 0 && parts.node < core::kNodes);
    REQUIRE(parts.sequence >= 0 && parts.sequence < kSequences);
    REQUIRE((parts.millis * core::kNodes + parts.node) * kSequences + parts.sequence == id);
    REQUIRE(core::compose_id(parts) == id);

    const Micros time = input.between(kFirstTime, kLastTime);
    const auto millis = static_cast<__int128>(core::id_millis(time));
    REQUIRE(core::kIdEpoch + millis * 1000 <= time && time < core::kIdEpoch + (millis + 1) * 1000);
}

// The least id of `node` that is not less than `least`, or -1: in the millisecond of `least`, or the first of the next one.
std::int64_t least_id(__int128 least, int node) {
    const __int128 millis = least / (core::kNodes * kSequences);
    const __int128 first = (millis * core::kNodes + node) * kSequences;
    const __int128 next = first + kSequences > least ? std::max(first, least) : first + core::kNodes * kSequences;
    return next <= INT64_MAX ? static_cast<std::int64_t>(next) : -1;
}

void check_next(Input &input) {
    const std::int64_t last = input.number<std::int64_t>() & INT64_MAX;
    // Near the last id's time, mostly: else the clock alone decides.
    const std::int64_t clock =
        input.flag() ? core::id_parts(last).millis + input.number<std::int8_t>() : input.number<std::int64_t>();
    const int node = static_cast<int>(input.below(core::kNodes));
    const __int128 from_clock = static_cast<__int128>(std::max<std::int64_t>(clock, 0)) * core::kNodes * kSequences;
    const std::int64_t expected = least_id(std::max<__int128>(static_cast<__int128>(last) + 1, from_clock), node);
    const auto id = core::next_id(last, clock, node);
    REQUIRE(id.value_or(-1) == expected);
}

// As the generator uses it: the mark in memory is ahead of the one on disk only up to what is reserved there.
void check_high_water(Input &input) {
    core::HighWater mark{input.between<std::int64_t>(0, INT64_MAX / 2), 0}, durable;
    mark.reserved = input.between<std::int64_t>(mark.last, INT64_MAX / 2);
    durable = mark;
    std::int64_t greatest = mark.last;
    bool restarted = true;
    while (!input.empty()) {
        if (input.flag()) { // a crash: memory is lost, or happens to have been written out
            mark = input.flag() ? mark : durable;
            restarted = true;
        }
        const std::int64_t ahead = input.between<std::int64_t>(0, 1'000'000);
        const std::int64_t clock = input.between<std::int64_t>(-1, INT64_MAX / 2);
        const std::int64_t floor = input.flag() ? input.between<std::int64_t>(0, INT64_MAX / 2) : 0;
        const std::int64_t value = core::next_value(core::greatest_used(mark, restarted), clock, floor);
        REQUIRE(value > greatest && value > floor && value >= clock);
        const auto step = core::advance(mark, value, ahead, restarted);
        restarted = false;
        mark = step.mark;
        REQUIRE(mark.last == value && mark.reserved >= value);
        if (step.reserve)
            durable = mark;
        REQUIRE(durable.reserved >= value);
        greatest = value;
    }
}

void check_uuid(Input &input) {
    const Micros time = input.between(kFirstTime, kYear10000), later = input.between(time, kYear10000);
    REQUIRE(core::uuid_stamp(time) <= core::uuid_stamp(later));
    const core::UuidStamp stamp = core::uuid_stamp(time);
    REQUIRE(stamp < core::UuidStamp{1} << 60);
    REQUIRE(core::next_uuid_stamp(stamp, core::uuid_stamp(later)) > stamp);
    std::uint8_t random[core::kUuidRandomBytes] = {};
    const std::string_view bytes = input.take(sizeof random);
    std::copy(bytes.begin(), bytes.end(), random);
    const core::Uuid uuid = core::make_uuid_v7(stamp, random);
    REQUIRE(uuid[6] >> 4 == 7);
    REQUIRE(uuid[8] >> 6 == 2);
    REQUIRE(core::make_uuid_v7(stamp + 1, random) > uuid);
    core::UuidStamp read = 0;
    for (int i = 0; i < 6; i++)
        read = read << 8 | uuid[i];
    REQUIRE((read << 12 | (uuid[6] & 15u) << 8 | uuid[7]) == stamp);
    REQUIRE(std::equal(uuid.begin() + 9, uuid.end(), random + 1) && (uuid[8] & 63) == (random[0] & 63));
}

} // namespace

FUZZ_TARGET(input) {
    switch (input.below(4)) {
    case 0:
        return check_parts(input);
    case 1:
        return check_next(input);
    case 2:
        return check_high_water(input);
    default:
        return check_uuid(input);
    }
}
