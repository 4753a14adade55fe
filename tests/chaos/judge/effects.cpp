// At most one effect per key and retention, and the effects that are there are those of the transactions that committed as
// holders.
#include <algorithm>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kOne = "at most one effect per key and retention";
const std::string kHolders = "only holders have effects";
const std::string kKept = "an acknowledged claim is never lost";

// What the effect is about: an effect under a lock's fence is no effect of a key, and a lock may protect any number.
Kind kind_of(const Transaction &transaction, const Effect &effect) {
    Kind kind = Kind::none;
    for (const auto &step : transaction.steps)
        if (step.key == effect.key) {
            kind = std::min(kind, judge::kind_of(step.call));
        }
    return kind;
}

bool told_holder(const Transaction &transaction, const Effect &effect) {
    return std::any_of(transaction.steps.begin(), transaction.steps.end(), [&](const Step &step) {
        if (step.key != effect.key || step.undone || !succeeded(step))
            return false;
        if (effect.fence == 0)
            return made_holder(step);
        return step.fence == effect.fence || (made_holder(step) && step.fence_given == effect.fence);
    });
}

struct Had {
    const Transaction *transaction;
    const Step *completion; // by which the effect is the key's; null: it is not, as far as can be seen
};

const Step *completion(const Transaction &transaction, const Effect &effect) {
    for (const auto &step : transaction.steps)
        if (step.key == effect.key && !step.undone && completes(step) &&
            (effect.fence == 0 ? made_holder(step) : step.call == Call::complete && step.fence == effect.fence))
            return &step;
    return nullptr;
}

// Could the key have been free again between the two steps that say that it was had?
bool may_both(const Index &index, const Subject &subject, const Step &one, const Step &other) {
    const auto since = std::min(one.sent, other.sent);
    const auto until = std::max(one.received, other.received);
    const auto retention = index.shortest_retention(subject);
    const auto free = later(since, retention == kNever ? kNever : retention - slack(retention));
    return until >= free || index.may_be_forgotten(subject, since, until);
}

// The holder was made by another transaction.
bool ends_earlier_lease(const Transaction &transaction, const Step &step) {
    return step.call == Call::complete && step.fence != 0 && succeeded(step) &&
           std::none_of(transaction.steps.begin(), transaction.steps.end(),
                        [&](const Step &own) { return made_holder(own) && own.fence_given == step.fence; });
}

// How many effects a transaction may have: one each time it held the key after that could have been free again.
std::size_t times_held(const Index &index, Kind kind, const Transaction &transaction, const Effect &effect) {
    const auto *subject = index.subject(kind, effect.key);
    const Step *last = nullptr;
    std::size_t times = 0;
    for (const auto &step : transaction.steps)
        if (step.key == effect.key && !step.undone && (made_holder(step) || ends_earlier_lease(transaction, step)) &&
            (last == nullptr || (subject != nullptr && may_both(index, *subject, *last, step)))) {
            last = &step;
            ++times;
        }
    return times;
}

void check_table(const Index &index, Findings &findings) {
    std::map<std::pair<std::uint64_t, std::string>, std::size_t> seen;
    for (const auto &effect : index.history().final_state.effects) {
        const auto *transaction = index.transaction(effect.transaction);
        if (transaction == nullptr) {
            findings.add(kHolders, Kind::key, effect.key,
                         "there is an effect of transaction " + std::to_string(effect.transaction) + ", which nobody ran", {});
            continue;
        }
        const auto kind = kind_of(*transaction, effect);
        const bool tried = std::any_of(transaction->effects.begin(), transaction->effects.end(),
                                       [&](const Effect &its) { return its.key == effect.key && its.fence == effect.fence; });
        if (index.fate(index.number(*transaction)) == Fate::aborted)
            findings.add(kHolders, kind, effect.key, "there is an effect of " + named(index, *transaction), {transaction});
        else if (!tried)
            findings.add(kHolders, kind, effect.key, "there is an effect that " + named(index, *transaction) + " never wrote",
                         {transaction});
        else if (!told_holder(*transaction, effect))
            findings.add(kHolders, kind, effect.key,
                         named(index, *transaction) + " had an effect and was not told that it holds the key", {transaction});
        const auto times = ++seen[{effect.transaction, effect.key}];
        if (times > 1 && kind != Kind::lock && times > times_held(index, kind, *transaction, effect))
            findings.add(kOne, kind, effect.key, named(index, *transaction) + " had its effect twice", {transaction});
    }
}

void check_kept(const Index &index, Findings &findings) {
    std::set<std::pair<std::uint64_t, std::string>> in_table;
    for (const auto &effect : index.history().final_state.effects)
        in_table.emplace(effect.transaction, effect.key);
    for (const auto &transaction : index.history().transactions) {
        if (transaction.fate != Fate::committed)
            continue;
        for (const auto &effect : transaction.effects)
            if (told_holder(transaction, effect) && !in_table.contains({transaction.id, effect.key}))
                findings.add(kKept, kind_of(transaction, effect), effect.key,
                             "the effect of " + named(index, transaction) + " is not there", {&transaction});
    }
}

void check_once(const Index &index, Findings &findings) {
    std::map<std::pair<Kind, std::string>, std::vector<Had>> by_key;
    for (const auto &effect : index.history().final_state.effects)
        if (const auto *transaction = index.transaction(effect.transaction)) {
            const auto kind = kind_of(*transaction, effect);
            const auto *step = completion(*transaction, effect);
            if (step != nullptr && (kind == Kind::key || kind == Kind::token))
                by_key[{kind, effect.key}].push_back({transaction, step});
        }
    for (auto &[name, had] : by_key) {
        const auto *subject = index.subject(name.first, name.second);
        std::sort(had.begin(), had.end(), [](const Had &a, const Had &b) { return a.completion->sent < b.completion->sent; });
        for (std::size_t i = 1; i < had.size(); ++i) {
            const auto &[one, other] = std::pair(had[i - 1], had[i]);
            if (one.transaction == other.transaction || may_both(index, *subject, *one.completion, *other.completion))
                continue;
            findings.add(kOne, name.first, name.second,
                         named(index, *one.transaction) + " and " + named(index, *other.transaction) +
                             " both had an effect, and the key was not free between them",
                         {one.transaction, other.transaction});
            break;
        }
    }
}

} // namespace

void check_effects(const Index &index, Findings &findings) {
    check_table(index, findings);
    check_kept(index, findings);
    check_once(index, findings);
}

} // namespace chaos::judge
