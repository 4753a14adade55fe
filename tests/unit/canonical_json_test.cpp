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
    std::string out;
    CanonicalJson json;
    json.begin_object(out);
    json.name(out, "a");
    json.begin_array(out);
    json.number(out, "1.0");
    json.begin_object(out);
    json.end_object(out);
    json.boolean(out, true);
    json.null(out);
    json.end_array(out);
    json.name(out, "b");
    json.string(out, "x");
    json.end_object(out);
    EXPECT_EQ(out, R"({"a":[1,{},true,null],"b":"x"})");
}

TEST(CanonicalJson, EscapesQuotesBackslashesAndControlCharacters) {
    std::string out;
    CanonicalJson json;
    json.string(out, std::string("\"\\\n\x01\x1f", 5) + "é");
    EXPECT_EQ(out, "\"\\\"\\\\\\u000a\\u0001\\u001fé\"");
}

// What reads alike inside a string and as structure must not be hashed alike.
TEST(CanonicalJson, StringsCannotImitateStructure) {
    std::string one_out;
    CanonicalJson one;
    one.begin_array(one_out);
    one.string(one_out, "a\",\"b");
    one.end_array(one_out);
    std::string two_out;
    CanonicalJson two;
    two.begin_array(two_out);
    two.string(two_out, "a");
    two.string(two_out, "b");
    two.end_array(two_out);
    EXPECT_NE(one_out, two_out);
}

} // namespace
} // namespace idem::core
