// The arithmetic of idem_next_id, in the layout of Twitter's Snowflake: 41 bits of milliseconds since 2024-01-01 UTC, 10 bits
// of node and 12 bits of sequence. The sign bit stays clear.
#pragma once

#include "core/key_state.hpp"

#include <cstdint>
#include <optional>

namespace idem::core {

inline constexpr int kSequenceBits = 12;
inline constexpr int kNodeBits = 10;
inline constexpr int kNodes = 1 << kNodeBits;
inline constexpr std::int64_t kLastIdMillis = (std::int64_t{1} << 41) - 1; // in September 2093

// 2024-01-01 in database time, which counts from 2000-01-01.
inline constexpr Micros kIdEpoch = 8766 * kMicrosPerDay;

struct IdParts {
    std::int64_t millis;
    int node;
    int sequence;
};

// Converts database time to the milliseconds of an id; negative before the epoch.
inline constexpr std::int64_t id_millis(Micros time) { return (time - kIdEpoch) / 1000 - ((time - kIdEpoch) % 1000 < 0); }

// REQUIRES: parts within their bits.
std::int64_t compose_id(IdParts parts);

// REQUIRES: id >= 0.
IdParts id_parts(std::int64_t id);

// Returns the least id of `node` that is greater than `last` and not earlier than `clock` (milliseconds of an id). When the
// clock stands still or steps back, or a millisecond's sequence is used up, the id takes a later millisecond. The clock then
// catches up. Returns nullopt when the 41 bits are used up. REQUIRES: last >= 0.
std::optional<std::int64_t> next_id(std::int64_t last, std::int64_t clock, int node);

} // namespace idem::core
