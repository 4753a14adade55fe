// A token bucket as GCRA (the generic cell rate algorithm of ITU-T I.371): one number says how full it is, the theoretical
// arrival time (TAT) at which it would be full again.
//
// Counted in nanoseconds since PostgreSQL's epoch; the time that one unit takes is rounded up, so that in no span of time is
// more let through than burst + rate * span.
#pragma once

#include "key_state.hpp"

#include <cstdint>
#include <optional>

namespace idem::core {

using Nanos = std::int64_t;

struct TokenBucket {
    Nanos interval; // in which one unit comes back
    std::int32_t burst;
};

// `rate`: units a second. Nothing when it is not positive, more than a unit in a nanosecond, or so low that the bucket would
// take more than a century to fill. REQUIRES: burst > 0.
std::optional<TokenBucket> token_bucket(double rate, std::int32_t burst);

struct Admission {
    bool allowed;
    Nanos full_at;          // the TAT afterwards; as it was when not allowed
    std::int32_t remaining; // whole units left now
    Micros retry_after;     // not allowed: until there is enough, if nobody else takes it
};

// Takes `cost` units, or none. A bucket that claims to be emptier than empty (its rate was changed, or the clock set back)
// counts as empty. REQUIRES: 0 < cost <= burst.
Admission admit(const TokenBucket &bucket, Nanos full_at, Micros now, std::int32_t cost);

// The first microsecond that is not before `at`.
Micros micros_after(Nanos at);

} // namespace idem::core
