#ifndef IDEM_CHAOS_SHRINK_HPP
#define IDEM_CHAOS_SHRINK_HPP
// Leaves out of a history that nothing explains what has no part in it. A transaction or a call is left out if the same answer
// still fails and finds the same states before it, so that what remains fails for the same reason and not for want of what was
// left out.
#include <algorithm>
#include <set>
#include <vector>

#include "linearizability.hpp"

namespace chaos::judge {

// The operations that remain of those of a failed search; `units` are what is left out together, tried in turn.
// REQUIRES: alike(states, states) compares what two searches found before they failed.
template <typename Model, typename Alike>
std::vector<std::size_t> shrink(const Model &model, const std::vector<typename Model::State> &initial,
                                const std::vector<Timed<typename Model::Operation>> &operations,
                                const SearchResult<typename Model::State> &failure, std::vector<std::vector<std::size_t>> units,
                                const Alike &alike, const SearchLimits &limits) {
    std::set<std::size_t> kept;
    const auto end = operations[failure.failed].returned;
    for (std::size_t i = 0; i < operations.size(); ++i)
        if (operations[i].called <= end)
            kept.insert(i);

    const auto fails_alike = [&](const std::set<std::size_t> &chosen) {
        std::vector<Timed<typename Model::Operation>> some;
        std::vector<std::size_t> places(operations.size(), kNone);
        for (const auto i : chosen) {
            places[i] = some.size();
            some.push_back(operations[i]);
            // What comes before may have been left out; then what comes before that.
            auto after = operations[i].after;
            while (after != kNone && !chosen.contains(after))
                after = operations[after].after;
            some.back().after = after == kNone ? kNone : places[after];
        }
        const auto result = search(model, initial, some, limits);
        return result.verdict == Verdict::impossible && result.failed == places[failure.failed] &&
               alike(result.before, failure.before);
    };

    std::erase_if(units, [&](const auto &unit) {
        return std::any_of(unit.begin(), unit.end(), [&](std::size_t i) { return i == failure.failed; });
    });
    // Without those that have been left out already, by another unit.
    const auto prune = [&] {
        std::erase_if(units, [&](const auto &unit) {
            return std::none_of(unit.begin(), unit.end(), [&](std::size_t i) { return kept.contains(i); });
        });
    };
    // By `size` neighbours at a time; false when the time is over.
    const auto pass = [&](std::size_t size, std::size_t stride) {
        for (std::size_t from = 0; from < units.size();) {
            if (std::chrono::steady_clock::now() > limits.deadline)
                return false;
            auto without = kept;
            for (std::size_t unit = from; unit < std::min(from + size, units.size()); ++unit)
                for (const auto i : units[unit])
                    without.erase(i);
            if (without.size() < kept.size() && fails_alike(without)) {
                kept = std::move(without);
                prune();
            } else {
                from += stride;
            }
        }
        return true;
    };
    prune();
    bool in_time = true;
    for (std::size_t size = units.size() / 2; in_time && size > 1; size /= 2)
        in_time = pass(size, size);
    // What was claimed, and what freed it, can only go together.
    for (std::size_t before = 0; in_time && before != kept.size();) {
        before = kept.size();
        for (std::size_t size = 1; in_time && size <= 3; ++size)
            in_time = pass(size, 1);
    }
    return {kept.begin(), kept.end()};
}

} // namespace chaos::judge
#endif
