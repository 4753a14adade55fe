#include "requests.hpp"

#include <algorithm>
#include <cstdio>
#include <random>

namespace demo::payments {
namespace {

using Random = std::mt19937_64;

constexpr int share_of_all() {
    int sum = 0;
    for (const StoryLine &line : kStories)
        sum += line.share;
    return sum;
}

static_assert(share_of_all() == 60 && kStories[0].share == 30);

std::int64_t between(Random &random, std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>{low, high}(random);
}

Story story_of(std::size_t payment) {
    int place = static_cast<int>(payment % share_of_all());
    for (const StoryLine &line : kStories) {
        if (place < line.share)
            return line.story;
        place -= line.share;
    }
    return Story::once;
}

std::string random_key(Random &random) {
    char text[40];
    std::snprintf(text, sizeof text, "pay-%016llx", static_cast<unsigned long long>(random()));
    return text;
}

// A client retries a request that is still running because it is slow: this one is.
std::chrono::milliseconds gateway_time(Random &random, Story story) {
    if (story == Story::retry_in_flight)
        return std::chrono::milliseconds{between(random, 30, 50)};
    return std::chrono::milliseconds{between(random, 4, 12)};
}

// A place in the order of sending. A second request follows its first one directly, unless it comes later.
struct Slot {
    double at;
    Request request;
};

double second_slot(Random &random, Timing timing, double first) {
    if (timing != Timing::later)
        return first;
    return first + std::uniform_real_distribution<double>{0.01, 0.1}(random);
}

} // namespace

std::string Request::body() const {
    return R"({"customer": )" + std::to_string(customer) + R"(, "amount_cents": )" + std::to_string(amount_cents) +
           R"(, "currency": "EUR"})";
}

Load make_load(std::uint64_t seed, std::size_t size) {
    Random random{seed};
    Load load;
    std::vector<Slot> slots;

    for (std::size_t i = 0; i < size * 2 / 3; ++i) {
        const Story story = story_of(i);
        Request request{.payment = i,
                        .key = random_key(random),
                        .customer = static_cast<int>(between(random, 1, 500)),
                        .amount_cents = between(random, 100, 20'000),
                        .first = true,
                        .gateway_time = gateway_time(random, story)};
        const double at = std::uniform_real_distribution<double>{0, 1}(random);
        load.payments.push_back({request.key, request.amount_cents, story});
        slots.push_back({at, request});

        const Timing timing = line_of(story).second_request;
        if (timing == Timing::never)
            continue;
        request.first = false;
        if (story == Story::other_amount)
            request.amount_cents += between(random, 1, 500);
        slots.push_back({second_slot(random, timing, at), request});
    }

    std::ranges::stable_sort(slots, {}, &Slot::at);
    for (Slot &slot : slots)
        load.requests.push_back(std::move(slot.request));
    return load;
}

} // namespace demo::payments
