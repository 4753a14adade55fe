#include "core/high_water.hpp"

#include <gtest/gtest.h>

#include <random>

namespace idem::core {
namespace {

constexpr std::int64_t kAhead = 1000;

TEST(HighWater, FollowsTheClock) { EXPECT_EQ(next_value({10, 2000}, 500, 0, kAhead, false).value, 500); }

TEST(HighWater, NeverRepeatsWhenTheClockStandsStillOrStepsBack) {
    EXPECT_EQ(next_value({10, 2000}, 10, 0, kAhead, false).value, 11);
    EXPECT_EQ(next_value({10, 2000}, 1, 0, kAhead, false).value, 11);
}

TEST(HighWater, ExceedsTheFloor) { EXPECT_EQ(next_value({10, 2000}, 1, 700, kAhead, false).value, 701); }

TEST(HighWater, ReservesBeforeItGoesBeyondTheMark) {
    const HighWaterStep within = next_value({10, 11}, 1, 0, kAhead, false);
    EXPECT_FALSE(within.reserve);
    const HighWaterStep beyond = next_value({11, 11}, 1, 0, kAhead, false);
    EXPECT_TRUE(beyond.reserve);
    EXPECT_EQ(beyond.mark.reserved, beyond.value + kAhead);
}

TEST(HighWater, StartsBeyondTheMarkAfterARestart) {
    const HighWaterStep step = next_value({10, 2000}, 500, 0, kAhead, true);
    EXPECT_EQ(step.value, 2001);
    EXPECT_TRUE(step.reserve);
}

// A crash loses `last` but not what was reserved; the clock may step back with it.
TEST(HighWater, ValuesGrowThroughCrashesAndClockSteps) {
    std::mt19937_64 random(7);
    HighWater mark{1, 1};
    HighWater durable = mark;
    std::int64_t clock = 0;
    std::int64_t greatest = 0;
    for (int i = 0; i < 200'000; i++) {
        clock += static_cast<std::int64_t>(random() % 7) - 2;
        const bool crashed = random() % 500 == 0;
        if (crashed) {
            mark = durable;
            clock -= 10'000;
        }
        const HighWaterStep step = next_value(mark, clock, 0, kAhead, crashed);
        ASSERT_GT(step.value, greatest);
        ASSERT_LE(step.value, step.mark.reserved);
        greatest = step.value;
        mark = step.mark;
        if (step.reserve)
            durable = {mark.last, mark.reserved};
    }
}

} // namespace
} // namespace idem::core
