#include "threads.hpp"

namespace chaos::judge {
namespace {

// A backend notices that its client is gone when it next reads or writes, and it may be in the middle of a wait.
constexpr Nanoseconds kLinger = 2000 * kMillisecond;

Nanoseconds holds_until(const Index &index, const Asked &asked) {
    if (index.fate(asked) != Fate::aborted)
        return index.committed_by(asked.number);
    for (const auto &step : asked.transaction->steps)
        if (!answered(step))
            return kNever;
    return later(asked.transaction->ended, kLinger);
}

bool may_hold(const Asked &asked) {
    // Whoever waits for a lock may be the one that the others queue behind.
    return asked.step->call == Call::lock || may_have_changed(*asked.step);
}

} // namespace

Changers::Changers(const Index &index, const Subject &subject) {
    for (const auto &asked : subject.asked)
        if (may_hold(asked))
            changes_.push_back({asked.step->sent, holds_until(index, asked), asked.number});
    for (const auto &change : changes_) {
        Latest latest = latest_.empty() ? Latest{{0, -1, 0}, {0, -1, 0}} : latest_.back();
        if (latest.first.number == change.number && latest.first.to >= 0) {
            latest.first.to = std::max(latest.first.to, change.to);
        } else if (change.to > latest.first.to) {
            latest.second = latest.first;
            latest.first = change;
        } else if (change.to > latest.second.to) {
            latest.second = change;
        }
        latest_.push_back(latest);
    }
}

bool Changers::others_overlap(const Asked &asked) const {
    const auto after = std::upper_bound(changes_.begin(), changes_.end(), asked.step->received,
                                        [](Nanoseconds t, const Change &change) { return t < change.from; });
    if (after == changes_.begin())
        return false;
    const auto &latest = latest_[static_cast<std::size_t>(after - changes_.begin()) - 1];
    const auto &other = latest.first.number == asked.number ? latest.second : latest.first;
    return other.to >= asked.step->sent;
}

} // namespace chaos::judge
