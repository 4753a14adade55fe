#include "coordinator.hpp"

#include <algorithm>

#include "calls.hpp"

namespace chaos {

namespace {

constexpr std::uint64_t kStream = 1'000'001;
constexpr std::size_t kAtATime = 3;
constexpr Nanoseconds kLongest = 1500 * kMillisecond;

} // namespace

std::string prepared_name(const Transaction &transaction) { return "chaos-" + std::to_string(transaction.id); }

Coordinator::Coordinator(Round &round) : round_(round), random_(round.seed, kStream), thread_([this] { work(); }) {}

Coordinator::~Coordinator() {
    finishing_ = true;
    if (thread_.joinable())
        thread_.join();
}

bool Coordinator::is_busy() const {
    const std::lock_guard guard(lock_);
    return pending_.size() >= kAtATime;
}

void Coordinator::take(Transaction transaction, bool certain) {
    const std::lock_guard guard(lock_);
    // Most soon; some are left over for a good while.
    const Nanoseconds delay = random_.between(0, random_.chance(0.25) ? kLongest : kLongest / 15);
    pending_.push_back({std::move(transaction), certain, random_.chance(0.7), false, now() + delay});
}

void Coordinator::settle(Pending *pending, Fate fate) {
    pending->transaction.fate = fate;
    if (fate != Fate::unknown)
        pending->transaction.ended = now();
    decided_.push_back(std::move(pending->transaction));
}

// True: done with it.
bool Coordinator::decide(Pending *pending, bool at_end) {
    if (!connection_.is_open() && !connection_.open(round_.server.dsn("chaos-coordinator")))
        return false;
    const Fate decision = pending->commits ? Fate::committed : Fate::aborted;
    const Answer answer = connection_.run((pending->commits ? "COMMIT PREPARED '" : "ROLLBACK PREPARED '") +
                                          prepared_name(pending->transaction) + "'");
    if (answer.ok()) {
        settle(pending, decision);
        return true;
    }
    if (answer.lost || is_farewell(answer.sqlstate)) {
        pending->tried = true;
        return false;
    }
    if (answer.sqlstate == "42704") { // there is no such transaction
        if (pending->certain && !pending->tried)
            round_.findings.add("prepared_transaction_lost", "", "a transaction that PREPARE had answered for is not there",
                                pending->transaction);
        else if (!pending->certain && !at_end)
            return false; // it may still be on its way
        settle(pending, pending->certain ? decision : pending->tried ? Fate::unknown : Fate::aborted);
        return true;
    }
    const bool try_again = answer.sqlstate == "55006" || answer.sqlstate == "55000" || answer.sqlstate == "57014";
    if (!try_again)
        round_.findings.add("unexpected_error", "",
                            "the decision of a prepared transaction raised " + answer.sqlstate + ": " + answer.message,
                            pending->transaction);
    return false;
}

void Coordinator::work() {
    while (!finishing_) {
        std::vector<Pending> due;
        {
            const std::lock_guard guard(lock_);
            const auto waiting = std::partition(pending_.begin(), pending_.end(),
                                                [&](const Pending &each) { return now() < each.due && !round_.stopping; });
            due.assign(std::make_move_iterator(waiting), std::make_move_iterator(pending_.end()));
            pending_.erase(waiting, pending_.end());
        }
        for (Pending &each : due)
            if (!decide(&each, false)) {
                each.due = now() + 50 * kMillisecond;
                const std::lock_guard guard(lock_);
                pending_.push_back(std::move(each));
            }
        sleep_for(5 * kMillisecond);
    }
}

std::vector<Transaction> Coordinator::finish() {
    finishing_ = true;
    thread_.join();
    const Nanoseconds until = now() + kLongestAnswer;
    while (!pending_.empty()) {
        std::erase_if(pending_, [&](Pending &each) { return decide(&each, true); });
        if (now() > until) {
            for (Pending &each : pending_) {
                round_.findings.add("hung", "", "a prepared transaction could not be decided for a minute", each.transaction);
                settle(&each, Fate::unknown);
            }
            pending_.clear();
        }
        sleep_for(5 * kMillisecond);
    }
    connection_.close();
    return std::move(decided_);
}

} // namespace chaos
