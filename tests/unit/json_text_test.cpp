#include "core/json_text.hpp"

#include <gtest/gtest.h>

namespace idem::core {
namespace {

TEST(JsonText, WhatNeedsNoEscapeHasNone) {
    EXPECT_EQ(json_string(""), "\"\"");
    EXPECT_EQ(json_string("a/b<>&'\x7f"), "\"a/b<>&'\x7f\"");
    EXPECT_EQ(json_string("\u00fc\u4e2d\U0001f600"), "\"\u00fc\u4e2d\U0001f600\"");
}

TEST(JsonText, EscapesOfRfc8785) {
    EXPECT_EQ(json_string("\"\\"), R"("\"\\")");
    EXPECT_EQ(json_string("\b\t\n\f\r"), R"("\b\t\n\f\r")");
    EXPECT_EQ(json_string(std::string_view("\0\x01\x0b\x1f", 4)), R"("\u0000\u0001\u000b\u001f")");
}

TEST(JsonText, MembersAreCountedAsOftenAsTheyAreThere) {
    for (const char *none : {"1", "[]", "{}", R"(":")", R"(["a:b", "\":", "\\", ":"])"})
        EXPECT_EQ(count_json_members(none), 0) << none;
    EXPECT_EQ(count_json_members(R"({"a": 1, "a": {":\"": [{"b" : ":"}]}})"), 4);
}

} // namespace
} // namespace idem::core
