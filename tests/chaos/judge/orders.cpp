// For each key, token, lock, order and article: is there an order of the calls that explains the answers?
#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "guarantees.hpp"
#include "key_model.hpp"
#include "lock_model.hpp"
#include "plain_models.hpp"
#include "shrink.hpp"
#include "threads.hpp"

namespace chaos::judge {
namespace {

// Who reads the final state, when everything is over.
constexpr std::uint32_t kReader = 0xffffffff;
constexpr Nanoseconds kEnd = kNever - 1;

const std::string kExplained = "some order of the calls explains every answer";
constexpr Nanoseconds kForever = 3'000'000'000'000'000'000;

class Names {
  public:
    std::uint32_t number(const std::string &text) {
        if (text.empty())
            return 0;
        const auto [found, added] = numbers_.emplace(text, static_cast<std::uint32_t>(texts_.size() + 1));
        if (added)
            texts_.push_back(text);
        return found->second;
    }
    const std::vector<std::string> &texts() const { return texts_; }

  private:
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::vector<std::string> texts_;
};

// nullopt of the translations: the answer is possible whatever the state.
std::optional<KeyCall::Answer> key_answer(const Step &step) {
    using Answer = KeyCall::Answer;
    const auto &outcome = step.outcome;
    if (step.sqlstate == "ID005")
        return Answer::found_in_progress;
    const bool with_fence =
        step.call == Call::complete || step.call == Call::release || step.call == Call::renew || step.call == Call::step;
    if (step.sqlstate == "ID001" && with_fence)
        return Answer::stale;
    if (!step.sqlstate.empty())
        return std::nullopt;
    if (with_fence)
        return step.call == Call::step && outcome == "f" ? Answer::kept : Answer::done;
    if (step.call == Call::lookup) {
        if (outcome == "completed")
            return Answer::found_completed;
        if (outcome == "in_progress" || outcome == "in progress" || outcome == "in_flight" || outcome == "in_doubt")
            return Answer::found_in_progress;
        return outcome.empty() || outcome == "none" ? std::optional(Answer::nothing) : std::nullopt;
    }
    if (outcome == "t")
        return step.call == Call::forget ? Answer::done : Answer::holder;
    if (outcome == "f")
        return step.call == Call::forget ? Answer::nothing : Answer::completed;
    if (outcome == "acquired" || outcome == "accepted")
        return Answer::acquired;
    if (outcome == "taken_over")
        return Answer::taken_over;
    if (outcome == "completed" || outcome == "duplicate")
        return Answer::completed;
    if (outcome == "mismatch")
        return Answer::mismatch;
    if (outcome == "in_flight")
        return Answer::in_flight;
    if (outcome == "in_doubt")
        return Answer::in_doubt;
    return std::nullopt;
}

KeyCall::Verb key_verb(Call call) {
    switch (call) {
    case Call::try_claim:
    case Call::redeem:
        return KeyCall::Verb::try_claim;
    case Call::begin:
        return KeyCall::Verb::begin;
    case Call::complete:
        return KeyCall::Verb::complete;
    case Call::release:
        return KeyCall::Verb::release;
    case Call::renew:
        return KeyCall::Verb::renew;
    case Call::step:
        return KeyCall::Verb::step;
    case Call::lookup:
        return KeyCall::Verb::lookup;
    case Call::forget:
        return KeyCall::Verb::forget;
    default:
        return KeyCall::Verb::claim;
    }
}

// No answer, and nothing came of it: the transaction or the subtransaction was rolled back.
bool without_trace(const Index &index, const Asked &asked) {
    return !answered(*asked.step) && (asked.step->undone || index.fate(asked) == Fate::aborted);
}

// The members of an object of one level, or whose values have no comma in them.
std::vector<std::pair<std::string, std::string>> members(const std::string &object) {
    std::vector<std::pair<std::string, std::string>> found;
    const auto plain = plain_response(object);
    for (std::size_t at = 1; at + 1 < plain.size();) {
        const auto colon = plain.find(':', at);
        const auto end = std::min(plain.find(',', colon), plain.size() - 1);
        found.emplace_back(plain_response(plain.substr(at, colon - at)), plain.substr(colon + 1, end - colon - 1));
        at = end + 1;
    }
    return found;
}

class KeyTranslation {
  public:
    KeyTranslation(const Index &index, const Subject &subject) : index_(index), changers_(index, subject), subject_(subject) {}

