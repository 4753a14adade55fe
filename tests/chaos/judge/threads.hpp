#ifndef IDEM_CHAOS_THREADS_HPP
#define IDEM_CHAOS_THREADS_HPP
// The calls on one key, lock, order or article as operations of a RowModel: each transaction is a sequence of calls, of the
// ends of its savepoints, and of its own end.
#include <algorithm>
#include <optional>
#include <vector>

#include "index.hpp"
#include "row_model.hpp"

namespace chaos::judge {

template <typename RowCall> struct Threads {
    std::vector<Timed<RowOperation<RowCall>>> operations;
    std::vector<const Step *> steps; // of each operation; null: not a call
};

// When other transactions may have had a change of the name under way, because of which "in flight" and "busy" need no other
// reason.
class Changers {
  public:
    Changers(const Index &index, const Subject &subject);
    bool others_overlap(const Asked &asked) const;

  private:
    struct Change {
        Nanoseconds from, to;
        std::uint32_t number;
    };
    struct Latest { // of the changes up to one in the order of `from`, the two transactions that last longest
        Change first, second;
    };
    std::vector<Change> changes_;
    std::vector<Latest> latest_;
};

inline bool has_snapshot(const Transaction &transaction) {
    return transaction.isolation != "rc" && !transaction.isolation.empty();
}

// REQUIRES: translate(const Asked &) gives the call, or nothing if its answer says nothing.
template <typename Rules, typename Translate>
Threads<typename Rules::Call> threads(const Index &index, const Subject &subject, const Rules &rules, Translate &translate) {
    using RowCall = typename Rules::Call;
    Threads<RowCall> threads;
    auto asked = subject.asked;
    std::stable_sort(asked.begin(), asked.end(), [](const Asked &a, const Asked &b) { return a.number < b.number; });

    for (auto from = asked.begin(); from != asked.end();) {
        const auto number = from->number;
        const auto &transaction = *from->transaction;
        const auto to = std::find_if(from, asked.end(), [&](const Asked &one) { return one.number != number; });
        auto previous = kNone;
        bool changes = false;
        bool undone_before = false;
        const Step *undoing = nullptr; // the last of a run of undone steps
        const auto add = [&](Part part, bool undone, RowCall call, Nanoseconds called, Nanoseconds returned, const Step *step,
                             bool in_order) {
            threads.operations.push_back(
                {{part, number + 1, undone, std::move(call)}, called, returned, in_order ? previous : kNone});
            threads.steps.push_back(step);
            if (in_order)
                previous = threads.operations.size() - 1;
        };
        for (; from != to; ++from) {
            const auto &step = *from->step;
            if (undoing != nullptr)
                add(step.undone ? Part::maybe_undo : Part::undo, false, {}, undoing->sent, step.received, nullptr, true);
            undone_before |= undoing != nullptr;
            undoing = step.undone ? &step : nullptr;
            auto call = translate(*from);
            if (!call)
                continue;
            const bool reads = rules.reads_only(*call);
            // Before its own changes, a transaction with a snapshot may answer as of any time since it took it. What it answers
            // after some were undone is left alone.
            if (reads && has_snapshot(transaction) && (!changes || undone_before)) {
                if (!changes)
                    add(Part::call, step.undone, std::move(*call), transaction.begun, step.received, &step, false);
                continue;
            }
            add(Part::call, step.undone, std::move(*call), step.sent, step.received, &step, true);
            changes |= !reads;
        }
        if (!changes)
            continue;
        const auto committed_by = index.committed_by(number);
        if (undoing != nullptr)
            add(Part::undo, false, {}, undoing->sent, committed_by, nullptr, true);
        // A call that is a transaction of its own commits before it answers; so the end may come from the last call's sending
        // on.
        const auto fate = index.fate(number);
        Nanoseconds alive = transaction.begun;
        for (const auto &step : transaction.steps)
            if (fate != Fate::aborted || succeeded(step))
                alive = std::max(alive, step.sent);
        const auto part = fate == Fate::committed ? Part::commit : fate == Fate::aborted ? Part::abort : Part::commit_or_abort;
        add(part, false, {}, alive, committed_by, nullptr, true);
    }
    return threads;
}

} // namespace chaos::judge
#endif
