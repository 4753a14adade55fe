// The load: which forms are handed out, and what becomes of each. It is made from a seed alone, so that all ways get the
// same.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace demo::forms {

inline constexpr std::size_t kHandedOut = 10'000;
inline constexpr std::size_t kSent = 1'000;

// What becomes of one form.
enum class Story { not_sent, once, double_click, sent_again, declined_once, expired, altered, other_customer };

// When a form is sent a second time, seen from the first.
enum class Again { never, same_moment, afterwards };

struct StoryLine {
    Story story;
    const char *name; // as the table `forms` and the report spell it
    const char *text;
    int share; // of every 500 forms
    Again again;
};

// In the order of Story.
inline constexpr std::array<StoryLine, 8> kStories{{
    {Story::not_sent, "not_sent", "never sent", 450, Again::never},
    {Story::once, "once", "sent once", 15, Again::never},
    {Story::double_click, "double_click", "sent twice at the same moment: a double click", 17, Again::same_moment},
    {Story::sent_again, "sent_again", "sent again after the order was made: the back button", 4, Again::afterwards},
    {Story::declined_once, "declined_once", "sent again after the card was declined once", 5, Again::afterwards},
    {Story::expired, "expired", "sent after the form has expired", 3, Again::never},
    {Story::altered, "altered", "sent with one character of the token altered", 3, Again::never},
    {Story::other_customer, "other_customer", "sent with the token of another customer", 3, Again::never},
}};

constexpr const StoryLine &line_of(Story story) { return kStories[static_cast<std::size_t>(story)]; }

// How many of the forms that are handed out have this story.
constexpr std::size_t forms_of(const StoryLine &line) { return static_cast<std::size_t>(line.share) * kHandedOut / 500; }

struct Form {
    int customer;
    Story story;
    std::size_t altered_place;                          // of the token, if it is altered
    std::array<std::chrono::microseconds, 2> work_time; // by click
};

using Load = std::vector<Form>; // a form's number is its place
Load make_load(std::uint64_t seed);

} // namespace demo::forms
