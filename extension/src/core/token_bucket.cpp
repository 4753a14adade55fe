#include "token_bucket.hpp"

#include <algorithm>
#include <cmath>

namespace idem::core {

namespace {

constexpr double kNanosPerSecond = 1e9;
constexpr Nanos kNanosPerMicro = 1000;
constexpr double kLongestFill = 100 * 365.25 * 86400 * kNanosPerSecond;

} // namespace

std::optional<TokenBucket> token_bucket(double rate, std::int32_t burst) {
    const double interval = std::ceil(kNanosPerSecond / rate);
    if (!(rate > 0) || rate > kNanosPerSecond || !(interval * burst <= kLongestFill))
        return std::nullopt;
    return TokenBucket{static_cast<Nanos>(interval), burst};
}

Admission admit(const TokenBucket &bucket, Nanos full_at, Micros now, std::int32_t cost) {
    const Nanos at = now * kNanosPerMicro;
    const Nanos capacity = bucket.interval * bucket.burst;
    const Nanos before = std::clamp(full_at, at, at + capacity);
    const Nanos after = before + bucket.interval * cost;
    const bool allowed = after - at <= capacity;
    const Nanos taken = (allowed ? after : before) - at;
    return {allowed, allowed ? after : full_at, static_cast<std::int32_t>((capacity - taken) / bucket.interval),
            allowed ? 0 : micros_after(after - at - capacity)};
}

Micros micros_after(Nanos at) { return at / kNanosPerMicro + (at % kNanosPerMicro > 0 ? 1 : 0); }

} // namespace idem::core
