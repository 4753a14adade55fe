#include "check.hpp"

#include <algorithm>

#include "guarantees.hpp"

namespace chaos {
namespace judge {

bool Findings::wants(const std::string &guarantee) const {
    const auto found = counts_.find(guarantee);
    return found == counts_.end() || found->second < limits_.violations_per_guarantee;
}

void Findings::add(const std::string &guarantee, Kind kind, const std::string &name, const std::string &explanation,
                   const std::vector<const Transaction *> &witnesses) {
    if (!wants(guarantee)) {
        ++report_.left_out;
        reported_.emplace(kind, name);
        return;
    }
    // About several names: whatever these transactions did.
    History history = name.empty() ? History{} : excerpt(index_.history(), kind, name, witnesses);
    if (name.empty())
        for (const auto *transaction : witnesses)
            history.transactions.push_back(*transaction);
    add({guarantee, name, explanation, std::move(history)}, kind);
}

void Findings::add(Violation violation, Kind kind) {
    ++counts_[violation.guarantee];
    reported_.emplace(kind, violation.key);
    report_.violations.push_back(std::move(violation));
}

History excerpt(const History &history, Kind kind, const std::string &name,
                const std::vector<const Transaction *> &transactions) {
    History part;
    part.setup.seed = history.setup.seed;
    part.setup.fences_by_name = history.setup.fences_by_name;
    if (kind == Kind::order)
        part.setup.transitions = history.setup.transitions;
    for (const auto &stock : history.setup.stock)
        if (kind == Kind::article && stock.first == name)
            part.setup.stock.push_back(stock);
    std::vector<std::uint64_t> seen;
    for (const auto *transaction : transactions) {
        if (std::find(seen.begin(), seen.end(), transaction->id) != seen.end())
            continue;
        seen.push_back(transaction->id);
        part.transactions.push_back(*transaction);
        auto &copy = part.transactions.back();
        std::erase_if(copy.steps, [&](const Step &step) { return kind_of(step.call) != kind || step.key != name; });
        std::erase_if(copy.effects, [&](const Effect &effect) { return effect.key != name; });
    }
    const auto &final_state = history.final_state;
    if (kind == Kind::key || kind == Kind::token || kind == Kind::lock)
        std::copy_if(final_state.effects.begin(), final_state.effects.end(), std::back_inserter(part.final_state.effects),
                     [&](const Effect &effect) {
                         return effect.key == name &&
                                (seen.empty() || std::find(seen.begin(), seen.end(), effect.transaction) != seen.end());
                     });
    if (kind == Kind::order) {
        std::copy_if(final_state.moves.begin(), final_state.moves.end(), std::back_inserter(part.final_state.moves),
                     [&](const Move &move) { return move.key == name; });
        std::copy_if(final_state.states.begin(), final_state.states.end(), std::back_inserter(part.final_state.states),
                     [&](const auto &state) { return state.first == name; });
    }
    if (kind == Kind::message)
        std::copy_if(final_state.messages.begin(), final_state.messages.end(), std::back_inserter(part.final_state.messages),
                     [&](const auto &message) { return message.first == name; });
    if (kind == Kind::article)
        std::copy_if(final_state.stock.begin(), final_state.stock.end(), std::back_inserter(part.final_state.stock),
                     [&](const auto &stock) { return stock.first == name; });
    return part;
}

std::string named(const Index &index, const Transaction &transaction) {
    const auto fate = index.fate(index.number(transaction));
    return "transaction " + std::to_string(transaction.id) + " (" + std::string(to_string(fate)) +
           (fate == transaction.fate ? "" : ", by what is in the table") + ")";
}

} // namespace judge

Report check(const History &history, const Limits &limits) {
    Report report;
    const judge::Index index(history);
    report.transactions = history.transactions.size();
    for (const auto &transaction : history.transactions)
        report.calls += transaction.steps.size();
    judge::Findings findings(index, limits, report);
    judge::check_effects(index, findings);
    judge::check_claims(index, findings);
    judge::check_replays(index, findings);
    judge::check_duplicates(index, findings);
    judge::check_fences(index, findings);
    judge::check_stale_fences(index, findings);
    judge::check_transitions(index, findings);
    judge::check_stock(index, findings);
    judge::check_publications(index, findings);
    judge::check_tokens(index, findings);
    judge::check_orders(index, limits, findings, report);
    return report;
}

} // namespace chaos
