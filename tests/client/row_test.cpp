// The row builder: what it makes of values is JSON that the server reads back as the same values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <idem/machines.hpp>
#include <idem/rows.hpp>

#include "scratch.hpp"

namespace {

using idem::row;

// test::kOddColumn without its quotes.
constexpr char kOdd[] = "it's a \"col\\umn\" n\xC3\xA9";

/// The value of column c as the server reads it: its JSON type, and its text.
std::string as_read(const row &given) {
    return test::ask("SELECT jsonb_typeof(j->'c') || ' ' || coalesce(j->>'c', '-') FROM (SELECT $1::jsonb AS j) s",
                     {given.json()});
}

TEST(Row, ValuesKeepTheirTypes) {
    const std::optional<int> some = 7, none;
    const std::string text = "it's";
    EXPECT_EQ(as_read({{"c", 7}}), "number 7");
    EXPECT_EQ(as_read({{"c", true}}), "boolean true");
    EXPECT_EQ(as_read({{"c", std::int16_t{-1}}}), "number -1");
    EXPECT_EQ(as_read({{"c", std::numeric_limits<std::int64_t>::min()}}), "number -9223372036854775808");
    EXPECT_EQ(as_read({{"c", std::numeric_limits<std::uint64_t>::max()}}), "number 18446744073709551615");
    EXPECT_EQ(as_read({{"c", 0.1}}), "number 0.1");
    EXPECT_EQ(as_read({{"c", -2.5f}}), "number -2.5");
    EXPECT_EQ(std::stod(as_read({{"c", 1.0 / 3}}).substr(7)), 1.0 / 3);
    EXPECT_EQ(as_read({{"c", text}}), "string it's");
    EXPECT_EQ(as_read({{"c", text.c_str()}}), "string it's");
    EXPECT_EQ(as_read({{"c", std::string_view(text).substr(3)}}), "string s");
    EXPECT_EQ(as_read({{"c", "7"}}), "string 7");
    EXPECT_EQ(as_read({{"c", std::nullopt}}), "null -");
    EXPECT_EQ(as_read({{"c", nullptr}}), "null -");
    EXPECT_EQ(as_read({{"c", some}}), "number 7");
    EXPECT_EQ(as_read({{"c", none}}), "null -");
    EXPECT_EQ(as_read({{"c", std::optional<std::string>("x")}}), "string x");
    EXPECT_EQ(as_read({{"c", idem::json_text(R"(["a"])")}}), R"(array ["a"])");
}

TEST(Row, TextAndNamesAreEscaped) {
    std::string all;
    for (int c = 1; c < 0x80; ++c)
        all += static_cast<char>(c);
    all += "\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x92\xA1";
    EXPECT_EQ(as_read({{"c", all}}), "string " + all);
    EXPECT_EQ(test::ask("SELECT $1::jsonb->>$2", {row{{all, "value"}}.json(), all}), "value");
    const test::scratch rows;
    idem::client db = test::make_client();
    EXPECT_THROW(conditional_update(db, rows.table(), {{"id", 1}}, {}, {{"kind", std::string("a\0b", 3)}}), idem::bad_input);
    EXPECT_THROW(conditional_update(db, rows.table(), {{"id", 1}}, {}, {{"kind", "\xff"}}), idem::bad_input);
    EXPECT_EQ(rows.value_of("kind", 1), "thing");
}

TEST(Row, WhatJsonCannotRepresentIsRejected) {
    EXPECT_THROW(row({{"c", std::nan("")}}), idem::bad_input);
    EXPECT_THROW(row({{"c", std::numeric_limits<float>::infinity()}}), idem::bad_input);
    EXPECT_FALSE((std::is_constructible_v<idem::column_value, const int *>));
    EXPECT_FALSE((std::is_constructible_v<idem::column_value, const void *>));
}

TEST(Row, BuildsStepByStep) {
    row changes;
    EXPECT_EQ(changes.json(), "{}");
    changes.set("a", 1).set("b", std::nullopt);
    EXPECT_EQ(changes.json(), R"({"a": 1, "b": null})");
    const row &kept = row{{"a", 1}}.set("b", "x"); // a value, not a reference to the temporary
    EXPECT_EQ(kept.json(), R"({"a": 1, "b": "x"})");
    EXPECT_EQ(row(kept).json(), kept.json());
}

TEST(Row, JsonTextMustBeExplicit) {
    EXPECT_FALSE((std::is_convertible_v<std::string, row>));
    EXPECT_FALSE((std::is_convertible_v<const char *, row>));
    EXPECT_TRUE((std::is_convertible_v<idem::json_text, row>));
}

TEST(Row, IsTheKeyTheConditionAndTheChange) {
    const test::scratch rows;
    idem::client db = test::make_client();
    EXPECT_TRUE(conditional_update(db, rows.table(), {{"id", 1}}, {{kOdd, nullptr}}, {{kOdd, "x"}}));
    EXPECT_TRUE(conditional_update(db, rows.table(), {{"sku", "A-1"}}, {{kOdd, "x"}}, {{kOdd, std::nullopt}}));
    EXPECT_EQ(rows.value_of(std::string(test::kOddColumn) + " IS NULL", 1), "t");
    EXPECT_TRUE(transition(db, rows.table(), {{"id", 1}}, "new", "paid"));
    EXPECT_TRUE(idem::optimistic(db, rows.table(), {{"id", 1}},
                                 [](const std::string &) { return idem::json_text(R"({"kind": "text"})"); }));
    EXPECT_TRUE(idem::optimistic(db, rows.table(), idem::json_text(R"({"id": 1})"), [](const std::string &) {
        return row{{"kind", "row"}};
    }));
    EXPECT_EQ(idem::optimistic(db, rows.table(), {{"id", 1}}, [](const std::string &) { return std::nullopt; }).outcome,
              idem::row_outcome::unchanged);
    EXPECT_EQ(rows.value_of("kind", 1), "row");
}

} // namespace
