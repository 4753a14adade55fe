// Durations, tables, stored outcomes, the progress bar.
#include <gtest/gtest.h>

#include "duration.hpp"
#include "outcome.hpp"
#include "progress.hpp"
#include "table.hpp"
#include "usage.hpp"

namespace idem::cli {
namespace {

using std::chrono::milliseconds;

TEST(Duration, numbers_with_units_are_added_up) {
    EXPECT_EQ(parse_duration("30s"), milliseconds(30'000));
    EXPECT_EQ(parse_duration("5 min"), milliseconds(300'000));
    EXPECT_EQ(parse_duration("1h30m"), milliseconds(5'400'000));
    EXPECT_EQ(parse_duration(" 1 h  30 m "), milliseconds(5'400'000));
    EXPECT_EQ(parse_duration("1.5 hours"), milliseconds(5'400'000));
    EXPECT_EQ(parse_duration("250ms"), milliseconds(250));
    EXPECT_EQ(parse_duration("2w"), milliseconds(1'209'600'000));
    EXPECT_EQ(parse_duration("0"), milliseconds(0));
    EXPECT_EQ(parse_duration("0s"), milliseconds(0));
}

TEST(Duration, what_is_none_is_refused) {
    for (const char *text : {"", " ", "30", "s", "-5s", "5x", "1h30", "5 m 3", "1e3s", "5s,", "inf", "nan s", "9999999999999d",
                             "101 years", ".5s"})
        EXPECT_THROW(parse_duration(text), usage_error) << text;
}

TEST(Outcome, text_is_what_json_in_the_database_can_hold) {
    for (const std::string_view text : {"", "plain", "grüße €", "\xF0\x9F\x90\x98", "\xED\x9F\xBF", "\x01\x1f"})
        EXPECT_TRUE(is_storable_text(text)) << text;
    using namespace std::string_view_literals;
    for (const std::string_view text :
         {"nul\0"sv, "\xFF"sv, "\xC3"sv, "\xC0\x80"sv, "\xE0\x80\x80"sv, "\xED\xA0\x80"sv, "\xF4\x90\x80\x80"sv, "a\x80"sv})
        EXPECT_FALSE(is_storable_text(text));
}

TEST(Outcome, base64_of_every_length_comes_back) {
    std::string bytes;
    for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
        bytes += static_cast<char>(i * 37);
    }
    EXPECT_EQ(base64_encode("a"), "YQ==");
    EXPECT_EQ(base64_encode("ab"), "YWI=");
    EXPECT_EQ(base64_encode("abc"), "YWJj");
    EXPECT_THROW(base64_decode("a-b"), std::invalid_argument);
}

answer stored(const response &what) {
    answer known;
    known.response = what.json;
    known.status_code = what.status_code;
    known.replayed = true;
    return known;
}

TEST(Outcome, run_comes_back_as_it_was) {
    child_end end;
    end.value = 3;
    end.out = {"text\n", 5};
    end.err = {std::string("\0\xFF", 2), 2};
    const auto known = from_answer(stored(to_response(end, true)));
    ASSERT_TRUE(known);
    EXPECT_EQ(known->exit_code, 3);
    EXPECT_EQ(known->out->bytes, "text\n");
    EXPECT_EQ(known->err->bytes, std::string("\0\xFF", 2));
    EXPECT_FALSE(known->where.empty());
}

TEST(Outcome, output_over_the_limit_is_said_to_be_missing) {
    child_end end;
    end.out = {"", 70'000};
    const auto known = from_answer(stored(to_response(end, true)));
    ASSERT_TRUE(known);
    EXPECT_EQ(known->out->omitted, 70'000u);
    EXPECT_FALSE(known->err->omitted);
    EXPECT_FALSE(from_answer(stored(to_response(end, false)))->out);
}

TEST(Outcome, death_by_signal_is_kept_as_the_shell_says_it) {
    child_end end;
    end.what = child_end::how::signalled;
    end.value = 9;
    EXPECT_EQ(from_answer(stored(to_response(end, false)))->exit_code, 137);
}

TEST(Outcome, what_no_run_stored_is_no_outcome) {
    EXPECT_FALSE(from_answer({}));
    EXPECT_FALSE(from_answer(stored({0, "{}"})));
    EXPECT_FALSE(from_answer(stored({201, R"({"idem_run": 1, "exit_code": 0})"})));
    EXPECT_FALSE(from_answer(stored({0, "[]"})));
    EXPECT_FALSE(from_answer(stored(response(std::string(R"({"idem_run": 1, "exit_code": 0})")))));
    EXPECT_FALSE(from_answer(stored({0, R"({"idem_run": 1, "exit_code": 0, "stdout": {"base64": "?"}})"})));
}

TEST(Outcome, response_over_the_servers_limit_leaves_the_exit_code) {
    answer known;
    known.status_code = 4;
    known.response_omitted = true;
    EXPECT_EQ(from_answer(known)->exit_code, 4);
    EXPECT_TRUE(from_answer(known)->omitted);
}

TEST(Table, columns_are_aligned_numbers_to_the_right) {
    EXPECT_EQ(as_table({R"({"name": "é", "n": 5, "ok": true})", R"({"name": "long", "n": 1234, "ok": null})"}),
              "name     n  ok\n"
              "----  ----  ---\n"
              "é        5  yes\n"
              "long  1234\n");
}

TEST(Table, without_rows_is_its_heading) { EXPECT_EQ(as_table({}, {"a", "bc"}), "a  bc\n-  --\n"); }

TEST(Table, control_characters_do_not_reach_the_terminal) {
    EXPECT_EQ(printable("a\x1b[2J\n\tb\x7f\xC2\x9b"), "a\\x1b[2J\\n\\tb\\x7f\\x9b");
    EXPECT_EQ(as_table({R"({"k": "a\u001b"})"}), "k\n-----\na\\x1b\n");
}

TEST(Table, json_is_passed_on_unchanged) {
    EXPECT_EQ(as_json({}), "[]\n");
    EXPECT_EQ(as_json({R"({"n": 1.50})", R"({"n": 12345678901234567890})"}),
              "[{\"n\": 1.50},\n {\"n\": 12345678901234567890}]\n");
}

TEST(Progress, part_is_read_from_the_notice) {
    EXPECT_EQ(part_done("sweeping \"idem_keys\": 30 of 120 blocks, 7 rows deleted"), 0.25);
    EXPECT_EQ(part_done("out of luck: 3 of 3"), 1.0);
    EXPECT_EQ(part_done("0 of 0 blocks"), 1.0);
    EXPECT_EQ(part_done("nothing is swept before tomorrow"), std::nullopt);
}

TEST(Progress, bar_fits_the_terminal) {
    EXPECT_EQ(bar_text(0.5, "x", 200), "[###############...............]  50 %  x");
    EXPECT_EQ(bar_text(1, std::string(300, 'x'), 79).size(), 79u);
}

} // namespace
} // namespace idem::cli
