// The arithmetic of a generator whose values only ever grow, through crashes and clock steps, without writing WAL for each.
//
// `last` is the last value handed out; `reserved` is a mark that is durable before any value up to it is used. After a
// restart nobody can know how far `last` had come, so the next value starts beyond `reserved`.
#pragma once

#include <algorithm>
#include <cstdint>

namespace idem::core {

struct HighWater {
    std::int64_t last;
    std::int64_t reserved;
};

// The greatest value that may have been handed out. restarted: `last` may be behind what was really handed out.
inline std::int64_t greatest_used(HighWater mark, bool restarted) {
    return restarted ? std::max(mark.last, mark.reserved) : mark.last;
}

// The least value greater than `last` and `floor` that is not less than `clock`.
inline std::int64_t next_value(std::int64_t last, std::int64_t clock, std::int64_t floor) {
    return std::max({last + 1, floor + 1, clock});
}

struct HighWaterStep {
    HighWater mark;
    bool reserve; // `mark.reserved` has to be made durable before the value is used
};

// The mark once `value` is handed out. ahead: how far to reserve at a time. REQUIRES: value > greatest_used(mark, restarted).
HighWaterStep advance(HighWater mark, std::int64_t value, std::int64_t ahead, bool restarted);

} // namespace idem::core
