#include "core/snowflake.hpp"

#include "core/high_water.hpp"

#include <gtest/gtest.h>

#include <random>

namespace idem::core {
namespace {

constexpr int kLastSequence = (1 << kSequenceBits) - 1;

std::int64_t id(std::int64_t millis, int node, int sequence) { return compose_id({millis, node, sequence}); }

void expect_parts(std::int64_t number, std::int64_t millis, int node, int sequence) {
    const IdParts parts = id_parts(number);
    EXPECT_EQ(parts.millis, millis);
    EXPECT_EQ(parts.node, node);
    EXPECT_EQ(parts.sequence, sequence);
}

TEST(Snowflake, PartsComeBack) {
    expect_parts(id(0, 0, 0), 0, 0, 0);
    expect_parts(id(123'456'789, 513, 2049), 123'456'789, 513, 2049);
    expect_parts(id(kLastIdMillis, kNodes - 1, kLastSequence), kLastIdMillis, kNodes - 1, kLastSequence);
    EXPECT_EQ(id(kLastIdMillis, kNodes - 1, kLastSequence), INT64_MAX);
    EXPECT_EQ(id(1, 1, 1), (1 << 22) + (1 << 12) + 1);
}

TEST(Snowflake, MillisecondsCountFromTheEpoch) {
    EXPECT_EQ(id_millis(kIdEpoch), 0);
    EXPECT_EQ(id_millis(kIdEpoch + 999), 0);
    EXPECT_EQ(id_millis(kIdEpoch + 1000), 1);
    EXPECT_EQ(id_millis(kIdEpoch - 1), -1);
    EXPECT_EQ(id_millis(kIdEpoch - 1000), -1);
}

TEST(Snowflake, FollowsTheClock) { EXPECT_EQ(next_id(id(10, 7, 5), 20, 7), id(20, 7, 0)); }

TEST(Snowflake, CountsWithinAMillisecond) { EXPECT_EQ(next_id(id(10, 7, 5), 10, 7), id(10, 7, 6)); }

TEST(Snowflake, CarriesIntoTheMillisecondAndKeepsTheNode) {
    EXPECT_EQ(next_id(id(10, 7, kLastSequence), 10, 7), id(11, 7, 0));
    EXPECT_EQ(next_id(id(10, kNodes - 1, kLastSequence), 10, kNodes - 1), id(11, kNodes - 1, 0));
}

TEST(Snowflake, GoesOnWhenTheClockStepsBack) {
    EXPECT_EQ(next_id(id(10, 7, 5), 3, 7), id(10, 7, 6));
    EXPECT_EQ(next_id(id(10, 7, 5), -1'000'000, 7), id(10, 7, 6));
}

TEST(Snowflake, GrowsWhenTheNodeChanges) {
    EXPECT_EQ(next_id(id(10, 7, 5), 10, 8), id(10, 8, 0));
    EXPECT_EQ(next_id(id(10, 7, 5), 10, 6), id(11, 6, 0));
}

TEST(Snowflake, EndsWithItsBits) {
    EXPECT_EQ(next_id(id(kLastIdMillis, 7, 0), 0, 7), id(kLastIdMillis, 7, 1));
    EXPECT_EQ(next_id(id(kLastIdMillis, 7, kLastSequence), 0, 7), std::nullopt);
    EXPECT_EQ(next_id(INT64_MAX, 0, kNodes - 1), std::nullopt);
    EXPECT_EQ(next_id(0, kLastIdMillis + 1, 0), std::nullopt);
}

// By the definition: no number of this node fits in between.
TEST(Snowflake, IsTheLeastThatFits) {
    std::mt19937_64 random(11);
    for (int i = 0; i < 200'000; i++) {
        const std::int64_t last = static_cast<std::int64_t>(random() >> 1) >> (random() % 2 * 20);
        const int node = static_cast<int>(random() % kNodes);
        const std::int64_t clock = (last >> 22) + static_cast<std::int64_t>(random() % 5) - 2;
        const auto next = next_id(last, clock, node);
        if (!next)
            continue;
        const IdParts parts = id_parts(*next);
        ASSERT_EQ(parts.node, node);
        ASSERT_GT(*next, last);
        ASSERT_GE(parts.millis, clock);
        const std::int64_t before = parts.sequence > 0 ? *next - 1 : id(parts.millis - 1, node, kLastSequence);
        ASSERT_TRUE(before <= last || id_parts(before).millis < clock) << last << ' ' << clock << ' ' << node;
    }
}

// As the generator does it: the mark is lost in a crash, except for what was reserved; clock and node move as they like.
TEST(Snowflake, GrowsThroughCrashesClockStepsAndNodes) {
    constexpr std::int64_t kAhead = std::int64_t{1000} << 22;
    std::mt19937_64 random(5);
    HighWater mark{1, 1};
    HighWater durable = mark;
    std::int64_t clock = 100'000;
    std::int64_t greatest = 0;
    for (int i = 0; i < 300'000; i++) {
        clock += static_cast<std::int64_t>(random() % 3) - (random() % 1000 == 0 ? 500 : 0);
        const bool crashed = random() % 1000 == 0;
        if (crashed)
            mark = durable;
        const auto next = next_id(greatest_used(mark, crashed), clock, random() % 100 == 0 ? 3 : 2);
        ASSERT_TRUE(next);
        ASSERT_GT(*next, greatest);
        greatest = *next;
        const HighWaterStep step = advance(mark, *next, kAhead, crashed);
        mark = step.mark;
        ASSERT_LE(*next, mark.reserved);
        if (step.reserve)
            durable = mark;
    }
}

} // namespace
} // namespace idem::core