    std::optional<KeyCall> operator()(const Asked &asked) {
        const auto &step = *asked.step;
        if (without_trace(index_, asked))
            return std::nullopt;
        const auto answer = answered(step) ? key_answer(step) : KeyCall::Answer::lost;
        if (!answer)
            return std::nullopt;
        const bool busy = *answer == KeyCall::Answer::in_flight || step.sqlstate == "ID005";
        if (busy && changers_.others_overlap(asked))
            return std::nullopt;
        KeyCall call;
        call.verb = key_verb(step.call);
        call.answer = *answer;
        call.leased = step.leased && step.call == Call::begin;
        call.in_ring = step.in_ring;
        call.owner = owners_.number(step.owner);
        call.fingerprint = fingerprints_.number(step.fingerprint);
        call.fence = step.fence;
        call.fence_given = step.fence_given.value_or(kUnknownFence);
        call.attempt = made_holder(step) ? step.attempt.value_or(0) : 0;
        call.response = response(asked);
        if (step.call == Call::step)
            call.step = step_number(step.step_name);
        if (step.steps_given)
            call.steps_given = steps(*step.steps_given);
        call.sent = step.sent;
        call.received = step.received;
        call.committed_by = index_.committed_by(asked.number);
        call.lease = lease_of(step);
        call.retention = subject_.kind == Kind::token ? kForever : retention_of(step);
        return call;
    }

    const Names &responses() const { return responses_; }

  private:
    std::uint32_t response(const Asked &asked) {
        const auto &step = *asked.step;
        if (step.call == Call::complete || step.call == Call::step)
            return responses_.number(plain_response(step.response));
        if (said_duplicate(step) && step.call == Call::begin)
            return responses_.number(plain_response(step.response_given.value_or("")));
        if (step.call == Call::lookup && step.response_given)
            return responses_.number(plain_response(*step.response_given));
        if (said_duplicate(step) || step.call == Call::lookup)
            return kAnyResponse;
        // The marker is attached by a call of its own, if there is one.
        const auto &steps = asked.transaction->steps;
        const bool attached = std::any_of(steps.begin(), steps.end(), [&](const Step &other) {
            return other.call == Call::complete && other.key == step.key && other.fence == 0 && !other.undone;
        });
        return attached || step.leased ? 0 : responses_.number(plain_response(step.response));
    }

    std::size_t step_number(const std::string &name) {
        const auto number = steps_.number(name) - 1;
        if (number >= Steps{}.size())
            throw std::runtime_error("key \"" + subject_.name + "\" has too many steps");
        return number;
    }

    Steps steps(const std::string &object) {
        Steps steps{};
        for (const auto &[name, output] : members(object))
            steps[step_number(name)] = output == "null" ? kIntended : responses_.number(output);
        return steps;
    }

    const Index &index_;
    Changers changers_;
    const Subject &subject_;
    Names owners_, fingerprints_, responses_, steps_;
};

class LockTranslation {
  public:
    LockTranslation(const Index &index, const Subject &subject) : index_(index), changers_(index, subject) {}

    std::optional<LockCall> operator()(const Asked &asked) {
        using Verb = LockCall::Verb;
        using Answer = LockCall::Answer;
        const auto &step = *asked.step;
        if (without_trace(index_, asked))
            return std::nullopt;
        LockCall call;
        call.verb = step.call == Call::lock         ? Verb::lock
                    : step.call == Call::renew_lock ? Verb::renew
                    : step.call == Call::unlock     ? Verb::unlock
                                                    : Verb::assert_fence;
        if (!answered(step))
            call.answer = Answer::lost;
        else if (!step.sqlstate.empty() && !(step.sqlstate == "ID001" && call.verb == Verb::assert_fence))
            return std::nullopt;
        else if (call.verb == Verb::lock)
            call.answer = step.fence_given ? Answer::yes : Answer::no;
        else if (call.verb == Verb::assert_fence)
            call.answer = step.sqlstate.empty() ? Answer::yes : Answer::no;
        else
            call.answer = step.outcome == "t" ? Answer::yes : Answer::no;
        if (call.verb == Verb::lock && call.answer == Answer::no && changers_.others_overlap(asked))
            return std::nullopt;
        call.owner = owners_.number(step.owner);
        call.fence = step.fence;
        call.fence_given = step.fence_given.value_or(kUnknownFence);
        call.sent = step.sent;
        call.received = step.received;
        call.lease = step.lease == 0 && step.retention > 0 ? step.retention : lease_of(step);
        return call;
    }

