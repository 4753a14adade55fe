// UUIDs of version 7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, the version, 12 bits of the millisecond's fraction
// (section 6.2, method 3), the variant, 62 random bits.
#pragma once

#include "core/key_state.hpp"

#include <array>
#include <cstdint>

namespace idem::core {

using Uuid = std::array<std::uint8_t, 16>;
inline constexpr int kUuidRandomBytes = 8;

// The time in a UUID: 48 bits of milliseconds and 12 bits of fraction.
using UuidStamp = std::uint64_t;

// Returns the stamp of a database time, which counts from 2000-01-01; 0 before 1970.
UuidStamp uuid_stamp(Micros time);

// The stamp to use now. It is always greater than `last`, so that the UUIDs of a process grow.
inline UuidStamp next_uuid_stamp(UuidStamp last, UuidStamp now) { return now > last ? now : last + 1; }

Uuid make_uuid_v7(UuidStamp stamp, const std::uint8_t (&random)[kUuidRandomBytes]);

} // namespace idem::core
