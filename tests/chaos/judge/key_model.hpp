#ifndef IDEM_CHAOS_KEY_MODEL_HPP
#define IDEM_CHAOS_KEY_MODEL_HPP
// A key, and a token, which is a key that is claimed and never expires: the table of section 3 of the contract. When a
// retention or a lease ended is known only within the times of the calls that set it. What may have ended by then may have
// ended; what had certainly ended has.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "row_model.hpp"

namespace chaos::judge {

// A moment of the server's that lies between two of the clients'.
struct Between {
    Nanoseconds low = kNever;
    Nanoseconds high = kNever;
    bool operator==(const Between &) const = default;

    bool may_be_over(Nanoseconds received) const;
    bool certainly_over(Nanoseconds sent) const;
};

inline constexpr std::int64_t kUnknownFence = -1; // drawn by a call whose answer was lost
inline constexpr std::uint32_t kAnyResponse = 0xffffffff;

// What is stored of each of a key's steps, by the step's number.
using Steps = std::array<std::uint32_t, 3>;
inline constexpr std::uint32_t kNoStep = 0; // else the number of its output
inline constexpr std::uint32_t kIntended = 0xffffffff;

struct KeyRow {
    enum class Phase : std::uint8_t { absent, in_progress, completed, released };
    enum class Own : std::uint8_t { no, transactional, leased };

    Phase phase = Phase::absent;
    Own own = Own::no;            // claimed by the transaction that is still open
    bool fingerprint_sure = true; // the contract does not say whether a new holder's replaces it
    std::int32_t attempt = 0;
    std::int64_t fence = 0;  // 0: none
    std::uint32_t owner = 0; // 0: none, as for the next two
    std::uint32_t fingerprint = 0;
    std::uint32_t response = 0;
    Steps steps{};
    Between lease;
    Between expires;
    Between retention; // the duration that idem_complete counts anew
    bool operator==(const KeyRow &) const = default;
};

struct KeyCall {
    enum class Verb : std::uint8_t { claim, try_claim, begin, complete, release, renew, step, lookup, forget };
    enum class Answer : std::uint8_t {
        lost,     // none came: anything may have happened
        acquired, // true
        taken_over,
        holder,    // acquired or taken over: idem_claim's true does not say which
        completed, // false
        mismatch,
        in_flight, // ID005
        in_doubt,
        done,    // true
        kept,    // false of a step: it was so before
        nothing, // false of forget; no row of lookup
        found_completed,
        found_in_progress,
        stale // ID001
    };

    Verb verb{};
    Answer answer{};
    bool leased = false;
    bool in_ring = false; // the retention counts from the claim, whatever comes after it
    std::uint32_t owner = 0;
    std::uint32_t fingerprint = 0;
    std::int64_t fence = 0;
    std::int64_t fence_given = kUnknownFence;
    std::int32_t attempt = 0;   // 0: not told
    std::uint32_t response = 0; // stored, or given back; the output of a step, 0: it is intended
    std::size_t step = 0;
    std::optional<Steps> steps_given;
    Nanoseconds sent = 0;
    Nanoseconds received = kNever;
    Nanoseconds committed_by = kNever;
    Nanoseconds lease = 0;
    Nanoseconds retention = 0;
};

struct KeyRules {
    using Row = KeyRow;
    using Call = KeyCall;

    void answers(const View<Row> &view, const Call &call, std::vector<Outcome<Row>> &outcomes) const;
    bool reads_only(const Call &call) const;
    void settle(Row &row) const { row.own = Row::Own::no; }
    std::size_t hash(const Row &row) const;
    // For people; `responses` are the texts of the numbers from 1.
    std::string describe(const Row &row, const std::vector<std::string> &responses) const;
};

} // namespace chaos::judge
#endif