  private:
    const Index &index_;
    Changers changers_;
    Names owners_;
};

class Orders {
  public:
    Orders(const Index &index, const Limits &limits, Findings &findings, Report &report)
        : index_(index), limits_(limits), findings_(findings), report_(report),
          allowed_(index.history().setup.transitions.begin(), index.history().setup.transitions.end()),
          stock_(index.history().setup.stock.begin(), index.history().setup.stock.end()),
          left_(index.history().final_state.stock.begin(), index.history().final_state.stock.end()),
          states_(index.history().final_state.states.begin(), index.history().final_state.states.end()) {}

    void check(const Subject &subject) {
        switch (subject.kind) {
        case Kind::key:
        case Kind::token: {
            KeyTranslation translation(index_, subject);
            const RowModel<KeyRules> model{};
            examine(subject, model, std::vector<KeyRow>{KeyRow{}}, translation, std::nullopt,
                    [&](const KeyRow &row) { return model.rules.describe(row, translation.responses().texts()); });
            return;
        }
        case Kind::lock: {
            LockTranslation translation(index_, subject);
            const RowModel<LockRules> model{};
            examine(subject, model, std::vector<LockRow>{LockRow{}}, translation, std::nullopt,
                    [&](const LockRow &row) { return model.rules.describe(row); });
            return;
        }
        case Kind::order:
            check_order(subject);
            return;
        case Kind::article:
            check_article(subject);
            return;
        case Kind::message:
        case Kind::none:
            return;
        }
    }

  private:
    void check_order(const Subject &subject) {
        std::vector<std::string> initial;
        for (const auto &[from, to] : allowed_)
            if (from.empty())
                initial.push_back(to);
        if (initial.empty())
            return; // the setup does not say where orders start
        const RowModel<OrderRules> model{{&allowed_}};
        auto translate = [&](const Asked &asked) -> std::optional<OrderCall> {
            using Answer = OrderCall::Answer;
            const auto &step = *asked.step;
            if (without_trace(index_, asked))
                return std::nullopt;
            if (!answered(step))
                return OrderCall{Answer::lost, step.to_state, {}};
            if (step.sqlstate == "ID003" || (step.sqlstate.empty() && step.outcome == "not_allowed"))
                return OrderCall{Answer::not_allowed, step.to_state, step.response_given};
            if (step.sqlstate.empty() && step.outcome == "moved")
                return OrderCall{Answer::moved, step.to_state, {}};
            if (step.sqlstate.empty() && step.outcome == "already")
                return OrderCall{Answer::already, step.to_state, {}};
            return std::nullopt;
        };
        std::optional<OrderCall> found;
        if (const auto state = states_.find(subject.name); state != states_.end())
            found = OrderCall{OrderCall::Answer::found, state->second, {}};
        examine(subject, model, initial, translate, found, [&](const std::string &row) { return model.rules.describe(row); });
    }

    void check_article(const Subject &subject) {
        const auto start = stock_.find(subject.name);
        if (start == stock_.end())
            return;
        const RowModel<StockRules> model{};
        auto translate = [&](const Asked &asked) -> std::optional<StockCall> {
            using Answer = StockCall::Answer;
            const auto &step = *asked.step;
            if (without_trace(index_, asked))
                return std::nullopt;
            if (!answered(step))
                return StockCall{Answer::lost, step.delta, {}};
            if (!step.sqlstate.empty() || (step.outcome != "adjusted" && step.outcome != "out_of_range"))
                return std::nullopt;
            if (step.outcome == "adjusted")
                return StockCall{Answer::adjusted, step.delta, step.value_given};
            return StockCall{Answer::out_of_range, step.delta, {}};
        };
        std::optional<StockCall> found;
        if (const auto left = left_.find(subject.name); left != left_.end())
            found = StockCall{StockCall::Answer::found, 0, left->second};
        examine(subject, model, std::vector<std::int64_t>{start->second}, translate, found,
                [&](std::int64_t row) { return model.rules.describe(row); });
    }

