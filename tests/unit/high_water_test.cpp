#include "core/high_water.hpp"

#include <gtest/gtest.h>

#include <random>

namespace idem::core {
namespace {

constexpr std::int64_t kAhead = 1000;

// One step of a generator that follows the clock.
struct Step {
    std::int64_t value;
    HighWater mark;
    bool reserve;
};

Step step_from(HighWater mark, std::int64_t clock, std::int64_t floor, bool restarted) {
    const std::int64_t value = next_value(greatest_used(mark, restarted), clock, floor);
    const HighWaterStep step = advance(mark, value, kAhead, restarted);
    EXPECT_EQ(step.mark.last, value);
    return {value, step.mark, step.reserve};
}

TEST(HighWater, FollowsTheClock) { EXPECT_EQ(step_from({10, 2000}, 500, 0, false).value, 500); }

TEST(HighWater, NeverRepeatsWhenTheClockStandsStillOrStepsBack) {
    EXPECT_EQ(step_from({10, 2000}, 10, 0, false).value, 11);
    EXPECT_EQ(step_from({10, 2000}, 1, 0, false).value, 11);
}

TEST(HighWater, ExceedsTheFloor) { EXPECT_EQ(step_from({10, 2000}, 1, 700, false).value, 701); }

TEST(HighWater, ReservesBeforeItGoesBeyondTheMark) {
    const Step within = step_from({10, 11}, 1, 0, false);
    EXPECT_FALSE(within.reserve);
    const Step beyond = step_from({11, 11}, 1, 0, false);
    EXPECT_TRUE(beyond.reserve);
    EXPECT_EQ(beyond.mark.reserved, beyond.value + kAhead);
}

TEST(HighWater, StartsBeyondTheMarkAfterARestart) {
    const Step step = step_from({10, 2000}, 500, 0, true);
    EXPECT_EQ(step.value, 2001);
    EXPECT_TRUE(step.reserve);
}

TEST(HighWater, ReservesToTheEndOfTheNumbers) {
    const HighWaterStep step = advance({10, 2000}, INT64_MAX - 5, kAhead, false);
    EXPECT_TRUE(step.reserve);
    EXPECT_EQ(step.mark.reserved, INT64_MAX);
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
        const Step step = step_from(mark, clock, 0, crashed);
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
