// The arithmetic of a generator whose values only grow, even across crashes and clock steps, without WAL for each value.
//
// `last` is the last value issued. `reserved` is a mark that is durable before any value up to it is used. After a restart the
// true `last` is unknown, so the next value starts beyond `reserved`.
#pragma once

#include <algorithm>
#include <cstdint>

namespace idem::core {

struct HighWater {
    std::int64_t last;
    std::int64_t reserved;
};

// The greatest value that may have been issued. `restarted`: `last` may be behind the last value that was issued.
inline std::int64_t greatest_used(HighWater mark, bool restarted) {
    return restarted ? std::max(mark.last, mark.reserved) : mark.last;
}

// The least value greater than `last` and `floor` that is not less than `clock`.
inline std::int64_t next_value(std::int64_t last, std::int64_t clock, std::int64_t floor) {
    return std::max({last + 1, floor + 1, clock});
}

struct HighWaterStep {
    HighWater mark;
    bool reserve; // `mark.reserved` must be made durable before the value is used
};

// Returns the mark after `value` is issued. `ahead`: values to reserve at a time. REQUIRES: value > greatest_used(mark,
// restarted).
HighWaterStep advance(HighWater mark, std::int64_t value, std::int64_t ahead, bool restarted);

} // namespace idem::core
