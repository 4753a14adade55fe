// What was sold is what is missing, and nothing that was not there was sold.
#include <algorithm>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kConserved = "stock sold is stock that was there";

void check_article(const Index &index, const Subject &subject, std::int64_t start, const std::int64_t *left,
                   Findings &findings) {
    std::int64_t low = start;
    std::int64_t high = start;
    std::vector<const Transaction *> witnesses;
    const Transaction *negative = nullptr;
    for (const auto &asked : subject.asked) {
        const auto &step = *asked.step;
        if (step.value_given && *step.value_given < 0)
            negative = asked.transaction;
        const auto fate = index.fate(asked);
        if (step.undone || fate == Fate::aborted || (answered(step) && (!succeeded(step) || step.outcome != "adjusted")))
            continue;
        const bool certain = fate == Fate::committed && answered(step);
        low += certain ? step.delta : std::min<std::int64_t>(step.delta, 0);
        high += certain ? step.delta : std::max<std::int64_t>(step.delta, 0);
        if (witnesses.size() < 20)
            witnesses.push_back(asked.transaction);
    }
    if (negative != nullptr)
        findings.add(kConserved, Kind::article, subject.name, named(index, *negative) + " was told of a negative stock",
                     {negative});
    if (left == nullptr)
        return;
    if (*left < 0)
        findings.add(kConserved, Kind::article, subject.name, "the stock is " + std::to_string(*left), witnesses);
    else if (*left < low || *left > high)
        findings.add(kConserved, Kind::article, subject.name,
                     "of " + std::to_string(start) + ", " + std::to_string(*left) + " are left, where " + std::to_string(low) +
                         (low == high ? "" : " to " + std::to_string(high)) + " should be",
                     witnesses);
}

} // namespace

void check_stock(const Index &index, Findings &findings) {
    std::map<std::string, std::int64_t> left(index.history().final_state.stock.begin(),
                                             index.history().final_state.stock.end());
    for (const auto &[article, start] : index.history().setup.stock) {
        const auto found = left.find(article);
        const auto *subject = index.subject(Kind::article, article);
        const Subject untouched{Kind::article, article, {}};
        check_article(index, subject != nullptr ? *subject : untouched, start, found == left.end() ? nullptr : &found->second,
                      findings);
    }
}

} // namespace chaos::judge
