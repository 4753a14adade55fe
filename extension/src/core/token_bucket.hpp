// A token bucket as GCRA (the generic cell rate algorithm of ITU-T I.371). One number holds the level: the theoretical arrival
// time (TAT), at which the bucket would be full again.
//
// Times are nanoseconds since PostgreSQL's epoch. The interval of one unit is rounded up, so that no span of time admits more
// than burst + rate * span.
#pragma once

#include "core/key_state.hpp"

#include <cstdint>
#include <optional>

namespace idem::core {

using Nanos = std::int64_t;

struct TokenBucket {
    Nanos interval; // the time in which one unit is refilled
    std::int32_t burst;
};

// `rate`: units per second. Returns nullopt when the rate is not positive, more than one unit per nanosecond, or so low that
// the bucket would take more than a century to fill. REQUIRES: burst > 0.
std::optional<TokenBucket> token_bucket(double rate, std::int32_t burst);

struct BucketState {
    Nanos full_at; // the TAT
    Micros as_of;  // when `full_at` was computed
};

struct Admission {
    bool allowed;
    BucketState state;       // after the call
    bool clock_was_set_back; // not allowed: the state must be stored all the same, because retry_after counts from it
    std::int32_t remaining;  // whole units left now
    // Not allowed: the time until enough units are available if no other call takes any; at most the time to refill the burst.
    Micros retry_after;
};

// Takes `cost` units, or none. The debt in `before` counts for at most the present burst at the present rate, also after a
// change of either. A clock that was set back does not change the debt. REQUIRES: 0 < cost <= burst.
Admission admit(const TokenBucket &bucket, const BucketState &before, Micros now, std::int32_t cost);

// The first microsecond that is not before `at`.
Micros micros_after(Nanos at);

} // namespace idem::core
