#include "core/http_message.hpp"

#include <gtest/gtest.h>

namespace idem::core {
namespace {

using namespace std::string_view_literals;

TEST(HttpMessage, MethodsThatNeedAKey) {
    for (const char *method : {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
        EXPECT_FALSE(needs_http_key(method)) << method;
    for (const char *method : {"POST", "PATCH", "CONNECT", "get", "Put", "LOCK", ""})
        EXPECT_TRUE(needs_http_key(method)) << method;
}

TEST(HttpMessage, TokensAreOfTokenCharacters) {
    for (const auto token : {"POST"sv, "x"sv, "!#$%&'*+-.^_`|~09azAZ"sv})
        EXPECT_TRUE(is_http_token(token)) << token;
    for (const auto other : {""sv, "a b"sv, "a:b"sv, "a,b"sv, "a\r\nb"sv, "a\0b"sv, "\"a\""sv, "\xc3\xa9"sv})
        EXPECT_FALSE(is_http_token(other)) << other;
}

TEST(HttpMessage, FieldNamesIgnoreCase) {
    EXPECT_TRUE(names_http_field("ETag,Location", "etag"));
    EXPECT_TRUE(names_http_field("ETag,Location", "LOCATION"));
    EXPECT_FALSE(names_http_field("ETag,Location", "Loca"));
    EXPECT_FALSE(names_http_field("ETag,Location", "Locations"));
    EXPECT_FALSE(names_http_field("ETag,Location", "ETag,Location"));
    EXPECT_FALSE(names_http_field("", "ETag"));
    EXPECT_TRUE(names_http_field(kNeverStoredFields, "set-COOKIE"));
    EXPECT_TRUE(names_http_field(kStoredFields, "retry-after"));
}

TEST(HttpMessage, ValueIsOneLine) {
    EXPECT_TRUE(is_http_field_value("text/html; charset=utf-8"));
    EXPECT_TRUE(is_http_field_value(""));
    for (const auto value : {"a\r\nb"sv, "a\n"sv, "\ra"sv, "a\0b"sv})
        EXPECT_FALSE(is_http_field_value(value));
}

TEST(HttpMessage, ReasonPhrases) {
    EXPECT_STREQ(http_reason(409), "Conflict");
    EXPECT_STREQ(http_reason(422), "Unprocessable Content");
    EXPECT_STREQ(http_reason(499), "Bad Request");
    EXPECT_STREQ(http_reason(599), "Internal Server Error");
}

} // namespace
} // namespace idem::core
