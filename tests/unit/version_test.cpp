#include "core/version.hpp"

#include <gtest/gtest.h>

namespace idem::core {
namespace {

TEST(Version, OfTheSameMajorVersionIsServed) {
    EXPECT_TRUE(is_served("1.0.0", "1.0.0"));
    EXPECT_TRUE(is_served("1.0.0", "1.12.3"));
    EXPECT_TRUE(is_served("1.99.0", "1.0.0"));
    EXPECT_TRUE(is_served("12", "12.1"));
}

TEST(Version, OfAnotherMajorVersionIsNot) {
    EXPECT_FALSE(is_served("2.0.0", "1.9.9"));
    EXPECT_FALSE(is_served("0.9", "1.0.0"));
    EXPECT_FALSE(is_served("11.0", "1.1.0"));
    EXPECT_FALSE(is_served("1.0", "11.0"));
}

TEST(Version, ThatIsNoNumberIsNot) {
    EXPECT_FALSE(is_served("", "1.0.0"));
    EXPECT_FALSE(is_served("unpackaged", "1.0.0"));
    EXPECT_FALSE(is_served("1x.0", "1.0.0"));
    EXPECT_FALSE(is_served("-1.0", "1.0.0"));
    EXPECT_FALSE(is_served("99999999999.0", "1.0.0"));
    EXPECT_FALSE(is_served("", ""));
}

} // namespace
} // namespace idem::core
