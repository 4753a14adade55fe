#include "events.hpp"

#include <algorithm>
#include <random>

namespace demo::orders {
namespace {

using Random = std::mt19937_64;

Event event(Random &random, int order, const char *to) {
    return {order, to, std::chrono::microseconds{std::uniform_int_distribution{500, 1500}(random)}};
}

// By order; order 1 stands first.
std::vector<bool> choose_cancelled(Random &random) {
    std::vector<bool> cancelled(kOrders, false);
    std::fill_n(cancelled.begin(), kCancelled, true);
    std::shuffle(cancelled.begin(), cancelled.end(), random);
    return cancelled;
}

} // namespace

Load make_load(std::uint64_t seed) {
    Random random{seed};
    Load load;
    auto &[pay, ship_or_cancel, deliver] = load;
    const auto cancelled = choose_cancelled(random);

    for (int order = 1; order <= kOrders; ++order)
        for (std::size_t worker = 0; worker < kWorkers; ++worker) {
            pay[worker].push_back(event(random, order, "paid"));
            deliver[worker].push_back(event(random, order, "delivered"));

            auto &events = ship_or_cancel[worker];
            events.push_back(event(random, order, "shipped"));
            if (!cancelled[static_cast<std::size_t>(order - 1)])
                continue;
            events.push_back(event(random, order, "cancelled"));
            if (worker == 0)
                std::swap(events.end()[-1], events.end()[-2]);
        }
    return load;
}

} // namespace demo::orders
