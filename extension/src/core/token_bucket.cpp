#include "core/token_bucket.hpp"

#include <algorithm>
#include <cmath>

namespace idem::core {

namespace {

constexpr double kNanosPerSecond = 1e9;
constexpr Nanos kNanosPerMicro = 1000;
constexpr double kMaxFill = 100 * 365.25 * 86400 * kNanosPerSecond;
constexpr auto kMaxFillMicros = static_cast<Micros>(kMaxFill / kNanosPerMicro);

} // namespace

std::optional<TokenBucket> token_bucket(double rate, std::int32_t burst) {
    const double interval = std::ceil(kNanosPerSecond / rate);
    if (!(rate > 0) || rate > kNanosPerSecond || !(interval * burst <= kMaxFill))
        return std::nullopt;
    return TokenBucket{static_cast<Nanos>(interval), burst};
}

Admission admit(const TokenBucket &bucket, const BucketState &before, Micros now, std::int32_t cost) {
    const Nanos now_nanos = now * kNanosPerMicro;
    const Nanos capacity = bucket.interval * bucket.burst;
    // No debt is older than kMaxFill. The limits also keep the nanoseconds in range, whatever time the clock has shown.
    const Nanos as_of = std::clamp(before.as_of, now - kMaxFillMicros, now + kMaxFillMicros) * kNanosPerMicro;
    const Nanos debt = std::clamp(before.full_at, as_of, as_of + capacity) - as_of;
    const Nanos full_at = std::max(now_nanos, std::min(as_of, now_nanos) + debt);
    const Nanos after = full_at + bucket.interval * cost;
    const bool allowed = after - now_nanos <= capacity;
    const Nanos used = (allowed ? after : full_at) - now_nanos;
    const bool clock_was_set_back = !allowed && before.as_of > now;
    return {allowed, allowed || clock_was_set_back ? BucketState{allowed ? after : full_at, now} : before, clock_was_set_back,
            static_cast<std::int32_t>((capacity - used) / bucket.interval),
            allowed ? 0 : micros_after(after - now_nanos - capacity)};
}

Micros micros_after(Nanos at) { return at / kNanosPerMicro + (at % kNanosPerMicro > 0 ? 1 : 0); }

} // namespace idem::core
