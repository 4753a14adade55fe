// The rings of a run, the scopes that live in them, and the moments at which a window is opened while all clients claim the
// same keys.
#pragma once

#include <array>

#include "clock.hpp"

namespace chaos {

struct ChaosRing {
    const char *name;
    Nanoseconds retention;
    int windows;
};

// Short retentions: within a round, each window is opened, filled, expired and emptied many times. The brief one has more
// windows, so that one is empty whenever the nemesis wants to open it.
inline constexpr std::array<ChaosRing, 2> kRings{{{"chaos_brief", 2 * kSecond, 16}, {"chaos_long", 6 * kSecond, 6}}};

struct RingScope {
    const char *name;
    const ChaosRing &ring;
    bool moves; // into the ring and out of it, so that its keys may also be in idem_keys
};

inline constexpr std::array<RingScope, 3> kRingScopes{
    {{"chaos-brief", kRings[0], false}, {"chaos-moving", kRings[0], true}, {"chaos-long", kRings[1], false}}};

// From time to time, clients claim the same new keys at the same moment.
inline constexpr Nanoseconds kRush = 60 * kMillisecond;
inline constexpr std::int64_t kRushesPerRotation = 3;

// The rush of this number begins at number * kRush. One of three claims batches in a ring: near its beginning the nemesis opens
// the next window.
inline bool is_rush_of_batches(std::int64_t number) { return number % kRushesPerRotation == 0; }
inline bool is_rush_in_ring(std::int64_t number) { return number % kRushesPerRotation != 1; }

} // namespace chaos
