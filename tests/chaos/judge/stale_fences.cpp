// No committed write under a stale fence: neither was a greater one given out and committed before the fence was shown, nor did
// somebody take the lock between idem_assert_fence and the end of its transaction.
#include <algorithm>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kStale = "no committed write under a stale fence";

bool shows_fence(const Step &step) {
    switch (step.call) {
    case Call::complete:
    case Call::release:
    case Call::renew:
    case Call::step:
    case Call::assert_fence:
        return succeeded(step) && step.fence != 0;
    case Call::renew_lock:
    case Call::unlock:
        return succeeded(step) && step.fence != 0 && step.outcome == "t";
    default:
        return false;
    }
}

void check_subject(const Index &index, const Subject &subject, Findings &findings) {
    struct Given {
        Nanoseconds committed;
        std::int64_t fence;
        const Asked *asked;
    };
    std::vector<Given> given;
    for (const auto &asked : subject.asked)
        if (made_holder(*asked.step) && asked.step->fence_given && !asked.step->undone &&
            index.committed_by(asked.number) != kNever)
            given.push_back({index.committed_by(asked.number), *asked.step->fence_given, &asked});
    std::sort(given.begin(), given.end(), [](const Given &a, const Given &b) { return a.committed < b.committed; });
    std::vector<const Given *> greatest;
    for (const auto &one : given)
        greatest.push_back(greatest.empty() || one.fence > greatest.back()->fence ? &one : greatest.back());

    for (const auto &asked : subject.asked) {
        const auto &step = *asked.step;
        if (!shows_fence(step) || step.undone || index.fate(asked) != Fate::committed)
            continue;
        const auto after = std::lower_bound(given.begin(), given.end(), step.sent,
                                            [](const Given &one, Nanoseconds t) { return one.committed < t; });
        if (after != given.begin()) {
            const auto *taken = greatest[static_cast<std::size_t>(after - given.begin()) - 1];
            if (taken->fence > step.fence && taken->asked->number != asked.number) {
                findings.add(kStale, subject.kind, subject.name,
                             named(index, *asked.transaction) + " used fence " + std::to_string(step.fence) + " after " +
                                 named(index, *taken->asked->transaction) + " had been given " + std::to_string(taken->fence),
                             {taken->asked->transaction, asked.transaction});
                return;
            }
        }
        if (step.call != Call::assert_fence)
            continue;
        // The transaction was certainly open until its last step was sent.
        const auto open_until = asked.transaction->steps.back().sent;
        for (auto other = std::upper_bound(subject.asked.begin(), subject.asked.end(), step.received,
                                           [](Nanoseconds t, const Asked &one) { return t < one.step->sent; });
             other != subject.asked.end() && other->step->sent < open_until; ++other)
            if (other->number != asked.number && made_holder(*other->step) && other->step->received < open_until &&
                other->step->fence_given > step.fence) {
                findings.add(kStale, subject.kind, subject.name,
                             named(index, *other->transaction) + " took the lock while " + named(index, *asked.transaction) +
                                 ", which had asserted its fence, was still open",
                             {asked.transaction, other->transaction});
                return;
            }
    }
}

} // namespace

void check_stale_fences(const Index &index, Findings &findings) {
    for (const auto &[name, subject] : index.subjects())
        if (subject.kind == Kind::key || subject.kind == Kind::lock)
            check_subject(index, subject, findings);
}

} // namespace chaos::judge
