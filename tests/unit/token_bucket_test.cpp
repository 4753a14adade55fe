#include "core/token_bucket.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace idem::core {
namespace {

constexpr Micros kNow = 800'000'000'000'000;
constexpr Micros kSecond = 1'000'000;

TEST(TokenBucket, RatesThatCannotBe) {
    const double infinite = std::numeric_limits<double>::infinity();
    for (const double rate :
         {0.0, -0.0, -1.0, infinite, -infinite, std::numeric_limits<double>::quiet_NaN(), 1.0000001e9, 1e-300, 1e-10})
        EXPECT_FALSE(token_bucket(rate, 1)) << rate;
    EXPECT_FALSE(token_bucket(1e-7, std::numeric_limits<std::int32_t>::max()));
}

TEST(TokenBucket, IntervalIsRoundedUp) {
    EXPECT_EQ(token_bucket(1e9, 1)->interval, 1);
    EXPECT_EQ(token_bucket(3, 1)->interval, 333'333'334);
    EXPECT_EQ(token_bucket(0.1, 1)->interval, 10'000'000'000);
    EXPECT_EQ(token_bucket(6e8, 1)->interval, 2);
}

TEST(TokenBucket, BurstThenOneByOne) {
    const TokenBucket bucket = *token_bucket(10, 3);
    BucketState state{0, kNow};
    for (int left = 2; left >= 0; left--) {
        const Admission admission = admit(bucket, state, kNow, 1);
        EXPECT_TRUE(admission.allowed);
        EXPECT_EQ(admission.remaining, left);
        state = admission.state;
    }
    const Admission refused = admit(bucket, state, kNow, 1);
    EXPECT_FALSE(refused.allowed);
    EXPECT_FALSE(refused.clock_was_set_back);
    EXPECT_EQ(refused.state.full_at, state.full_at);
    EXPECT_EQ(refused.retry_after, kSecond / 10);
    EXPECT_FALSE(admit(bucket, state, kNow + refused.retry_after - 1, 1).allowed);
    EXPECT_TRUE(admit(bucket, state, kNow + refused.retry_after, 1).allowed);
}

TEST(TokenBucket, EmptyIsNoEmptierThanEmpty) {
    const TokenBucket bucket = *token_bucket(1, 2);
    for (const Micros taken_at : {kNow, kNow + 3600 * kSecond, std::numeric_limits<Micros>::max()}) {
        const Admission refused = admit(bucket, {std::numeric_limits<Nanos>::max(), taken_at}, kNow, 2);
        EXPECT_FALSE(refused.allowed);
        EXPECT_EQ(refused.remaining, 0);
        EXPECT_EQ(refused.retry_after, 2 * kSecond);
    }
}

TEST(TokenBucket, DebtIsNoMoreThanTheBurstOfThePresentRate) {
    const TokenBucket slow = *token_bucket(0.1, 3), fast = *token_bucket(1000, 3);
    const Admission emptied = admit(slow, {0, kNow}, kNow, 3);
    EXPECT_EQ(emptied.remaining, 0);
    const Admission refused = admit(fast, emptied.state, kNow, 1);
    EXPECT_FALSE(refused.allowed);
    EXPECT_EQ(refused.retry_after, kSecond / 1000);
    EXPECT_FALSE(admit(fast, emptied.state, kNow + refused.retry_after - 1, 1).allowed);
    EXPECT_TRUE(admit(fast, emptied.state, kNow + refused.retry_after, 1).allowed);
    EXPECT_EQ(admit(fast, emptied.state, kNow + kSecond, 1).remaining, 2);
}

TEST(TokenBucket, ShrunkBurstWaitsForNoMoreThanItself) {
    const TokenBucket large = *token_bucket(1, 1000), small = *token_bucket(1, 2);
    const Admission emptied = admit(large, {0, kNow}, kNow, 1000);
    const Admission refused = admit(small, emptied.state, kNow + kSecond / 2, 1);
    EXPECT_FALSE(refused.allowed);
    EXPECT_EQ(refused.retry_after, kSecond / 2);
    EXPECT_TRUE(admit(small, emptied.state, kNow + kSecond, 1).allowed);
}

TEST(TokenBucket, ClockSetBackWaitsForNoMoreThanTheBurst) {
    const TokenBucket bucket = *token_bucket(1, 5);
    const Admission emptied = admit(bucket, {0, kNow}, kNow, 5);
    const Micros earlier = kNow - 3600 * kSecond;
    const Admission refused = admit(bucket, emptied.state, earlier, 2);
    EXPECT_FALSE(refused.allowed);
    EXPECT_TRUE(refused.clock_was_set_back);
    EXPECT_EQ(refused.retry_after, 2 * kSecond);
    // Once that is written down, the wait counts.
    EXPECT_FALSE(admit(bucket, refused.state, earlier + refused.retry_after - 1, 2).allowed);
    EXPECT_TRUE(admit(bucket, refused.state, earlier + refused.retry_after, 2).allowed);
    EXPECT_FALSE(admit(bucket, refused.state, earlier + 1, 2).clock_was_set_back);
}

TEST(TokenBucket, ClockSetBackTakesNothingAndGivesNothing) {
    const TokenBucket bucket = *token_bucket(1, 5);
    const Admission taken = admit(bucket, {0, kNow}, kNow, 3);
    const Admission admission = admit(bucket, taken.state, kNow - 3600 * kSecond, 1);
    EXPECT_TRUE(admission.allowed);
    EXPECT_EQ(admission.remaining, 1);
}

TEST(TokenBucket, TimesThatNoClockShows) {
    const TokenBucket bucket = *token_bucket(1, 5);
    const Admission admission = admit(bucket, {std::numeric_limits<Nanos>::max(), std::numeric_limits<Micros>::min()}, kNow, 1);
    EXPECT_TRUE(admission.allowed);
    EXPECT_EQ(admission.remaining, 4);
}

// A caller that waits as long as it was told is let through, whatever rates and clocks were before.
TEST(TokenBucket, RetryAfterIsEnough) {
    std::mt19937 random(2);
    const auto some_bucket = [&] {
        return *token_bucket(std::exp(std::uniform_real_distribution<>(-3, 10)(random)),
                             std::uniform_int_distribution<>(1, 20)(random));
    };
    BucketState state{0, kNow};
    Micros now = kNow;
    for (int call = 0; call < 20000; call++) {
        const TokenBucket bucket = some_bucket();
        now += std::uniform_int_distribution<Micros>(-3 * kSecond, 4 * kSecond)(random);
        const int cost = std::uniform_int_distribution<>(1, bucket.burst)(random);
        const Admission admission = admit(bucket, state, now, cost);
        if (admission.allowed || admission.clock_was_set_back)
            state = admission.state;
        if (!admission.allowed) {
            ASSERT_LE(admission.retry_after, bucket.interval * bucket.burst / 1000 + 1);
            ASSERT_TRUE(admit(bucket, state, now + admission.retry_after, cost).allowed);
        }
    }
}

TEST(TokenBucket, MicrosecondsAreRoundedUp) {
    EXPECT_EQ(micros_after(1000), 1);
    EXPECT_EQ(micros_after(1001), 2);
    EXPECT_EQ(micros_after(0), 0);
}

// In every span of time, whatever is asked: at most burst + rate * span.
TEST(TokenBucket, NeverMoreThanAllowedInAnySpan) {
    std::mt19937 random(1);
    for (int round = 0; round < 200; round++) {
        const double rate = std::exp(std::uniform_real_distribution<>(-3, 14)(random));
        const int burst = std::uniform_int_distribution<>(1, 20)(random);
        const TokenBucket bucket = *token_bucket(rate, burst);
        std::vector<std::pair<Micros, std::int64_t>> taken{{kNow, 0}};
        BucketState state{0, kNow};
        Micros now = kNow;
        for (int call = 0; call < 300; call++) {
            now += std::uniform_int_distribution<Micros>(0, static_cast<Micros>(2e6 / rate) + 1)(random);
            const int cost = std::uniform_int_distribution<>(1, burst)(random);
            const Admission admission = admit(bucket, state, now, cost);
            state = admission.state;
            if (admission.allowed)
                taken.emplace_back(now, taken.back().second + cost);
            EXPECT_LE(admission.remaining, burst);
            EXPECT_GE(admission.remaining, 0);
        }
        for (std::size_t i = 1; i < taken.size(); i++)
            for (std::size_t j = i; j < taken.size(); j++) {
                const double span = static_cast<double>(taken[j].first - taken[i].first) / kSecond;
                ASSERT_LE(taken[j].second - taken[i - 1].second, burst + rate * span + 1e-9);
            }
    }
}

} // namespace
} // namespace idem::core
