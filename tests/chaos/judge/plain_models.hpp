#ifndef IDEM_CHAOS_PLAIN_MODELS_HPP
#define IDEM_CHAOS_PLAIN_MODELS_HPP
// An article's stock under conditional_adjust with minimum 0, and an order's state under idem_transition: sections 6 and 7.
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "row_model.hpp"

namespace chaos::judge {

struct StockCall {
    enum class Answer : std::uint8_t { lost, adjusted, out_of_range, found }; // found: read, in the end
    Answer answer{};
    std::int64_t delta = 0;
    std::optional<std::int64_t> left; // as told
};

struct StockRules {
    using Row = std::int64_t;
    using Call = StockCall;

    void answers(const View<Row> &view, const Call &call, std::vector<Outcome<Row>> &outcomes) const {
        const auto after = view.seen + call.delta;
        if (call.answer == Call::Answer::found) {
            if (call.left == view.seen)
                outcomes.push_back({view.seen, false});
            return;
        }
        if (call.answer == Call::Answer::lost || (call.answer == Call::Answer::out_of_range && after < 0))
            outcomes.push_back({view.seen, false});
        if (call.answer != Call::Answer::out_of_range && after >= 0 && (!call.left || *call.left == after))
            outcomes.push_back({after, true});
    }
    bool reads_only(const Call &call) const {
        return call.answer == Call::Answer::out_of_range || call.answer == Call::Answer::found;
    }
    void settle(Row &) const {}
    std::size_t hash(const Row &row) const { return std::hash<Row>{}(row); }
    std::string describe(const Row &row) const { return "stock " + std::to_string(row); }
};

struct OrderCall {
    enum class Answer : std::uint8_t { lost, moved, already, not_allowed, found };
    Answer answer{};
    std::string to;
    std::optional<std::string> told; // the state that it was found in, by who was not let
};

struct OrderRules {
    using Row = std::string;
    using Call = OrderCall;

    const std::set<std::pair<std::string, std::string>> *allowed;

    void answers(const View<Row> &view, const Call &call, std::vector<Outcome<Row>> &outcomes) const {
        const bool possible = allowed->contains({view.seen, call.to});
        if (call.answer == Call::Answer::lost || (call.answer == Call::Answer::already && view.seen == call.to) ||
            (call.answer == Call::Answer::found && view.seen == call.to) ||
            (call.answer == Call::Answer::not_allowed && !possible && (!call.told || *call.told == view.seen)))
            outcomes.push_back({view.seen, false});
        if ((call.answer == Call::Answer::lost || call.answer == Call::Answer::moved) && possible)
            outcomes.push_back({call.to, true});
    }
    bool reads_only(const Call &call) const { return call.answer != Call::Answer::lost && call.answer != Call::Answer::moved; }
    void settle(Row &) const {}
    std::size_t hash(const Row &row) const { return std::hash<Row>{}(row); }
    std::string describe(const Row &row) const { return "\"" + row + "\""; }
};

} // namespace chaos::judge
#endif
