// An acknowledged claim is never lost: once COMMIT was answered, nobody else is told that the key is free before its retention
// is over.
#include <algorithm>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kKept = "an acknowledged claim is never lost";

struct Claimed {
    Nanoseconds acknowledged;
    Nanoseconds free; // at the earliest
    const Asked *asked;
};

bool says_free(const Step &step) {
    if (made_holder(step))
        return true;
    return step.call == Call::lookup && succeeded(step) && (step.outcome.empty() || step.outcome == "none");
}

// Its own transaction has given it back.
bool is_withdrawn(const Asked &asked) {
    const auto &steps = asked.transaction->steps;
    const auto after = std::find_if(steps.begin() + (asked.step - steps.data()) + 1, steps.end(), [&](const Step &step) {
        return step.key == asked.step->key && succeeded(step) && !step.undone &&
               (made_holder(step) || (step.call == Call::release && step.fence == 0));
    });
    return after != steps.end() && after->call == Call::release;
}

void check_subject(const Index &index, const Subject &subject, Findings &findings) {
    const auto retention = index.shortest_retention(subject);
    std::vector<Claimed> claims;
    // Who completes with the same fence again changes nothing, and the retention is counted from the first time.
    std::map<std::int64_t, Nanoseconds> first;
    for (const auto &asked : subject.asked) {
        const auto &step = *asked.step;
        if (step.call == Call::complete && !step.undone && index.fate(asked) != Fate::aborted &&
            (succeeded(step) || !answered(step)))
            first.emplace(step.fence, step.sent);
    }
    for (const auto &asked : subject.asked)
        if ((asked.step->call != Call::complete || asked.step->fence != 0) && completes(*asked.step) && !asked.step->undone &&
            index.committed_by(asked.number) != kNever && !is_withdrawn(asked)) {
            const auto since = asked.step->call == Call::complete ? first.at(asked.step->fence) : asked.step->sent;
            const auto free = retention == kNever ? kNever : later(since, retention - slack(retention));
            claims.push_back({index.committed_by(asked.number), free, &asked});
        }
    std::sort(claims.begin(), claims.end(), [](const Claimed &a, const Claimed &b) { return a.acknowledged < b.acknowledged; });

    // Of the claims acknowledged up to each, the one that lasts longest.
    std::vector<const Claimed *> longest;
    for (const auto &claim : claims)
        longest.push_back(longest.empty() || claim.free > longest.back()->free ? &claim : longest.back());

    for (const auto &asked : subject.asked) {
        if (!says_free(*asked.step))
            continue;
        // What a transaction with a snapshot says may be as old as the snapshot.
        const bool current = asked.transaction->isolation == "rc" || asked.transaction->isolation.empty();
        const auto from = current ? asked.step->sent : asked.transaction->begun;
        const auto after = std::lower_bound(claims.begin(), claims.end(), from,
                                            [](const Claimed &claim, Nanoseconds t) { return claim.acknowledged < t; });
        if (after == claims.begin())
            continue;
        const auto *claim = longest[static_cast<std::size_t>(after - claims.begin()) - 1];
        if (claim->free <= asked.step->received ||
            index.may_be_forgotten(subject, claim->asked->step->sent, asked.step->received, asked.transaction))
            continue;
        findings.add(kKept, subject.kind, subject.name,
                     named(index, *asked.transaction) + " found it free after " + named(index, *claim->asked->transaction) +
                         " had been told that it committed",
                     {claim->asked->transaction, asked.transaction});
        return;
    }
}

} // namespace

void check_claims(const Index &index, Findings &findings) {
    for (const auto &[name, subject] : index.subjects())
        if (subject.kind == Kind::key || subject.kind == Kind::token)
            check_subject(index, subject, findings);
}

} // namespace chaos::judge
