// Fences come from one generator per database: they strictly grow in real time, and each has one holder. In the portable
// edition each name has a generator of its own.
#include <algorithm>
#include <tuple>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kGrow = "fences strictly grow in real time";
const std::string kHolder = "at most one holder per fence";

// A fence was drawn by one of the calls that were given it: not before the first of them was sent, not after the first answer.
struct Drawn {
    std::int64_t fence = 0;
    Nanoseconds sent = kNever;
    Nanoseconds received = kNever;
    const Step *step = nullptr; // the first that was answered
    const Transaction *transaction = nullptr;
};

// A name of the portable edition, or the database.
using Generator = std::pair<Kind, std::string>;

// When an owner may first have been given a name without its answer having come: who asks again under the same owner is given
// the fence that was drawn then.
using Unanswered = std::map<std::tuple<Kind, std::string, std::string>, Nanoseconds>;

Unanswered unanswered_calls(const History &history) {
    Unanswered calls;
    for (const auto &transaction : history.transactions)
        for (const auto &step : transaction.steps) {
            if (step.received != kNever || step.owner.empty() || (step.call != Call::begin && step.call != Call::lock))
                continue;
            auto &sent = calls.try_emplace({kind_of(step.call), step.key, step.owner}, step.sent).first->second;
            sent = std::min(sent, step.sent);
        }
    return calls;
}

} // namespace

void check_fences(const Index &index, Findings &findings) {
    const Unanswered unanswered = unanswered_calls(index.history());
    const auto generator = [by_name = index.history().setup.fences_by_name](const Step &step) {
        return by_name ? Generator(kind_of(step.call), step.key) : Generator();
    };
    std::map<std::pair<Generator, std::int64_t>, Drawn> all;
    for (const auto &transaction : index.history().transactions)
        for (const auto &step : transaction.steps) {
            // Transactions that aborted count: a fence that was seen once is gone for good.
            if (!made_holder(step) || !step.fence_given)
                continue;
            auto &drawn = all[{generator(step), *step.fence_given}];
            if (drawn.step != nullptr) {
                const bool same_name = drawn.step->key == step.key && kind_of(drawn.step->call) == kind_of(step.call);
                if (!same_name || step.owner.empty() || step.owner != drawn.step->owner)
                    findings.add(kHolder, kind_of(step.call), same_name ? step.key : "",
                                 named(index, *drawn.transaction) + " and " + named(index, transaction) +
                                     " were both given fence " + std::to_string(*step.fence_given),
                                 {drawn.transaction, &transaction});
            }
            drawn.fence = *step.fence_given;
            drawn.sent = std::min(drawn.sent, step.sent);
            if (const auto before = unanswered.find({kind_of(step.call), step.key, step.owner}); before != unanswered.end())
                drawn.sent = std::min(drawn.sent, before->second);
            if (drawn.step == nullptr || step.received < drawn.received) {
                drawn.received = step.received;
                drawn.step = &step;
                drawn.transaction = &transaction;
            }
        }

    std::vector<const Drawn *> by_sent;
    std::vector<const Drawn *> by_received;
    for (const auto &[by, drawn] : all) {
        by_sent.push_back(&drawn);
        by_received.push_back(&drawn);
    }
    std::sort(by_sent.begin(), by_sent.end(), [](const Drawn *a, const Drawn *b) { return a->sent < b->sent; });
    std::sort(by_received.begin(), by_received.end(), [](const Drawn *a, const Drawn *b) { return a->received < b->received; });
    const Drawn *greatest = nullptr;
    auto next = by_received.begin();
    for (const auto *drawn : by_sent) {
        for (; next != by_received.end() && (*next)->received < drawn->sent; ++next)
            if (greatest == nullptr || (*next)->fence > greatest->fence)
                greatest = *next;
        if (greatest != nullptr && greatest->fence >= drawn->fence) {
            const bool same_name =
                greatest->step->key == drawn->step->key && kind_of(greatest->step->call) == kind_of(drawn->step->call);
            findings.add(kGrow, kind_of(drawn->step->call), same_name ? drawn->step->key : "",
                         named(index, *drawn->transaction) + " was given fence " + std::to_string(drawn->fence) + " after " +
                             named(index, *greatest->transaction) + " had been given " + std::to_string(greatest->fence),
                         {greatest->transaction, drawn->transaction});
        }
    }
}

} // namespace chaos::judge
