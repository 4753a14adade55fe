#include "index.hpp"

#include <algorithm>
#include <set>

namespace chaos::judge {
namespace {

// The runner may list what a rolled-back subtransaction wrote as well; only a change that was not undone vouches for an effect.
bool vouched_for(const Transaction &transaction, const Effect &effect) {
    return std::any_of(transaction.steps.begin(), transaction.steps.end(), [&](const Step &step) {
        return step.key == effect.key && !step.undone && succeeded(step) &&
               (made_holder(step) || (effect.fence != 0 && step.fence == effect.fence));
    });
}

} // namespace

Kind kind_of(Call call) {
    switch (call) {
    case Call::claim:
    case Call::try_claim:
    case Call::begin:
    case Call::complete:
    case Call::release:
    case Call::renew:
    case Call::step:
    case Call::lookup:
    case Call::forget:
        return Kind::key;
    case Call::redeem:
        return Kind::token;
    case Call::lock:
    case Call::renew_lock:
    case Call::unlock:
    case Call::assert_fence:
        return Kind::lock;
    case Call::transition:
        return Kind::order;
    case Call::adjust:
        return Kind::article;
    case Call::publish:
        return Kind::message;
    case Call::sweep:
        break;
    }
    return Kind::none;
}

Nanoseconds later(Nanoseconds time, Nanoseconds duration) { return time > kNever - duration ? kNever : time + duration; }

Nanoseconds slack(Nanoseconds duration) { return 5 * kMillisecond + duration / 1000; }

Nanoseconds retention_of(const Step &step) { return step.retention > 0 ? step.retention : kDefaultRetention; }

Nanoseconds lease_of(const Step &step) { return step.lease > 0 ? step.lease : kDefaultLease; }

std::string plain_response(std::string_view response) {
    std::string plain;
    std::copy_if(response.begin(), response.end(), std::back_inserter(plain), [](unsigned char c) { return c > ' '; });
    if (plain.size() >= 2 && plain.front() == '"' && plain.back() == '"')
        plain = plain.substr(1, plain.size() - 2);
    return plain;
}

bool answered(const Step &step) {
    // 08: the connection; 57P: the server was stopped under it.
    return step.received != kNever && !step.sqlstate.starts_with("08") && !step.sqlstate.starts_with("57P");
}

bool succeeded(const Step &step) { return step.received != kNever && step.sqlstate.empty(); }

bool made_holder(const Step &step) {
    if (!succeeded(step))
        return false;
    switch (step.call) {
    case Call::claim:
        return step.outcome == "t";
    case Call::try_claim:
    case Call::begin:
        return step.outcome == "acquired" || step.outcome == "taken_over";
    case Call::redeem:
        return step.outcome == "accepted";
    case Call::lock:
        return step.fence_given.has_value();
    default:
        return false;
    }
}

bool said_duplicate(const Step &step) {
    if (!succeeded(step))
        return false;
    switch (step.call) {
    case Call::claim:
        return step.outcome == "f";
    case Call::try_claim:
    case Call::begin:
        return step.outcome == "completed";
    case Call::redeem:
        return step.outcome == "duplicate";
    default:
        return false;
    }
}

bool completes(const Step &step) {
    if (step.call == Call::complete)
        return succeeded(step);
    return made_holder(step) && step.call != Call::lock && !(step.call == Call::begin && step.leased);
}

bool may_have_changed(const Step &step) {
    if (step.call == Call::lookup || said_duplicate(step))
        return false;
    if (!succeeded(step))
        return true;
    const auto &outcome = step.outcome;
    return outcome != "in_flight" && outcome != "mismatch" && outcome != "in_doubt" && outcome != "expired" &&
           outcome != "invalid" && !(step.call == Call::forget && outcome == "f");
}

Index::Index(const History &history) : history_(history) {
    const auto &transactions = history.transactions;
    std::set<std::uint64_t> in_table;
    for (const auto &effect : history.final_state.effects)
        in_table.insert(effect.transaction);

    fates_.reserve(transactions.size());
    for (std::uint32_t number = 0; number < transactions.size(); ++number) {
        const auto &transaction = transactions[number];
        numbers_.emplace(transaction.id, number);
        Fate fate = transaction.fate;
        if (fate == Fate::unknown) {
            if (in_table.contains(transaction.id))
                fate = Fate::committed;
            else if (std::any_of(transaction.effects.begin(), transaction.effects.end(),
                                 [&](const Effect &effect) { return vouched_for(transaction, effect); }))
                fate = Fate::aborted;
        }
        fates_.push_back(fate);
        for (const auto &step : transaction.steps) {
            const auto kind = kind_of(step.call);
            if (kind == Kind::none)
                continue;
            auto &subject = subjects_[{kind, step.key}];
            subject.kind = kind;
            subject.name = step.key;
            subject.asked.push_back({number, &transaction, &step});
        }
    }
    for (auto &[name, subject] : subjects_)
        std::stable_sort(subject.asked.begin(), subject.asked.end(),
                         [](const Asked &a, const Asked &b) { return a.step->sent < b.step->sent; });
}

const Subject *Index::subject(Kind kind, const std::string &name) const {
    const auto found = subjects_.find({kind, name});
    return found == subjects_.end() ? nullptr : &found->second;
}

const Transaction *Index::transaction(std::uint64_t id) const {
    const auto found = numbers_.find(id);
    return found == numbers_.end() ? nullptr : &history_.transactions[found->second];
}

std::uint32_t Index::number(const Transaction &transaction) const {
    return static_cast<std::uint32_t>(&transaction - history_.transactions.data());
}

Nanoseconds Index::committed_by(std::uint32_t number) const {
    const auto &transaction = history_.transactions[number];
    return transaction.fate == Fate::committed ? transaction.ended : kNever;
}

bool Index::may_be_forgotten(const Subject &subject, Nanoseconds from, Nanoseconds to, const Transaction *asker) const {
    return std::any_of(subject.asked.begin(), subject.asked.end(), [&](const Asked &asked) {
        const auto &step = *asked.step;
        if (step.call != Call::forget || !may_have_changed(step) || step.sent > to)
            return false;
        if (asked.transaction == asker)
            return true;
        // It takes effect when its transaction commits, which has no bound if that one's fate is unknown.
        return !step.undone && fate(asked) != Fate::aborted && committed_by(asked.number) >= from;
    });
}

Nanoseconds Index::shortest_retention(const Subject &subject) const {
    if (subject.kind == Kind::token)
        return kNever;
    Nanoseconds shortest = kNever;
    for (const auto &asked : subject.asked)
        if (asked.step->call == Call::claim || asked.step->call == Call::try_claim || asked.step->call == Call::begin)
            shortest = std::min(shortest, retention_of(*asked.step));
    return shortest;
}

} // namespace chaos::judge
