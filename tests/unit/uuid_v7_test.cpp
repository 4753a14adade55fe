#include "core/uuid_v7.hpp"

#include <gtest/gtest.h>

#include <random>

namespace idem::core {
namespace {

constexpr Micros kUnixEpoch = -Micros{946'684'800} * 1'000'000; // in database time

std::string text(const Uuid &uuid) {
    std::string out;
    char digits[3];
    for (std::uint8_t byte : uuid) {
        std::snprintf(digits, sizeof digits, "%02x", byte);
        out += digits;
    }
    return out;
}

// RFC 9562, appendix A.6: 2022-02-22 14:22:22 UTC-5, rand_a 0xCC3, rand_b 0x18C4DC0C0C07398F.
TEST(UuidV7, IsTheExampleOfTheStandard) {
    const std::uint8_t random[] = {0x18, 0xC4, 0xDC, 0x0C, 0x0C, 0x07, 0x39, 0x8F};
    EXPECT_EQ(text(make_uuid_v7(UuidStamp{0x017F22E279B0} << 12 | 0xCC3, random)), "017f22e279b07cc398c4dc0c0c07398f");
}

TEST(UuidV7, SetsVersionAndVariantWhateverIsRandom) {
    const std::uint8_t ones[] = {255, 255, 255, 255, 255, 255, 255, 255};
    EXPECT_EQ(text(make_uuid_v7(~UuidStamp{0}, ones)), "ffffffffffff7fffbfffffffffffffff");
    const std::uint8_t zeros[] = {0, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(text(make_uuid_v7(0, zeros)), "00000000000070008000000000000000");
}

TEST(UuidV7, StampHasMillisecondsAndTheirFraction) {
    EXPECT_EQ(uuid_stamp(kUnixEpoch), 0u);
    EXPECT_EQ(uuid_stamp(kUnixEpoch - 1), 0u);
    EXPECT_EQ(uuid_stamp(kUnixEpoch + 1'645'557'742'000'500), UuidStamp{0x017F22E279B0} << 12 | 0x800);
    EXPECT_EQ(uuid_stamp(kUnixEpoch + 999), 4091u);
    for (Micros micros = 0; micros < 3000; micros++)
        ASSERT_LT(uuid_stamp(kUnixEpoch + micros), uuid_stamp(kUnixEpoch + micros + 1));
}

TEST(UuidV7, GrowsWhateverTheClockDoes) {
    std::mt19937_64 random(3);
    const std::uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    UuidStamp last = 0;
    std::string before;
    Micros clock = 0;
    for (int i = 0; i < 20'000; i++) {
        clock += static_cast<Micros>(random() % 5) - 2;
        last = next_uuid_stamp(last, uuid_stamp(clock));
        const std::string now = text(make_uuid_v7(last, bytes));
        ASSERT_LT(before, now);
        before = now;
    }
}

} // namespace
} // namespace idem::core
