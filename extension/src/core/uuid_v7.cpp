#include "core/uuid_v7.hpp"

#include <algorithm>

namespace idem::core {

namespace {

constexpr int kFractionBits = 12;
constexpr Micros kUnixEpoch = -10957 * kMicrosPerDay; // 1970-01-01 in database time

} // namespace

UuidStamp uuid_stamp(Micros time) {
    const auto unix_micros = static_cast<std::uint64_t>(std::max(time - kUnixEpoch, Micros{0}));
    return unix_micros / 1000 << kFractionBits | (unix_micros % 1000 << kFractionBits) / 1000;
}

Uuid make_uuid_v7(UuidStamp stamp, const std::uint8_t (&random)[kUuidRandomBytes]) {
    Uuid uuid;
    for (int i = 0; i < 6; i++)
        uuid[i] = static_cast<std::uint8_t>(stamp >> (kFractionBits + 40 - 8 * i));
    uuid[6] = static_cast<std::uint8_t>(0x70 | (stamp >> 8 & 0x0f));
    uuid[7] = static_cast<std::uint8_t>(stamp);
    std::copy(std::begin(random), std::end(random), uuid.begin() + 8);
    uuid[8] = static_cast<std::uint8_t>(0x80 | (uuid[8] & 0x3f));
    return uuid;
}

} // namespace idem::core
