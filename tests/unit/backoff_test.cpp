#include "core/backoff.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace idem::core {
namespace {

TEST(Backoff, DoublesWithEachFailure) {
    EXPECT_EQ(backoff(1), 1'000'000);
    EXPECT_EQ(backoff(2), 2'000'000);
    EXPECT_EQ(backoff(9), 256'000'000);
}

TEST(Backoff, IsFiveMinutesAtMost) {
    EXPECT_EQ(backoff(10), 300'000'000);
    EXPECT_EQ(backoff(64), 300'000'000);
    EXPECT_EQ(backoff(INT32_MAX), 300'000'000);
}

TEST(Backoff, IsTheFirstOnesWhereNothingFailed) {
    EXPECT_EQ(backoff(0), 1'000'000);
    EXPECT_EQ(backoff(-7), 1'000'000);
}

} // namespace
} // namespace idem::core