    template <typename Model, typename Translation, typename Describe>
    void examine(const Subject &subject, const Model &model, const std::vector<typename Model::Row> &rows,
                 Translation &translate, const std::optional<typename Model::Operation::Call> &found,
                 const Describe &describe) {
        using State = typename Model::State;
        auto threads = judge::threads(index_, subject, model.rules, translate);
        if (found) {
            threads.operations.push_back({{Part::call, kReader, false, *found}, kEnd, kEnd, kNone});
            threads.steps.push_back(nullptr);
        }
        std::vector<State> initial;
        for (const auto &row : rows) {
            initial.emplace_back();
            initial.back().committed = row;
        }
        ++report_.searched;
        const auto result = search(model, initial, threads.operations,
                                   {std::chrono::steady_clock::now() + limits_.search, limits_.configurations});
        if (result.verdict == Verdict::undecided) {
            ++report_.undecided;
            report_.undecided_keys.push_back(subject.name);
        }
        // What is known to be wrong with this one already has been said more plainly.
        if (result.verdict != Verdict::impossible || findings_.reported(subject.kind, subject.name))
            return;
        if (!findings_.wants(kExplained)) {
            ++report_.left_out;
            return;
        }
        const SearchLimits limits{std::chrono::steady_clock::now() + limits_.shrink, limits_.configurations};
        auto kept = shrink(model, initial, threads.operations, result, units(threads), alike<State>, limits);
        findings_.add(violation(subject, model, threads, result, kept, describe), subject.kind);
    }

    // Whole transactions first, from the oldest, then single calls.
    template <typename Threads> static std::vector<std::vector<std::size_t>> units(const Threads &threads) {
        std::map<std::uint32_t, std::vector<std::size_t>> transactions;
        std::vector<std::vector<std::size_t>> units;
        for (std::size_t i = 0; i < threads.operations.size(); ++i)
            transactions[threads.operations[i].operation.transaction].push_back(i);
        for (auto &[number, operations] : transactions)
            units.push_back(operations);
        for (std::size_t i = 0; i < threads.operations.size(); ++i)
            if (threads.steps[i] != nullptr)
                units.push_back({i});
        return units;
    }

    template <typename State> static bool alike(const std::vector<State> &a, const std::vector<State> &b) {
        return a.size() == b.size() && std::is_permutation(a.begin(), a.end(), b.begin());
    }

    template <typename Model, typename Threads, typename State, typename Describe>
    Violation violation(const Subject &subject, const Model &, const Threads &threads, const SearchResult<State> &result,
                        const std::vector<std::size_t> &kept, const Describe &describe) const {
        std::set<const Step *> steps;
        std::vector<const Transaction *> transactions;
        for (const auto i : kept) {
            if (threads.operations[i].operation.transaction == kReader)
                continue;
            const auto *transaction = &index_.history().transactions[threads.operations[i].operation.transaction - 1];
            if (std::find(transactions.begin(), transactions.end(), transaction) == transactions.end())
                transactions.push_back(transaction);
            if (threads.steps[i] != nullptr)
                steps.insert(threads.steps[i]);
        }
        Violation violation;
        violation.guarantee = kExplained;
        violation.key = subject.name;
        for (const auto *transaction : transactions) {
            auto part = excerpt(index_.history(), subject.kind, subject.name, {transaction});
            auto &copy = part.transactions.front();
            copy.steps.clear();
            for (const auto &step : transaction->steps)
                if (steps.contains(&step))
                    copy.steps.push_back(step);
            if (copy.steps.empty())
                continue;
            if (violation.history.transactions.empty())
                violation.history = part;
            else
                violation.history.transactions.push_back(copy);
        }
        const auto failed = result.failed;
        const auto asker = threads.operations[failed].operation.transaction;
        std::string states;
        std::size_t said = 0;
        for (const auto &state : result.before) {
            const bool own = state.holder == asker;
            auto text = describe(own ? state.pending : state.committed);
            if (state.holder != 0)
                text += own ? " by its own doing" : ", being changed by another";
            if (states.find(text) == std::string::npos && ++said <= 4)
                states += (states.empty() ? "" : "; or ") + text;
        }
        const auto *step = threads.steps[failed];
        std::string what = "the final state";
        if (asker != kReader)
            what = named(index_, index_.history().transactions[asker - 1]) + ": " +
                   (step == nullptr ? "its end" : "the answer to " + std::string(to_string(step->call)));
        violation.explanation = what + " fits no order; before it, the state was: " + states + (said > 4 ? "; or others" : "");
        return violation;
    }

    const Index &index_;
    const Limits &limits_;
    Findings &findings_;
    Report &report_;
    const std::set<std::pair<std::string, std::string>> allowed_;
    const std::map<std::string, std::int64_t> stock_;
    const std::map<std::string, std::int64_t> left_;
    const std::map<std::string, std::string> states_;
};

} // namespace

void check_orders(const Index &index, const Limits &limits, Findings &findings, Report &report) {
    Orders orders(index, limits, findings, report);
    for (const auto &[name, subject] : index.subjects())
        orders.check(subject);
}

} // namespace chaos::judge
