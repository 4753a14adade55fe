#ifndef IDEM_CHAOS_LINEARIZABILITY_HPP
#define IDEM_CHAOS_LINEARIZABILITY_HPP
// Is there an order of the calls, each taking effect at one moment between its sending and its answer, in which a sequential
// model gives all the answers that were seen?
//
// J. M. Wing and C. Gong, "Testing and Verifying Concurrent Objects" (1993), as a search by breadth: G. Lowe, "Testing for
// linearizability" (2016), just-in-time linearization. The calls and answers are gone through in the order of time with all the
// configurations (state of the model, which of the open calls have taken effect) that explain what was seen so far, none of
// them twice; when none explains an answer, that answer is where it went wrong. Calls that leave the state alone take effect as
// soon as they can, for which no other order is worse.
//
// A Model has
//   State      copyable, ==, std::size_t hash(const State &)
//   Operation
//   void step(const State &, const Operation &, std::vector<State> &next) const   adds the states in which it may leave it,
//   having
//                                                                                 given the answer it gave; none: impossible
//   bool reads_only(const Operation &) const                                      no state that step adds differs from the
//   first
#include <algorithm>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "history.hpp"

namespace chaos::judge {

inline constexpr std::size_t kNone = static_cast<std::size_t>(-1);

template <typename Operation> struct Timed {
    Operation operation;
    Nanoseconds called = 0;
    Nanoseconds returned = kNever; // kNever: it takes effect at any time after, or never
    std::size_t after = kNone;     // an operation that comes first, beyond what the times say
};

struct SearchLimits {
    std::chrono::steady_clock::time_point deadline;
    std::size_t configurations = 1'000'000;
};

enum class Verdict { linearizable, impossible, undecided };

template <typename State> struct SearchResult {
    Verdict verdict = Verdict::linearizable;
    std::size_t failed = kNone; // the operation whose answer nothing explains
    std::vector<State> before;  // the states that explain everything up to it
    std::size_t configurations = 0;
};

inline void hash_combine(std::size_t &hash, std::size_t value) {
    hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 12) + (hash >> 4);
    hash *= 0xff51afd7ed558ccdULL;
}

