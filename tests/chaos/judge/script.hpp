#ifndef IDEM_CHAOS_SCRIPT_HPP
#define IDEM_CHAOS_SCRIPT_HPP
// Small histories for tests, written call by call; times are milliseconds.
#include <algorithm>
#include <string>
#include <utility>

#include "history.hpp"

namespace chaos {

constexpr Nanoseconds ms(double milliseconds) { return static_cast<Nanoseconds>(milliseconds * 1e6); }

class Script {
  public:
    // The transaction that the calls below belong to, until the next.
    Script &transaction(Fate fate = Fate::committed, const std::string &isolation = "rc") {
        Transaction transaction;
        transaction.id = history.transactions.size() + 1;
        transaction.client = static_cast<int>(transaction.id);
        transaction.isolation = isolation;
        transaction.fate = fate;
        history.transactions.push_back(transaction);
        return *this;
    }
    // REQUIRES: the last thing that is said of a transaction.
    Script &ends(double at) {
        now().ended = ms(at);
        return *this;
    }

    Script &call(Call call, const std::string &key, double sent, double received, const std::string &outcome = "") {
        Step step;
        step.call = call;
        step.key = key;
        step.sent = ms(sent);
        step.received = ms(received);
        step.outcome = outcome;
        if (now().steps.empty())
            now().begun = step.sent;
        now().steps.push_back(step);
        now().ended = ms(received + 1);
        return *this;
    }
    Script &begin(const std::string &key, double sent, double received, const std::string &outcome) {
        return call(Call::begin, key, sent, received, outcome);
    }
    Script &leased(double lease, const std::string &owner = "") {
        last().leased = true;
        last().lease = ms(lease);
        last().owner = owner;
        return *this;
    }
    Script &given(std::int64_t fence, int attempt = 0) {
        last().fence_given = fence;
        if (attempt != 0)
            last().attempt = attempt;
        return *this;
    }
    Script &complete(const std::string &key, double sent, double received, std::int64_t fence, const std::string &response) {
        call(Call::complete, key, sent, received);
        last().fence = fence;
        last().response = response;
        return *this;
    }
    Script &fenced(Call which, const std::string &key, double sent, double received, std::int64_t fence,
                   const std::string &outcome = "") {
        call(which, key, sent, received, outcome);
        last().fence = fence;
        return *this;
    }
    Script &replies(const std::string &response) {
        last().response_given = response;
        return *this;
    }
    Script &error(const std::string &sqlstate) {
        last().sqlstate = sqlstate;
        return *this;
    }
    Script &undone() {
        last().undone = true;
        return *this;
    }
    // Written to the table as well, if the transaction commits.
    Script &effect(const std::string &key, std::int64_t fence = 0) {
        now().effects.push_back({key, now().id, fence});
        if (now().fate == Fate::committed)
            history.final_state.effects.push_back(now().effects.back());
        return *this;
    }

    Transaction &now() { return history.transactions.back(); }
    Step &last() { return now().steps.back(); }

    History history;
};

} // namespace chaos
#endif
