#include "core/http_key.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace idem::core {
namespace {

using namespace std::string_literals;

std::optional<std::string> parsed(std::string_view field, HttpKeySyntax syntax = HttpKeySyntax::string_or_bare) {
    HttpKey key;
    if (!parse_http_key(field, syntax, &key))
        return std::nullopt;
    return std::string(key.text());
}

TEST(HttpKey, QuotedAndBareAreOneKey) {
    EXPECT_EQ(parsed("8e03978e-40d5-43dd-bc93-6894a57f9324"), "8e03978e-40d5-43dd-bc93-6894a57f9324");
    EXPECT_EQ(parsed("\"8e03978e-40d5-43dd-bc93-6894a57f9324\""), "8e03978e-40d5-43dd-bc93-6894a57f9324");
}

TEST(HttpKey, BlanksAroundTheValueDoNotMatter) {
    EXPECT_EQ(parsed(" \tabc\t "), "abc");
    EXPECT_EQ(parsed(" \t\"abc\"\t "), "abc");
    EXPECT_EQ(parsed("\" abc \""), " abc ");
}

TEST(HttpKey, StringMayHaveEscapesBlanksAndCommas) {
    EXPECT_EQ(parsed(R"("a\"b\\c")"), R"(a"b\c)");
    EXPECT_EQ(parsed("\"a, b\""), "a, b");
}

TEST(HttpKey, ParametersAreIgnored) {
    for (const char *parameters : {";a", "; a=1", ";a=-1.5;b", ";*a=\"x;y\"", ";a=tok/en", ";a=*", ";a=:YWI=:", ";a=?1",
                                   ";a=@1659578233", ";a=%\"f%c3%bc\""})
        EXPECT_EQ(parsed("\"k\""s + parameters), "k") << parameters;
}

TEST(HttpKey, MalformedParametersAreMalformed) {
    for (const char *parameters : {";",
                                   ";A",
                                   "; ",
                                   ";a=",
                                   ";a=?2",
                                   ";a=:x",
                                   ";a=-",
                                   ";a=1.",
                                   ";a=1.2345",
                                   ";a=1234567890123456",
                                   ";a=1234567890123.1",
                                   ";a=@1.5",
                                   ";a=\"x",
                                   ";a=%x",
                                   ";a=%\"%zz\"",
                                   ";a=%\"x",
                                   ";a b",
                                   " ;a",
                                   ";a=(1)",
                                   ", \"l\"",
                                   "x",
                                   "\"l\""})
        EXPECT_EQ(parsed("\"k\""s + parameters), std::nullopt) << parameters;
}

TEST(HttpKey, BareKeyHasNeitherQuotesCommasNorBlanks) {
    for (const char *field : {"a\"b", "abc\"", "a,b", "a, b", "a b", "a\tb", ","})
        EXPECT_EQ(parsed(field), std::nullopt) << field;
    EXPECT_EQ(parsed("a;b='c'\\"), "a;b='c'\\");
}

TEST(HttpKey, StringIsClosedAndHasNoOtherEscapes) {
    for (const char *field : {"\"", "\"abc", "\"abc\\\"", "\"abc\\", R"("a\n")", R"("a"b")"})
        EXPECT_EQ(parsed(field), std::nullopt) << field;
}

TEST(HttpKey, OnlyPrintableAscii) {
    for (const std::string &key : {"a\x01"s, "\x7f"s, "a\0b"s, "\xc3\xa9"s, "a\r\nb"s, "a\xff"s}) {
        EXPECT_EQ(parsed(key), std::nullopt);
        EXPECT_EQ(parsed('"' + key + '"'), std::nullopt);
    }
}

TEST(HttpKey, From1To1024Bytes) {
    EXPECT_EQ(parsed(""), std::nullopt);
    EXPECT_EQ(parsed("  "), std::nullopt);
    EXPECT_EQ(parsed("\"\""), std::nullopt);
    const std::string longest(kMaxHttpKeyBytes, 'x');
    EXPECT_EQ(parsed(longest), longest);
    EXPECT_EQ(parsed('"' + longest + '"'), longest);
    EXPECT_EQ(parsed(longest + 'x'), std::nullopt);
    EXPECT_EQ(parsed('"' + longest + "x\""), std::nullopt);
    // What counts is the key, not its spelling.
    std::string escaped;
    for (std::size_t i = 0; i < kMaxHttpKeyBytes; i++)
        escaped += "\\\"";
    EXPECT_EQ(parsed('"' + escaped + "\";a=1"), std::string(kMaxHttpKeyBytes, '"'));
}

TEST(HttpKey, StringSyntaxRefusesBareKeys) {
    constexpr auto string = HttpKeySyntax::string;
    EXPECT_EQ(parsed(" \"abc\";a=1 ", string), "abc");
    for (const char *field : {"abc", "", "\"\"", "a\"b\""})
        EXPECT_EQ(parsed(field, string), std::nullopt) << field;
}

TEST(HttpKey, OpaqueKeyIsTheFieldAsItIs) {
    constexpr auto opaque = HttpKeySyntax::opaque;
    for (const char *field : {"abc", "\"abc\"", "\"", "a, b", "\"k\";a=1", "\xc3\xa9", "\xff"})
        EXPECT_EQ(parsed(field, opaque), field);
    EXPECT_EQ(parsed(" \ta b\t ", opaque), "a b");
    for (const std::string &field : {""s, "  "s, "a\tb"s, "a\0b"s, "a\r\nb"s, "\x7f"s})
        EXPECT_EQ(parsed(field, opaque), std::nullopt) << field;
    const std::string longest(kMaxHttpKeyBytes, 'x');
    EXPECT_EQ(parsed(' ' + longest, opaque), longest);
    EXPECT_EQ(parsed(longest + 'x', opaque), std::nullopt);
}

} // namespace
} // namespace idem::core