template <typename Model> class Search {
  public:
    using State = typename Model::State;
    using Operation = typename Model::Operation;

    Search(const Model &model, const std::vector<Timed<Operation>> &operations, const SearchLimits &limits)
        : model_(model), operations_(operations), limits_(limits), slot_of_(operations.size(), kWaiting) {}

    SearchResult<State> run(const std::vector<State> &initial) {
        for (const auto &state : initial)
            configurations_.insert({state, {}});
        for (const auto &event : events()) {
            if (!event.is_return) {
                if (!open(event.operation))
                    return give_up();
            } else if (!close(event.operation)) {
                if (exhausted_)
                    return give_up();
                return fail(event.operation);
            }
        }
        return std::move(result_);
    }

  private:
    // Operations that are open at a time: the connections' and those that never return and have not taken effect yet.
    static constexpr std::size_t kSlots = 256;
    static constexpr std::size_t kWaiting = kSlots;  // not called yet
    static constexpr std::size_t kDone = kSlots + 1; // took effect in every configuration
    using Slots = std::bitset<kSlots>;

    struct Configuration {
        State state;
        Slots effective; // the open operations that have taken effect
        bool operator==(const Configuration &) const = default;
    };
    struct Hash {
        const Model *model;
        std::size_t operator()(const Configuration &configuration) const {
            std::size_t hash = std::hash<Slots>{}(configuration.effective);
            hash_combine(hash, model->hash(configuration.state));
            return hash;
        }
    };
    using Configurations = std::unordered_set<Configuration, Hash>;
    struct Event {
        Nanoseconds time;
        bool is_return;
        std::size_t operation;
    };

    std::vector<Event> events() const {
        std::vector<Event> events;
        for (std::size_t i = 0; i < operations_.size(); ++i) {
            events.push_back({operations_[i].called, false, i});
            if (operations_[i].returned != kNever)
                events.push_back({operations_[i].returned, true, i});
        }
        // Calls first: what happened at the same instant overlapped.
        std::stable_sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
            return a.time != b.time ? a.time < b.time : a.is_return < b.is_return;
        });
        return events;
    }

    bool open(std::size_t operation) {
        std::size_t slot = 0;
        while (slot < kSlots && used_[slot])
            ++slot;
        if (slot == kSlots)
            return false;
        used_.set(slot);
        slot_of_[operation] = slot;
        open_.push_back(operation);
        Configurations after(0, Hash{&model_});
        after.reserve(configurations_.size());
        for (auto configuration : configurations_) {
            take_at_once(configuration);
            after.insert(std::move(configuration));
        }
        configurations_ = std::move(after);
        return true;
    }

    // Brings about that `operation` has taken effect in every configuration, by all the ways that lead there.
    bool close(std::size_t operation) {
        const auto slot = slot_of_[operation];
        Configurations closed(0, Hash{&model_});
        Configurations seen(0, Hash{&model_});
        std::vector<Configuration> work;
        for (const auto &configuration : configurations_)
            if (configuration.effective[slot])
                closed.insert(configuration);
            else
                work.push_back(configuration);
        while (!work.empty()) {
            const auto configuration = std::move(work.back());
            work.pop_back();
            if (!affordable(closed.size() + seen.size()))
                return false;
            for (const auto candidate : open_) {
                if (!enabled(configuration, candidate))
                    continue;
                next_.clear();
                model_.step(configuration.state, operations_[candidate].operation, next_);
                for (auto &state : next_) {
                    Configuration reached{std::move(state), configuration.effective};
                    reached.effective.set(slot_of_[candidate]);
                    take_at_once(reached);
                    if (reached.effective[slot])
                        closed.insert(std::move(reached));
                    else if (seen.insert(reached).second)
                        work.push_back(std::move(reached));
                }
            }
        }
        if (closed.empty())
            return false;
        configurations_ = std::move(closed);
        retire(operation);
        retire_endless();
        return true;
    }

    bool enabled(const Configuration &configuration, std::size_t operation) const {
        if (configuration.effective[slot_of_[operation]])
            return false;
        const auto after = operations_[operation].after;
        if (after == kNone || slot_of_[after] == kDone)
            return true;
        return slot_of_[after] != kWaiting && configuration.effective[slot_of_[after]];
    }

    void take_at_once(Configuration &configuration) {
        for (bool again = true; again;) {
            again = false;
            for (const auto operation : open_) {
                if (!enabled(configuration, operation) ||
                    !model_.at_once(configuration.state, operations_[operation].operation))
                    continue;
                at_once_.clear();
                model_.step(configuration.state, operations_[operation].operation, at_once_);
                if (at_once_.empty())
                    continue;
                configuration.effective.set(slot_of_[operation]);
                configuration.state = std::move(at_once_.front());
                again = true;
            }
        }
    }

    void retire(std::size_t operation) {
        const auto slot = slot_of_[operation];
        Configurations without(0, Hash{&model_});
        without.reserve(configurations_.size());
        for (auto configuration : configurations_) {
            configuration.effective.reset(slot);
            without.insert(std::move(configuration));
        }
        configurations_ = std::move(without);
        slot_of_[operation] = kDone;
        used_.reset(slot);
        std::erase(open_, operation);
    }

    // Operations that never return are done with once they have taken effect everywhere.
    void retire_endless() {
        std::vector<std::size_t> done;
        for (const auto operation : open_)
            if (operations_[operation].returned == kNever &&
                std::all_of(configurations_.begin(), configurations_.end(),
                            [&](const Configuration &configuration) { return configuration.effective[slot_of_[operation]]; }))
                done.push_back(operation);
        for (const auto operation : done)
            retire(operation);
    }

    bool affordable(std::size_t remembered) {
        ++result_.configurations;
        if (remembered > limits_.configurations ||
            (result_.configurations % 256 == 0 && std::chrono::steady_clock::now() > limits_.deadline))
            exhausted_ = true;
        return !exhausted_;
    }

    SearchResult<State> give_up() {
        result_.verdict = Verdict::undecided;
        return std::move(result_);
    }

    SearchResult<State> fail(std::size_t operation) {
        result_.verdict = Verdict::impossible;
        result_.failed = operation;
        for (const auto &configuration : configurations_)
            if (std::find(result_.before.begin(), result_.before.end(), configuration.state) == result_.before.end())
                result_.before.push_back(configuration.state);
        return std::move(result_);
    }

    const Model &model_;
    const std::vector<Timed<Operation>> &operations_;
    const SearchLimits limits_;
    std::vector<std::size_t> slot_of_;
    std::vector<std::size_t> open_;
    Slots used_;
    Configurations configurations_{0, Hash{&model_}};
    std::vector<State> next_;
    std::vector<State> at_once_;
    SearchResult<State> result_;
    bool exhausted_ = false;
};

template <typename Model>
SearchResult<typename Model::State> search(const Model &model, const std::vector<typename Model::State> &initial,
                                           const std::vector<Timed<typename Model::Operation>> &operations,
                                           const SearchLimits &limits) {
    return Search<Model>(model, operations, limits).run(initial);
}

} // namespace chaos::judge
#endif
