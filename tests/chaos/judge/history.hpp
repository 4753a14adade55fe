#ifndef IDEM_CHAOS_HISTORY_HPP
#define IDEM_CHAOS_HISTORY_HPP
// What a chaos run saw: every call with the time it was sent and the time its answer came, every transaction with its fate, and
// what stood in the tables afterwards. The clients write it, the checker reads it, and neither knows the other; it holds
// no pointer and no opinion, and reads and writes as lines of text, so that a failing history can be kept and checked again.

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chaos {

// The steady clock of the one process that runs all clients. Server and clients share the machine, so leases and retentions,
// which the server counts in its own time, run at the same pace.
using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

enum class Call {
    claim,
    try_claim,
    begin,
    complete,
    release,
    renew,
    step,
    lookup,
    forget,
    redeem,
    lock,
    renew_lock,
    unlock,
    assert_fence,
    transition,
    adjust,
    publish,
    sweep
};

// How a transaction ended, as far as its client can know. `unknown`: COMMIT (or COMMIT PREPARED) was sent and no reply came.
enum class Fate { committed, aborted, unknown };

// One call within a transaction. A step whose subtransaction was rolled back has `undone` set: its answer counts, its change
// does not.
struct Step {
    Call call{};
    std::string key; // the key, lock, token, order, article or dedup_id; one space of names per kind of call
    Nanoseconds sent = 0;
    Nanoseconds received = kNever; // kNever: no answer came
    bool undone = false;

    // Arguments; those that the call lacks stay as they are here.
    std::string scope;    // of a key; names are unique across scopes
    bool in_ring = false; // the scope lives in a ring all the time: the retention counts from the claim alone
    bool leased = false;
    std::string owner;
    std::string fingerprint;
    Nanoseconds lease = 0;
    Nanoseconds retention = 0;
    std::int64_t fence = 0;
    std::string response; // idem_complete, or the marker that a transactional holder attaches; the output of a step
    std::string step_name;
    std::string to_state;
    std::int64_t delta = 0;

    // The answer. `sqlstate` is set when it was an error; `outcome` is the text the server gave ("t"/"f" for booleans)
    // otherwise.
    std::string outcome;
    std::string sqlstate;
    std::optional<std::int64_t> fence_given;
    std::optional<int> attempt;
    std::optional<std::string> response_given;
    std::optional<std::string> steps_given;  // an object, empty when the key has none: of new holders and lookups
    std::optional<std::int64_t> value_given; // adjust: the stock that is left; publish: the id
};

// A row that a transaction wrote to chaos_effects (key, transaction, fence), the stand-in for the user's business row.
struct Effect {
    std::string key;
    std::uint64_t transaction = 0;
    std::int64_t fence = 0; // 0: transactional
};

struct Transaction {
    std::uint64_t id = 0; // unique in the run
    int client = 0;
    std::string isolation; // "rc", "rr", "ser"
    bool prepared = false; // two-phase
    Nanoseconds begun = 0;
    Nanoseconds ended = kNever; // when the client knew the fate
    Fate fate = Fate::aborted;
    std::vector<Step> steps;
    std::vector<Effect> effects; // what it tried to write; written for good only if it committed
};

// Read from the tables after the last client has stopped and every prepared transaction is decided.
struct Move {
    std::string key, from, to;
};
struct FinalState {
    std::vector<Effect> effects;                                // in order of insertion
    std::vector<Move> moves;                                    // the state machine's log
    std::vector<std::pair<std::string, std::int64_t>> stock;    // article, what is left
    std::vector<std::pair<std::string, std::string>> states;    // order, its state
    std::vector<std::pair<std::string, std::int64_t>> messages; // dedup_id, the id of a message that is in the outbox
};

// What the run was set up with, so that the checker needs no knowledge of the clients.
struct Setup {
    std::uint64_t seed = 0;
    bool fences_by_name =
        false; // the portable edition: each name draws its own from the clock, and two names may be given the same
    std::vector<std::pair<std::string, std::int64_t>> stock;      // article, what there was
    std::vector<std::pair<std::string, std::string>> transitions; // allowed moves; from "" = initial
};

struct History {
    Setup setup;
    std::vector<Transaction> transactions;
    FinalState final_state;
};

std::string_view to_string(Call call);
std::string_view to_string(Fate fate);

void write(std::ostream &out, const History &history);
History read(std::istream &in); // throws std::runtime_error that names the line

} // namespace chaos
#endif
