#include "core/http_message.hpp"

#include <gtest/gtest.h>

namespace idem::core {
namespace {

using namespace std::string_view_literals;

TEST(HttpMessage, FinalStatuses) {
    for (const int status : {200, 204, 404, 599})
        EXPECT_TRUE(is_final_http_status(status)) << status;
    for (const int status : {-1, 0, 100, 199, 600, 99999})
        EXPECT_FALSE(is_final_http_status(status)) << status;
}

TEST(HttpMessage, MethodsThatNeedAKey) {
    for (const char *method : {"POST", "PATCH"})
        EXPECT_TRUE(names_http_method(kKeyedMethods, method)) << method;
    for (const char *method : {"GET", "PUT", "DELETE", "post", "POS", "POST,PATCH", ""})
        EXPECT_FALSE(names_http_method(kKeyedMethods, method)) << method;
}

TEST(HttpMessage, StatusPatterns) {
    for (const char *pattern : {"100", "429", "599", "5xx", "4XX", "2xX"})
        EXPECT_TRUE(is_http_status_pattern(pattern)) << pattern;
    for (const char *other : {"", "5", "50", "5x", "5x1", "51x", "099", "600", "xxx", "5000", "5xxx", "5 x", "-1x"})
        EXPECT_FALSE(is_http_status_pattern(other)) << other;
    EXPECT_TRUE(matches_http_status("429,5xx", 429));
    EXPECT_TRUE(matches_http_status("429,5xx", 500));
    EXPECT_TRUE(matches_http_status("429,5XX", 599));
    EXPECT_FALSE(matches_http_status("429,5xx", 428));
    EXPECT_FALSE(matches_http_status("429,5xx", 200));
    EXPECT_FALSE(matches_http_status("x00,5x1", 500));
    EXPECT_FALSE(matches_http_status("", 500));
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
    EXPECT_TRUE(names_http_field(kAlwaysStoredFields, "content-encoding"));
}

TEST(HttpMessage, MediaTypesOfJson) {
    for (const char *type : {"application/json", "APPLICATION/Json", " application/json ; charset=utf-8",
                             "application/json;a=\"b\"", "application/vnd.api+json", "image/x+JSON\t"})
        EXPECT_TRUE(is_json_media_type(type)) << type;
    for (const char *type : {"", " ", "+json", "application/jsonl", "text/json", "application/xml;a=+json",
                             "application/json, text/html", "application /json"})
        EXPECT_FALSE(is_json_media_type(type)) << type;
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
