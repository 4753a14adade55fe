#ifndef IDEM_CHAOS_INDEX_HPP
#define IDEM_CHAOS_INDEX_HPP
// A history as the guarantees look at it: by key, lock, token, order, article and dedup_id, with the fates that the effects
// table decides.

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "history.hpp"

namespace chaos::judge {

// The spaces of names; "keys, counters, token redemptions and locks do not share names".
enum class Kind { key, token, lock, order, article, message, none };
Kind kind_of(Call call);

inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kDefaultRetention = 24LL * 3600 * 1000 * kMillisecond;
inline constexpr Nanoseconds kDefaultLease = 30LL * 1000 * kMillisecond;

// a + b, where kNever stays kNever.
Nanoseconds later(Nanoseconds time, Nanoseconds duration);
// By how much the server's clock and the clients' may differ over such a duration.
Nanoseconds slack(Nanoseconds duration);
Nanoseconds retention_of(const Step &step);
Nanoseconds lease_of(const Step &step);
// jsonb comes back with blanks that were not sent; a string may have been recorded with its quotes or without.
std::string plain_response(std::string_view response);

// What an answer says. `answered` excludes errors that tell only that the connection was lost.
bool answered(const Step &step);
bool succeeded(const Step &step);
bool made_holder(const Step &step);      // acquired, taken over, true, accepted, a lock's fence
bool said_duplicate(const Step &step);   // completed, false, duplicate
bool completes(const Step &step);        // a change after which, once committed, the key is completed or the token redeemed
bool may_have_changed(const Step &step); // nothing in its answer says that it left everything as it was

struct Asked {
    std::uint32_t number; // of the transaction, its place in History::transactions
    const Transaction *transaction;
    const Step *step;
};

struct Subject {
    Kind kind{};
    std::string name;
    std::vector<Asked> asked; // in the order in which they were sent
};

class Index {
  public:
    explicit Index(const History &history); // which has to outlive this

    const History &history() const { return history_; }
    const std::map<std::pair<Kind, std::string>, Subject> &subjects() const { return subjects_; }
    const Subject *subject(Kind kind, const std::string &name) const;
    const Transaction *transaction(std::uint64_t id) const; // null: there is none
    std::uint32_t number(const Transaction &transaction) const;

    // An unknown transaction that is found in the effects table has committed, and one that wrote effects and is not found
    // there has not.
    Fate fate(std::uint32_t number) const { return fates_[number]; }
    Fate fate(const Asked &asked) const { return fates_[asked.number]; }
    // When the transaction had certainly committed; kNever if that is not known.
    Nanoseconds committed_by(std::uint32_t number) const;

    // Whether a forget of that key may have taken effect between the two times, in the eyes of `asker`, if given: a transaction
    // sees its own that is never committed.
    bool may_be_forgotten(const Subject &subject, Nanoseconds from, Nanoseconds to, const Transaction *asker = nullptr) const;
    // The shortest retention that any claim of the key asked for.
    Nanoseconds shortest_retention(const Subject &subject) const;

  private:
    const History &history_;
    std::vector<Fate> fates_;
    std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
    std::map<std::pair<Kind, std::string>, Subject> subjects_;
};

} // namespace chaos::judge
#endif
