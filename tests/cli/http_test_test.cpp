// `idem http-test`: the variants of a body, and the reports.
#include <gtest/gtest.h>

#include "http_test/report.hpp"
#include "http_test/vary.hpp"

namespace idem::cli::http_test {
namespace {

constexpr const char *kBody = R"({"item":"apples","lines":[{"n":1},{"n":2}],"amount":7})";

TEST(Vary, another_request_has_another_number_or_text) {
    EXPECT_EQ(changed(kBody), R"({"item":"apples","lines":[{"n":2},{"n":2}],"amount":7})");
    EXPECT_EQ(changed(R"({"a":true,"b":"x"})"), R"({"a":true,"b":"xx"})");
    EXPECT_EQ(changed(R"({"a":true})"), "");
    EXPECT_EQ(changed("amount=7"), "amount=71");
}

TEST(Vary, the_same_value_is_written_otherwise) {
    EXPECT_EQ(with_other_member_order(R"({"a":1,"b":2})"), R"({"b":2,"a":1})");
    EXPECT_EQ(with_white_space(R"({"a":1})"), " {\n   \"a\": 1\n}\n");
    EXPECT_EQ(with_fraction(R"({"a":"1","b":1})"), R"({"a":"1","b":1.0})");
}

TEST(Vary, another_value_differs_in_a_null_or_an_order) {
    EXPECT_EQ(with_null_member(R"({"a":1})"), R"({"a":1,"idem_http_test":null})");
    EXPECT_EQ(with_other_array_order(R"({"a":[1,2]})"), R"({"a":[2,1]})");
}

TEST(Vary, a_body_that_has_nothing_to_vary_gives_nothing) {
    EXPECT_FALSE(with_other_member_order(R"({"a":1})"));
    EXPECT_FALSE(with_other_array_order(R"({"a":[1,1]})"));
    EXPECT_FALSE(with_fraction(R"({"a":1.5})"));
    for (const auto &vary :
         {with_other_member_order, with_white_space, with_fraction, with_null_member, with_other_array_order})
        EXPECT_FALSE(vary("a=1"));
}

TEST(Report, text_of_a_server_is_escaped_in_xml_and_json) {
    report all{"http://localhost/", "ietf", {}};
    all.verdicts.push_back({"a.passed", "passes", "section 1"});
    all.verdicts.push_back({"a.failed", "fails", "section 2", result::failed, "422", "<b>\"&\x01\xFF"});
    all.verdicts.push_back({"a.skipped", "is skipped", "section 3", result::skipped, "", "", "--other-client"});
    EXPECT_EQ(all.badge(), "Idempotency-Key (ietf): 1/2");
    const std::string junit = as_junit(all);
    EXPECT_NE(junit.find(R"(tests="3" failures="1" skipped="1")"), std::string::npos) << junit;
    EXPECT_NE(junit.find("seen &lt;b>&quot;&amp;?"), std::string::npos) << junit;
    EXPECT_EQ(junit.find('\x01'), std::string::npos);
    EXPECT_NE(as_json(all).find(R"("needs": "--other-client")"), std::string::npos);
    EXPECT_NE(as_json(all).find(R"(<b>\"&\u0001)"), std::string::npos);
}

} // namespace
} // namespace idem::cli::http_test
