#include "key_model.hpp"

#include <algorithm>

#include "index.hpp"

namespace chaos::judge {
namespace {

using Phase = KeyRow::Phase;
using Own = KeyRow::Own;
using Verb = KeyCall::Verb;
using Answer = KeyCall::Answer;
using Outcomes = std::vector<Outcome<KeyRow>>;

Between from_now(const KeyCall &call, Nanoseconds duration) {
    return {later(call.sent, duration - std::min(duration, slack(duration))),
            later(later(call.received, duration), slack(duration))};
}

Between hull(const Between &a, const Between &b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

// Questions about a row during a call. "Live = not expired. Expired = retention over, and no live lease."
struct During {
    const KeyRow &row;
    const KeyCall &call;

    bool in_progress() const { return row.phase == Phase::in_progress; }
    bool lease_may_be_over() const { return in_progress() && row.lease.may_be_over(call.received); }
    bool lease_may_be_live() const { return in_progress() && !row.lease.certainly_over(call.sent); }
    bool may_be_expired() const {
        return row.phase != Phase::absent && row.expires.may_be_over(call.received) && (!in_progress() || lease_may_be_over());
    }
    bool may_be_live() const {
        if (row.phase == Phase::absent)
            return false;
        return row.own != Own::no || !row.expires.certainly_over(call.sent) || lease_may_be_live();
    }
    bool may_be_gone() const { return row.phase == Phase::absent || may_be_expired(); }

    bool fingerprints_may_differ() const {
        return call.fingerprint != 0 && row.fingerprint != 0 && call.fingerprint != row.fingerprint;
    }
    bool fingerprints_may_agree() const { return !fingerprints_may_differ() || !row.fingerprint_sure; }
    bool same_owner() const { return call.verb == Verb::begin && call.leased && call.owner != 0 && call.owner == row.owner; }
    bool right_fence() const { return in_progress() && call.fence != 0 && call.fence == row.fence; }
    bool same_response() const { return call.response == row.response; }
    bool is_given(const Steps &steps) const { return !call.steps_given || *call.steps_given == steps; }
};

bool attempt_fits(const KeyCall &call, std::int32_t attempt) { return call.attempt == 0 || call.attempt == attempt; }

// The row of a new holder. `old` is what he found there and took over, null if nothing.
KeyRow held(const KeyRow *old, const KeyCall &call) {
    KeyRow row;
    row.attempt = old == nullptr ? 1 : old->attempt + 1;
    row.retention = {call.retention, call.retention};
    row.expires = from_now(call, call.retention);
    row.fingerprint = call.fingerprint;
    if (old != nullptr) {
        row.steps = old->steps;
        // Whether the second holder's retention and fingerprint replace the first's, the contract leaves open.
        row.retention = hull(row.retention, old->retention);
        row.expires = hull(row.expires, old->expires);
        if (row.fingerprint != old->fingerprint) {
            if (row.fingerprint == 0)
                row.fingerprint = old->fingerprint;
            row.fingerprint_sure = false;
        } else {
            row.fingerprint_sure = old->fingerprint_sure;
        }
    }
    if (call.leased) {
        row.phase = Phase::in_progress;
        row.own = Own::leased;
        row.owner = call.owner;
        row.fence = call.fence_given;
        row.lease = from_now(call, call.lease);
    } else {
        row.phase = Phase::completed;
        row.own = Own::transactional;
        row.response = call.response;
        // From the claim, or from the commit, at which it is completed; in a ring from the claim alone.
        if (!call.in_ring)
            row.expires.high =
                std::max(row.expires.high, later(later(call.committed_by, call.retention), slack(call.retention)));
    }
    return row;
}

void acquire(const During &now, Outcomes &outcomes) {
    const auto &row = now.row;
    const auto &call = now.call;
    if (now.may_be_gone() && attempt_fits(call, 1))
        outcomes.push_back({held(nullptr, call), true});
    if (row.phase == Phase::released && now.may_be_live() && now.fingerprints_may_agree() &&
        attempt_fits(call, row.attempt + 1))
        outcomes.push_back({held(&row, call), true});
    if (now.in_progress() && now.same_owner() && now.may_be_live() && now.fingerprints_may_agree() &&
        attempt_fits(call, row.attempt) &&
        (row.fence == kUnknownFence || call.fence_given == kUnknownFence || call.fence_given == row.fence)) {
        auto again = row;
        if (call.fence_given != kUnknownFence)
            again.fence = call.fence_given;
        again.lease = from_now(call, call.lease);
        if (again.fingerprint != call.fingerprint && call.fingerprint != 0) {
            again.fingerprint = call.fingerprint;
            again.fingerprint_sure = false;
        }
        outcomes.push_back({again, true});
    }
}

void take_over(const During &now, Outcomes &outcomes) {
    const auto &row = now.row;
    const auto &call = now.call;
    if (!now.lease_may_be_over() || !now.may_be_live() || !now.fingerprints_may_agree() || now.same_owner() ||
        row.own == Own::transactional || !attempt_fits(call, row.attempt + 1))
        return;
    if (call.leased && call.fence_given != kUnknownFence && call.fence_given <= row.fence)
        return;
    outcomes.push_back({held(&row, call), true});
}

bool may_say_completed(const During &now) {
    const auto &row = now.row;
    if (row.phase != Phase::completed || !now.may_be_live())
        return false;
    if ((now.call.response != kAnyResponse && now.call.response != row.response) || !now.is_given(row.steps))
        return false;
    // "own transaction's transactional claim, claim again" comes before the fingerprints, which come before the rest.
    return row.own == Own::transactional || now.fingerprints_may_agree();
}

bool may_say_in_flight(const During &now) {
    if (now.row.own == Own::leased && now.lease_may_be_live())
        return true;
    // A sweep may be deleting what is expired.
    return now.may_be_expired() || (now.lease_may_be_live() && !now.same_owner() && now.fingerprints_may_agree());
}

// An intended step may still be done; a done one keeps its output.
void change_step(const During &now, Outcomes &outcomes) {
    const auto &call = now.call;
    auto row = now.row;
    auto &stored = row.steps[call.step];
    const bool done = stored != kNoStep && stored != kIntended;
    const auto wanted = call.response == 0 ? kIntended : call.response;
    const bool conflicts = done && call.response != 0 && stored != call.response;
    const bool changes = stored == kNoStep || (stored == kIntended && call.response != 0);
    if (conflicts || (call.answer != Answer::lost && changes != (call.answer == Answer::done)))
        return;
    if (changes)
        stored = wanted;
    outcomes.push_back({row, changes});
}

// Whether ID001 is the answer to a holder: the step has another output.
bool step_conflicts(const During &now) {
    const auto stored = now.row.steps[now.call.step];
    return now.call.verb == Verb::step && now.call.response != 0 && stored != kNoStep && stored != kIntended &&
           stored != now.call.response;
}

void change_leased(const During &now, Outcomes &outcomes) {
    auto row = now.row;
    const auto &call = now.call;
    switch (call.verb) {
    case Verb::renew:
        row.lease = from_now(call, call.lease);
        break;
    case Verb::complete:
        row.phase = Phase::completed;
        row.response = call.response;
        row.lease = {};
        row.owner = 0;
        row.expires = {from_now(call, row.retention.low).low, from_now(call, row.retention.high).high};
        break;
    case Verb::release:
        row.phase = Phase::released;
        row.lease = {};
        row.owner = 0;
        row.fence = 0;
        if (row.steps == Steps{}) { // corrected arguments may run
            row.fingerprint = 0;
            row.fingerprint_sure = true;
        }
        break;
    default:
        break;
    }
    // A claim that the same transaction completes or releases is no longer the claim the table speaks of.
    if (row.phase != Phase::in_progress)
        row.own = Own::no;
    outcomes.push_back({row, true});
}

bool is_withdrawal(const KeyCall &call) { return call.verb == Verb::release && call.fence == 0; }

// A claim that its own transaction gives back: the row is as before. No client changes a key in another way before it claims it
// and gives it back in one transaction.
void withdraw(const View<KeyRow> &view, Outcomes &outcomes) {
    if (view.seen.own == Own::transactional)
        outcomes.push_back({view.committed, true});
}

void change(const During &now, Outcomes &outcomes) {
    const auto &row = now.row;
    const auto &call = now.call;
    if (now.right_fence()) {
        if (call.verb == Verb::step)
            change_step(now, outcomes);
        else
            change_leased(now, outcomes);
        return;
    }
    // A row whose retention is over is completed until a sweep deletes it, or a claim takes its place.
    if (call.verb != Verb::complete || row.phase != Phase::completed)
        return;
    if (call.fence == 0 && row.own == Own::transactional) {
        auto attached = row;
        attached.response = call.response;
        if (!call.in_ring)
            attached.expires = hull(row.expires, from_now(call, row.retention.high));
        outcomes.push_back({attached, true});
        // Whether a second, different one replaces it is open.
        if (row.response != 0 && !now.same_response())
            outcomes.push_back({row, true});
        return;
    }
    if (call.fence == row.fence && now.same_response())
        outcomes.push_back({row, false});
}

bool may_be_stale(const During &now) {
    const auto &row = now.row;
    if (now.may_be_gone())
        return true;
    if (is_withdrawal(now.call))
        return row.own != Own::transactional;
    if (now.right_fence())
        return step_conflicts(now);
    if (now.call.verb != Verb::complete || row.phase != Phase::completed)
        return true;
    if (now.call.fence == 0)
        return row.own != Own::transactional || row.response != 0;
    return now.call.fence != row.fence || !now.same_response();
}

void answers_if_lost(const View<KeyRow> &view, const KeyCall &call, Outcomes &outcomes) {
    const During now{view.seen, call};
    outcomes.push_back({view.seen, false});
    switch (call.verb) {
    case Verb::claim:
    case Verb::try_claim:
    case Verb::begin:
        acquire(now, outcomes);
        take_over(now, outcomes);
        break;
    case Verb::forget:
        if (view.seen.phase != Phase::absent)
            outcomes.push_back({KeyRow{}, true});
        break;
    case Verb::lookup:
        break;
    default:
        if (is_withdrawal(call))
            withdraw(view, outcomes);
        else
            change(now, outcomes);
    }
}

} // namespace

bool Between::may_be_over(Nanoseconds received) const { return low <= received; }

bool Between::certainly_over(Nanoseconds sent) const { return high < sent; }

bool KeyRules::reads_only(const Call &call) const {
    switch (call.answer) {
    case Answer::completed:
    case Answer::mismatch:
    case Answer::in_flight:
    case Answer::in_doubt:
    case Answer::nothing:
    case Answer::found_completed:
    case Answer::found_in_progress:
    case Answer::stale:
        return true;
    default:
        return call.verb == Verb::lookup;
    }
}

void KeyRules::answers(const View<Row> &view, const Call &call, std::vector<Outcome<Row>> &outcomes) const {
    const auto &row = view.seen;
    const During now{row, call};
    const auto unchanged_if = [&](bool possible) {
        if (possible)
            outcomes.push_back({row, false});
    };
    switch (call.answer) {
    case Answer::lost:
        answers_if_lost(view, call, outcomes);
        return;
    case Answer::acquired:
    case Answer::taken_over:
    case Answer::holder:
        if (call.answer != Answer::taken_over)
            acquire(now, outcomes);
        if (call.answer != Answer::acquired)
            take_over(now, outcomes);
        std::erase_if(outcomes, [&](const Outcome<Row> &each) { return !now.is_given(each.row.steps); });
        return;
    case Answer::completed:
        unchanged_if(may_say_completed(now));
        return;
    case Answer::mismatch:
        unchanged_if(now.may_be_live() && now.fingerprints_may_differ());
        return;
    case Answer::in_flight:
        unchanged_if(may_say_in_flight(now));
        return;
    case Answer::in_doubt:
        unchanged_if(now.lease_may_be_over());
        return;
    case Answer::done:
        if (call.verb == Verb::forget) {
            if (row.phase != Phase::absent)
                outcomes.push_back({Row{}, true});
        } else if (is_withdrawal(call)) {
            withdraw(view, outcomes);
        } else {
            change(now, outcomes);
        }
        return;
    case Answer::kept:
        change(now, outcomes);
        return;
    case Answer::nothing: {
        // "no row = no live committed key": whether lookup sees a released one, or the own uncommitted one, is open.
        const During committed{view.committed, call};
        unchanged_if(now.may_be_gone() || row.phase == Phase::released ||
                     (call.verb == Verb::lookup && committed.may_be_gone()));
        return;
    }
    case Answer::found_completed:
        unchanged_if(may_say_completed(now) || may_say_completed({view.committed, call}));
        return;
    case Answer::found_in_progress: {
        const During committed{view.committed, call};
        unchanged_if((now.in_progress() && now.may_be_live() && now.is_given(row.steps)) ||
                     (committed.in_progress() && committed.may_be_live() && now.is_given(view.committed.steps)));
        return;
    }
    case Answer::stale:
        unchanged_if(may_be_stale(now));
        return;
    }
}

std::size_t KeyRules::hash(const Row &row) const {
    std::size_t hash = static_cast<std::size_t>(row.phase) * 8 + static_cast<std::size_t>(row.own) * 2 + row.fingerprint_sure;
    for (const auto value :
         {static_cast<std::int64_t>(row.attempt), row.fence, static_cast<std::int64_t>(row.owner),
          static_cast<std::int64_t>(row.fingerprint), static_cast<std::int64_t>(row.response), row.lease.low, row.expires.low})
        hash_combine(hash, static_cast<std::size_t>(value));
    for (const auto step : row.steps)
        hash_combine(hash, step);
    return hash;
}

std::string KeyRules::describe(const Row &row, const std::vector<std::string> &responses) const {
    std::string text;
    switch (row.phase) {
    case Phase::absent:
        return "absent";
    case Phase::in_progress:
        text = "in progress with fence " + (row.fence == kUnknownFence ? "unknown" : std::to_string(row.fence));
        break;
    case Phase::completed:
        text = "completed with " +
               (row.response == 0 ? "no response" : "response " + responses.at(static_cast<std::size_t>(row.response) - 1));
        if (row.fence > 0)
            text += " and fence " + std::to_string(row.fence);
        break;
    case Phase::released:
        text = "released";
        break;
    }
    for (std::size_t i = 0; i < row.steps.size(); ++i)
        if (row.steps[i] != kNoStep)
            text += ", step " + std::to_string(i + 1) + ' ' +
                    (row.steps[i] == kIntended ? "intended" : "done with " + responses.at(row.steps[i] - 1));
    return text + ", attempt " + std::to_string(row.attempt);
}

} // namespace chaos::judge
