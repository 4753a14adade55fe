#include "core/canonical_json.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace idem::core {
namespace {

TEST(CanonicalNumber, EqualNumbersLookEqual) {
    for (const char *one : {"1", "1.0", "1.00", "01", "1."})
        EXPECT_EQ(canonical_number(one), "1") << one;
    for (const char *zero : {"0", "-0", "0.0", "-0.000", "000"})
        EXPECT_EQ(canonical_number(zero), "0") << zero;
    EXPECT_EQ(canonical_number("-12.50"), "-12.5");
    EXPECT_EQ(canonical_number(".5"), "0.5");
    EXPECT_EQ(canonical_number("100"), "100");
    EXPECT_EQ(canonical_number("0.0010"), "0.001");
}

TEST(CanonicalNumber, KeepsEveryDigit) {
    EXPECT_EQ(canonical_number("123456789012345678901234567890.123456789"), "123456789012345678901234567890.123456789");
}

TEST(CanonicalNumber, RefusesWhatIsNoDecimal) {
    for (const char *bad : {"", "-", ".", "1e5", "NaN", "Infinity", "1.2.3", "--1", "1 "})
        EXPECT_THROW(canonical_number(bad), std::invalid_argument) << bad;
}

TEST(CanonicalJson, WritesNestedValuesWithoutWhiteSpace) {
    CanonicalJson json;
    json.begin_object();
    json.name("a");
    json.begin_array();
    json.number("1.0");
    json.begin_object();
    json.end_object();
    json.boolean(true);
    json.null();
    json.end_array();
    json.name("b");
    json.string("x");
    json.end_object();
    EXPECT_EQ(json.text(), R"({"a":[1,{},true,null],"b":"x"})");
}

TEST(CanonicalJson, EscapesQuotesBackslashesAndControlCharacters) {
    CanonicalJson json;
    json.string(std::string("\"\\\n\x01\x1f", 5) + "é");
    EXPECT_EQ(json.text(), "\"\\\"\\\\\\u000a\\u0001\\u001fé\"");
}

// What reads alike inside a string and as structure must not be hashed alike.
TEST(CanonicalJson, StringsCannotImitateStructure) {
    CanonicalJson flat;
    flat.begin_array();
    flat.string("a\",\"b");
    flat.end_array();
    CanonicalJson two;
    two.begin_array();
    two.string("a");
    two.string("b");
    two.end_array();
    EXPECT_NE(flat.text(), two.text());
}

} // namespace
} // namespace idem::core
