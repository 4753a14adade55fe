// What the clients of one round fight for, and what they tell each other of it: names that are hot for a while, fences that
// somebody was given (and that others, wrongly, use), tokens.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "clock.hpp"
#include "random.hpp"
#include "rings.hpp"

namespace chaos {

// A few names at a time; each gives way to a new one after a while, so that no name's history becomes too long to be searched.
// Thread-safe.
class HotNames {
  public:
    // Names are PREFIX0, PREFIX1 …; there are at most `limit`.
    HotNames(std::string prefix, std::size_t at_a_time, int uses, Nanoseconds age, int limit = 1'000'000);
    std::string pick(Random &random);
    // How many there are, and each of them.
    int count() const { return limit_; }
    std::string name(int number) const { return prefix_ + std::to_string(number); }

  private:
    struct Hot {
        int number;
        int uses_left;
        Nanoseconds until;
    };
    Hot next(Random &random);

    const std::string prefix_;
    const int uses_, limit_;
    const Nanoseconds age_;
    std::mutex lock_; // guards what follows
    int next_ = 0;
    std::vector<Hot> hot_;
    std::vector<int> cold_;
};

// Keys that are claimed by one call. Each batch is asked for again until it is too old to be of interest. Thread-safe.
class Batches {
  public:
    Batches(std::string prefix, Nanoseconds age) : prefix_(std::move(prefix)), age_(age) {}
    // A new batch, or some keys of an earlier one.
    std::vector<std::string> pick(Random &random);

  private:
    struct Batch {
        int number;
        std::int64_t size;
        Nanoseconds until;
    };

    const std::string prefix_;
    const Nanoseconds age_;
    std::mutex lock_; // guards what follows
    int next_ = 0;
    std::deque<Batch> batches_;
};

// The keys of a scope that lives in a ring.
struct RingKeys {
    RingKeys(const std::string &prefix, const RingScope &of);

    const RingScope &scope;
    HotNames lasting; // nobody forgets them: they expire
    HotNames forgettable;
    Batches batches;
};

struct Grant {
    std::string key;
    std::int64_t fence = 0;
    std::string owner;
    bool is_lock = false;
};

struct Token {
    std::string name, text;
};

// The last few of each kind. Thread-safe.
template <typename T> class Recent {
  public:
    explicit Recent(std::size_t capacity) : capacity_(capacity) {}
    void add(T thing) {
        const std::lock_guard guard(lock_);
        if (things_.size() < capacity_)
            things_.push_back(std::move(thing));
        else
            things_[next_++ % capacity_] = std::move(thing);
    }
    std::optional<T> pick(Random &random) {
        const std::lock_guard guard(lock_);
        return things_.empty() ? std::nullopt : std::optional<T>(random.pick(things_));
    }

  private:
    const std::size_t capacity_;
    std::mutex lock_; // guards what follows
    std::vector<T> things_;
    std::size_t next_ = 0;
};

class Board {
  public:
    explicit Board(const std::string &prefix);

    HotNames lasting;     // keys whose retention outlives the round, and that nobody forgets: each completes once
    HotNames brief;       // keys whose retention may be short
    HotNames forgettable; // keys that operators delete
    HotNames leased;      // keys as the first ones, wanted mostly under leases
    HotNames locks, orders, articles, messages;
    std::array<RingKeys, kRingScopes.size()> ring_keys;
    Recent<Grant> grants{48};
    Recent<Token> tokens{3};
    std::string name_token() { return prefix_ + "-token" + std::to_string(next_token_++); }
    std::string name_rush(std::int64_t number) { return prefix_ + "-rush" + std::to_string(number % 1'000'000); }

  private:
    const std::string prefix_;
    std::atomic<int> next_token_{0};
};

} // namespace chaos
