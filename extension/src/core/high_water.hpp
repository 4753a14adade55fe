// The arithmetic of a generator whose values only ever grow, through crashes and clock steps, without writing WAL for each.
//
// `last` is the last value handed out; `reserved` is a mark that is durable before any value up to it is used. After a
// restart nobody can know how far `last` had come, so the next value starts beyond `reserved`.
#pragma once

#include <cstdint>

namespace idem::core {

struct HighWater {
    std::int64_t last;
    std::int64_t reserved;
};

struct HighWaterStep {
    std::int64_t value;
    HighWater mark;
    bool reserve; // `mark.reserved` has to be made durable before `value` is used
};

// clock: the least value wanted; floor: a value that must be exceeded; ahead: how far to reserve; restarted: `last` may be
// behind what was really handed out.
HighWaterStep next_value(HighWater mark, std::int64_t clock, std::int64_t floor, std::int64_t ahead, bool restarted);

} // namespace idem::core
