#include "load.hpp"

#include <algorithm>
#include <random>

namespace demo::forms {
namespace {

using Random = std::mt19937_64;

constexpr std::size_t forms_that_are_sent() {
    std::size_t sum = 0;
    for (const StoryLine &line : kStories)
        if (line.story != Story::not_sent)
            sum += forms_of(line);
    return sum;
}

static_assert(forms_that_are_sent() == kSent && kSent + forms_of(line_of(Story::not_sent)) == kHandedOut);

std::chrono::microseconds work_time(Random &random) {
    return std::chrono::microseconds{std::uniform_int_distribution{500, 1500}(random)};
}

Form form(Random &random, Story story) {
    return {.customer = std::uniform_int_distribution{1, 500}(random),
            .story = story,
            .altered_place = std::uniform_int_distribution<std::size_t>{0, 999}(random),
            .work_time = {work_time(random), work_time(random)}};
}

} // namespace

Load make_load(std::uint64_t seed) {
    Random random{seed};
    Load load;
    for (const StoryLine &line : kStories)
        for (std::size_t i = 0; i < forms_of(line); ++i)
            load.push_back(form(random, line.story));
    std::shuffle(load.begin(), load.end(), random);
    return load;
}

} // namespace demo::forms
