// Every replay equals the first response stored.
#include <algorithm>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kEqual = "every replay equals the first response";

// The response that a call may leave behind; begin carries it when the holder attaches it without a call of its own.
bool stores(const Step &step) {
    return step.call == Call::complete ||
           ((step.call == Call::begin || step.call == Call::claim || step.call == Call::try_claim) && !step.response.empty() &&
            !step.leased);
}

bool replays(const Step &step) {
    return succeeded(step) && step.outcome == "completed" && (step.call == Call::begin || step.call == Call::lookup) &&
           step.response_given.has_value();
}

void check_subject(const Index &index, const Subject &subject, Findings &findings) {
    const auto retention = index.shortest_retention(subject);
    std::vector<const Asked *> stored;
    std::vector<const Asked *> replayed;
    for (const auto &asked : subject.asked) {
        if (stores(*asked.step))
            stored.push_back(&asked);
        if (replays(*asked.step))
            replayed.push_back(&asked);
    }
    std::map<std::string, std::vector<const Asked *>> by_response;
    for (const auto *store : stored)
        by_response[plain_response(store->step->response)].push_back(store);
    for (const auto *replay : replayed) {
        const auto &candidates = by_response[plain_response(*replay->step->response_given)];
        const bool known = std::any_of(candidates.begin(), candidates.end(), [&](const Asked *store) {
            return store->step->sent <= replay->step->received &&
                   (store->number == replay->number || (index.fate(*store) != Fate::aborted && !store->step->undone));
        });
        if (known)
            continue;
        std::vector<const Transaction *> witnesses;
        for (const auto *store : stored)
            if (witnesses.size() < 5)
                witnesses.push_back(store->transaction);
        witnesses.push_back(replay->transaction);
        findings.add(kEqual, subject.kind, subject.name,
                     named(index, *replay->transaction) + " was given a response that nobody had stored", witnesses);
        return;
    }
    // Replays to transactions that changed the key themselves may show what was never committed.
    std::erase_if(replayed, [](const Asked *replay) {
        const auto &steps = replay->transaction->steps;
        return std::any_of(steps.begin(), steps.end(), [&](const Step &step) {
            return kind_of(step.call) == Kind::key && step.key == replay->step->key && may_have_changed(step);
        });
    });
    for (std::size_t i = 1; i < replayed.size(); ++i) {
        const auto &a = *replayed[i - 1];
        const auto &b = *replayed[i];
        if (plain_response(*a.step->response_given) == plain_response(*b.step->response_given))
            continue;
        // A snapshot may be as old as its transaction.
        const auto from = std::min(a.transaction->begun, b.transaction->begun);
        const auto to = std::max(a.step->received, b.step->received);
        // The key was completed at some time before the earlier of the two; it can have expired since only if a whole retention
        // has passed since the first call on it.
        const auto since = std::min(from, subject.asked.front().step->sent);
        if (retention == kNever || to < later(since, retention - slack(retention))) {
            if (index.may_be_forgotten(subject, from, to))
                continue;
            findings.add(kEqual, subject.kind, subject.name,
                         named(index, *a.transaction) + " and " + named(index, *b.transaction) +
                             " were given different responses",
                         {a.transaction, b.transaction});
            return;
        }
    }
}

} // namespace

void check_replays(const Index &index, Findings &findings) {
    for (const auto &[name, subject] : index.subjects())
        if (subject.kind == Kind::key)
            check_subject(index, subject, findings);
}

} // namespace chaos::judge
