// `completed`, false and `duplicate` are said only of something that had committed, or could have, before the answer.
#include <algorithm>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kReal = "only a real duplicate is called one";

void check_subject(const Index &index, const Subject &subject, Findings &findings) {
    const Asked *first = nullptr;
    for (const auto &asked : subject.asked) {
        const auto &step = *asked.step;
        const bool no_answer = !answered(step) && may_have_changed(step) && step.call != Call::forget;
        if (first == nullptr && index.fate(asked) != Fate::aborted && !step.undone && (completes(step) || no_answer))
            first = &asked;
    }
    for (const auto &asked : subject.asked) {
        if (!said_duplicate(*asked.step))
            continue;
        if (first != nullptr && first->step->sent <= asked.step->received)
            continue;
        // Its own claim is a duplicate to it, even one that is rolled back afterwards.
        const auto &steps = asked.transaction->steps;
        if (std::any_of(steps.begin(), steps.end(), [&](const Step &own) {
                return kind_of(own.call) == subject.kind && own.key == subject.name && own.sent < asked.step->sent &&
                       completes(own);
            }))
            continue;
        std::vector<const Transaction *> witnesses;
        for (const auto &other : subject.asked)
            if (may_have_changed(*other.step) && other.step->sent <= asked.step->received && witnesses.size() < 10 &&
                std::find(witnesses.begin(), witnesses.end(), other.transaction) == witnesses.end())
                witnesses.push_back(other.transaction);
        witnesses.push_back(asked.transaction);
        findings.add(kReal, subject.kind, subject.name,
                     named(index, *asked.transaction) +
                         " was told of a duplicate, and nothing that it could repeat had committed",
                     witnesses);
        return;
    }
}

} // namespace

void check_duplicates(const Index &index, Findings &findings) {
    for (const auto &[name, subject] : index.subjects())
        if (subject.kind == Kind::key || subject.kind == Kind::token)
            check_subject(index, subject, findings);
}

} // namespace chaos::judge
