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

struct BucketState {
    Nanos full_at; // the TAT
    Micros as_of;  // when that was said
};

struct Admission {
    bool allowed;
    BucketState state;       // afterwards
    bool clock_was_set_back; // not allowed: the state has to be kept all the same, for retry_after counts from it
    std::int32_t remaining;  // whole units left now
    Micros retry_after; // not allowed: until there is enough, if nobody else takes it; at most the time that the burst takes
};

// Takes `cost` units, or none. What was owed when the TAT was said is at most the burst, at the present rate: after a change of
// either, an older debt does not count for more. A clock that was set back changes what is owed by nothing. REQUIRES: 0 < cost
// <= burst.
Admission admit(const TokenBucket &bucket, const BucketState &before, Micros now, std::int32_t cost);

// The first microsecond that is not before `at`.
Micros micros_after(Nanos at);

} // namespace idem::core
