#include "core/duration.hpp"

#include <gtest/gtest.h>

namespace idem::core {
namespace {

TEST(Duration, DayIs24HoursAndMonth30Days) {
    EXPECT_EQ(duration(0, 1, 0), Micros{24} * 60 * 60 * 1'000'000);
    EXPECT_EQ(duration(1, 0, 0), duration(0, 30, 0));
    EXPECT_EQ(duration(1, -30, 7), Micros{7});
}

TEST(Duration, PartsOutOfRangeMayMakeASumThatIsNot) {
    // 106,751,991 days are the most that fit.
    EXPECT_EQ(duration(0, 106'751'992, -106'751'991 * kMicrosPerDay), kMicrosPerDay);
    EXPECT_EQ(duration(0, -106'751'992, 106'751'991 * kMicrosPerDay), -kMicrosPerDay);
    EXPECT_EQ(duration(71'582'788, -2'147'483'640, 7), Micros{7});
}

TEST(Duration, OutOfRangeIsNothing) {
    EXPECT_FALSE(duration(INT32_MAX, INT32_MAX, INT64_MAX).has_value());
    EXPECT_FALSE(duration(INT32_MAX, 0, 0).has_value());
    EXPECT_FALSE(duration(0, 1, INT64_MAX).has_value());
    EXPECT_FALSE(duration(INT32_MIN, INT32_MIN, INT64_MIN).has_value());
}

TEST(Deadline, StaysWithinTheLastTimestamp) {
    EXPECT_EQ(deadline(100, 50, 150), Micros{150});
    EXPECT_FALSE(deadline(100, 51, 150).has_value());
    EXPECT_FALSE(deadline(INT64_MAX - 5, 10, INT64_MAX - 1).has_value());
}

TEST(Deadline, ForeverStaysForever) { EXPECT_EQ(deadline(100, kForever, 150), kForever); }

TEST(Milliseconds, RoundUp) {
    EXPECT_EQ(milliseconds(0), 0);
    EXPECT_EQ(milliseconds(1), 1);
    EXPECT_EQ(milliseconds(1000), 1);
    EXPECT_EQ(milliseconds(1001), 2);
}

TEST(Milliseconds, LongSpansAreTheLargestInteger) {
    EXPECT_EQ(milliseconds(INT64_C(2147483647) * 1000), 2147483647);
    EXPECT_EQ(milliseconds(INT64_C(2147483647) * 1000 + 1), 2147483647);
    EXPECT_EQ(milliseconds(kForever), 2147483647);
}

} // namespace
} // namespace idem::core
