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
    Nanos full_at = 0;
    for (int left = 2; left >= 0; left--) {
        const Admission admission = admit(bucket, full_at, kNow, 1);
        EXPECT_TRUE(admission.allowed);
        EXPECT_EQ(admission.remaining, left);
        full_at = admission.full_at;
    }
    const Admission refused = admit(bucket, full_at, kNow, 1);
    EXPECT_FALSE(refused.allowed);
    EXPECT_EQ(refused.full_at, full_at);
    EXPECT_EQ(refused.retry_after, kSecond / 10);
    EXPECT_FALSE(admit(bucket, full_at, kNow + refused.retry_after - 1, 1).allowed);
    EXPECT_TRUE(admit(bucket, full_at, kNow + refused.retry_after, 1).allowed);
}

TEST(TokenBucket, EmptyIsNoEmptierThanEmpty) {
    const TokenBucket bucket = *token_bucket(1, 2);
    const Admission refused = admit(bucket, std::numeric_limits<Nanos>::max(), kNow, 2);
    EXPECT_FALSE(refused.allowed);
    EXPECT_EQ(refused.remaining, 0);
    EXPECT_EQ(refused.retry_after, 2 * kSecond);
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
        Nanos full_at = 0;
        Micros now = kNow;
        for (int call = 0; call < 300; call++) {
            now += std::uniform_int_distribution<Micros>(0, static_cast<Micros>(2e6 / rate) + 1)(random);
            const int cost = std::uniform_int_distribution<>(1, burst)(random);
            const Admission admission = admit(bucket, full_at, now, cost);
            full_at = admission.full_at;
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
