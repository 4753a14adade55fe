#ifndef IDEM_CHAOS_LOCK_MODEL_HPP
#define IDEM_CHAOS_LOCK_MODEL_HPP
// A lease lock, section 5 of the contract.
#include "key_model.hpp"

namespace chaos::judge {

struct LockRow {
    bool held = false;
    std::int64_t fence = 0;
    std::uint32_t owner = 0;
    Between lease;
    bool operator==(const LockRow &) const = default;
};

struct LockCall {
    enum class Verb : std::uint8_t { lock, renew, unlock, assert_fence };
    enum class Answer : std::uint8_t { lost, yes, no }; // no: busy, false, ID001

    Verb verb{};
    Answer answer{};
    std::uint32_t owner = 0;
    std::int64_t fence = 0;
    std::int64_t fence_given = kUnknownFence;
    Nanoseconds sent = 0;
    Nanoseconds received = kNever;
    Nanoseconds lease = 0;
};

struct LockRules {
    using Row = LockRow;
    using Call = LockCall;

    void answers(const View<Row> &view, const Call &call, std::vector<Outcome<Row>> &outcomes) const;
    bool reads_only(const Call &call) const { return call.answer == Call::Answer::no || call.verb == Call::Verb::assert_fence; }
    void settle(Row &) const {}
    std::size_t hash(const Row &row) const;
    std::string describe(const Row &row) const;
};

} // namespace chaos::judge
#endif
