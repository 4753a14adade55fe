#include "lock_model.hpp"

#include <algorithm>

#include "index.hpp"

namespace chaos::judge {
namespace {

using Verb = LockCall::Verb;
using Answer = LockCall::Answer;

void granted(const LockRow &row, const LockCall &call, std::vector<Outcome<LockRow>> &outcomes) {
    LockRow taken;
    taken.held = true;
    taken.fence = call.fence_given;
    taken.owner = call.owner;
    taken.lease = {later(call.sent, call.lease - std::min(call.lease, slack(call.lease))),
                   later(later(call.received, call.lease), slack(call.lease))};
    const bool known = call.fence_given != kUnknownFence && row.fence != kUnknownFence;
    const bool may_be_free = !row.held || row.lease.may_be_over(call.received);
    if (may_be_free && (!known || call.fence_given > row.fence))
        outcomes.push_back({taken, true});
    // The same owner has it still: its lease is renewed.
    if (row.held && call.owner != 0 && call.owner == row.owner && (!known || call.fence_given == row.fence)) {
        if (call.fence_given == kUnknownFence)
            taken.fence = row.fence;
        outcomes.push_back({taken, true});
    }
}

} // namespace

void LockRules::answers(const View<Row> &view, const Call &call, std::vector<Outcome<Row>> &outcomes) const {
    const auto &row = view.seen;
    const bool mine = row.held && row.fence == call.fence;
    if (call.answer == Answer::lost)
        outcomes.push_back({row, false});
    if (call.answer != Answer::no) {
        if (call.verb == Verb::lock) {
            granted(row, call, outcomes);
        } else if (mine) {
            auto after = row;
            if (call.verb == Verb::renew)
                after.lease = {later(call.sent, call.lease - std::min(call.lease, slack(call.lease))),
                               later(later(call.received, call.lease), slack(call.lease))};
            if (call.verb == Verb::unlock) {
                after = {};
                after.fence = row.fence;
            }
            outcomes.push_back({after, call.verb != Verb::assert_fence});
        }
        return;
    }
    if (call.verb == Verb::lock) {
        const bool same_owner = call.owner != 0 && call.owner == row.owner;
        if (row.held && !same_owner && !row.lease.certainly_over(call.sent))
            outcomes.push_back({row, false});
        return;
    }
    // "lapsed but untaken: renew and assert succeed"; whether a sweep may have deleted a lapsed lock is open.
    if (!mine || row.lease.may_be_over(call.received))
        outcomes.push_back({row, false});
}

std::size_t LockRules::hash(const Row &row) const {
    std::size_t hash = row.held;
    for (const auto value : {row.fence, static_cast<std::int64_t>(row.owner), row.lease.low})
        hash_combine(hash, static_cast<std::size_t>(value));
    return hash;
}

std::string LockRules::describe(const Row &row) const {
    if (!row.held)
        return "free";
    return "held with fence " + (row.fence == kUnknownFence ? std::string("unknown") : std::to_string(row.fence));
}

} // namespace chaos::judge
