// The histories of a correct store, each spoiled in one place: what the checker has to find.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "check.hpp"
#include "simulation.hpp"

namespace chaos {
namespace {

using Random = std::mt19937_64;

struct Place {
    Transaction *transaction;
    Step *step;
};

// Some step for which `fits`, or null.
Place some_step(History &history, Random &random, const std::function<bool(const Transaction &, const Step &)> &fits) {
    std::vector<Place> places;
    for (auto &transaction : history.transactions)
        for (auto &step : transaction.steps)
            if (step.received != kNever && fits(transaction, step))
                places.push_back({&transaction, &step});
    return places.empty() ? Place{nullptr, nullptr} : places[random() % places.size()];
}

bool told_fence(const Step &step) { return step.fence_given && step.sqlstate.empty(); }

bool is_begin(const Step &step) { return step.call == Call::begin || step.call == Call::try_claim; }

// Whether somebody else had been told that he committed, having completed the key, before the step was sent.
bool known_completed(const History &history, const Transaction &asker, const Step &step) {
    return std::any_of(history.transactions.begin(), history.transactions.end(), [&](const Transaction &other) {
        return other.id != asker.id && other.fate == Fate::committed && other.ended < step.sent &&
               std::any_of(other.steps.begin(), other.steps.end(), [&](const Step &its) {
                   return its.key == step.key && !its.undone && its.sqlstate.empty() && its.received != kNever &&
                          ((is_begin(its) && !its.leased && its.outcome == "acquired") || its.outcome == "accepted" ||
                           (its.call == Call::claim && its.outcome == "t"));
               });
    });
}

bool only_reads(const Transaction &transaction, const std::string &key) {
    return std::all_of(transaction.steps.begin(), transaction.steps.end(), [&](const Step &step) {
        return step.key != key || step.outcome == "completed" || step.outcome == "f" || step.outcome == "duplicate";
    });
}

// Each spoils a history, and returns whether it found something to spoil.
struct Mutation {
    const char *name;
    std::function<bool(History &, Random &)> spoil;
    double found;  // at least this part: where another order of overlapping calls explains what was made up, it is no violation
    int names = 2; // of each kind; with more, fewer keys are completed early
};

bool lower_fence(History &history, Random &random) {
    Nanoseconds first = kNever;
    std::int64_t least = kNever;
    for (const auto &transaction : history.transactions)
        for (const auto &step : transaction.steps)
            if (told_fence(step)) {
                first = std::min(first, step.received);
                least = std::min(least, *step.fence_given);
            }
    const auto place =
        some_step(history, random, [&](const auto &, const Step &step) { return told_fence(step) && step.sent > first; });
    if (place.step != nullptr)
        place.step->fence_given = least - 1;
    return place.step != nullptr;
}

bool share_fence(History &history, Random &random) {
    const auto one = some_step(history, random, [](const auto &, const Step &step) { return told_fence(step); });
    if (one.step == nullptr)
        return false;
    const auto other = some_step(history, random,
                                 [&](const auto &, const Step &step) { return told_fence(step) && step.key != one.step->key; });
    if (other.step != nullptr)
        other.step->fence_given = one.step->fence_given;
    return other.step != nullptr;
}

bool claim_again(History &history, Random &random) {
    const auto place = some_step(history, random, [&](const Transaction &transaction, const Step &step) {
        return (step.outcome == "completed" || step.outcome == "f") && (is_begin(step) || step.call == Call::claim) &&
               transaction.isolation == "rc" && only_reads(transaction, step.key) &&
               known_completed(history, transaction, step);
    });
    if (place.step == nullptr)
        return false;
    place.step->outcome = place.step->call == Call::claim ? "t" : "acquired";
    place.step->response_given.reset();
    if (place.step->leased)
        place.step->fence_given = 5'000'000'000 + static_cast<std::int64_t>(random() % 1000);
    return true;
}

bool accept_again(History &history, Random &random) {
    const auto place = some_step(history, random, [&](const Transaction &transaction, const Step &step) {
        return step.outcome == "duplicate" && transaction.isolation == "rc" && known_completed(history, transaction, step);
    });
    if (place.step != nullptr)
        place.step->outcome = "accepted";
    return place.step != nullptr;
}

bool answer(History &history, Random &random, const std::function<bool(const Step &)> &fits, const std::string &outcome,
            const std::string &sqlstate) {
    const auto place = some_step(history, random, [&](const Transaction &transaction, const Step &step) {
        return transaction.isolation == "rc" && fits(step);
    });
    if (place.step == nullptr)
        return false;
    place.step->outcome = outcome;
    place.step->sqlstate = sqlstate;
    if (!sqlstate.empty())
        place.step->fence_given.reset();
    return true;
}

const std::vector<Mutation> kMutations = {
    {"another response",
     [](History &history, Random &random) {
         const auto place = some_step(history, random, [](const auto &, const Step &step) {
             return step.outcome == "completed" && step.response_given.has_value();
         });
         if (place.step != nullptr)
             place.step->response_given = "made up";
         return place.step != nullptr;
     },
     1},
    {"a lower fence", lower_fence, 1},
    {"a fence of two names", share_fence, 1},
    {"a lost effect",
     [](History &history, Random &random) {
         auto &effects = history.final_state.effects;
         std::vector<std::size_t> certain;
         for (std::size_t i = 0; i < effects.size(); ++i)
             for (const auto &transaction : history.transactions)
                 if (transaction.id == effects[i].transaction && transaction.fate == Fate::committed)
                     certain.push_back(i);
         if (certain.empty())
             return false;
         const auto gone = effects[certain[random() % certain.size()]];
         std::erase_if(effects,
                       [&](const Effect &effect) { return effect.transaction == gone.transaction && effect.key == gone.key; });
         return true;
     },
     1},
    {"an effect of an aborted transaction",
     [](History &history, Random &) {
         for (const auto &transaction : history.transactions)
             if (transaction.fate == Fate::aborted && !transaction.effects.empty()) {
                 history.final_state.effects.push_back(transaction.effects.front());
                 return true;
             }
         return false;
     },
     1},
    {"a completed key claimed again", claim_again, 1},
    {"a token accepted again", accept_again, 1},
    {"in flight instead of completed",
     [](History &history, Random &random) {
         return answer(
             history, random, [](const Step &step) { return step.outcome == "in_flight" && step.call != Call::redeem; },
             "completed", "");
     },
     0.5},
    {"a stale fence that is good",
     [](History &history, Random &random) {
         return answer(
             history, random, [](const Step &step) { return step.sqlstate == "ID001"; }, "", "");
     },
     0.7},
    {"a good fence that is stale",
     [](History &history, Random &random) {
         return answer(
             history, random, [](const Step &step) { return step.call == Call::complete && step.sqlstate.empty(); }, "",
             "ID001");
     },
     0.5},
    {"stock that is gone",
     [](History &history, Random &random) {
         auto &stock = history.final_state.stock;
         stock[random() % stock.size()].second -= 1000;
         return true;
     },
     1},
    {"another stock told",
     [](History &history, Random &random) {
         const auto place = some_step(history, random, [](const auto &, const Step &step) {
             return step.call != Call::publish && step.value_given.has_value();
         });
         if (place.step != nullptr)
             *place.step->value_given += 1000;
         return place.step != nullptr;
     },
     1},
    {"a move that is not allowed",
     [](History &history, Random &random) {
         auto &moves = history.final_state.moves;
         if (moves.empty())
             return false;
         auto &move = moves[random() % moves.size()];
         move.to = move.from;
         return true;
     },
     1},
    {"another state",
     [](History &history, Random &random) {
         auto &states = history.final_state.states;
         auto &state = states[random() % states.size()].second;
         state = state == "paid" ? "shipped" : "paid";
         return true;
     },
     1},
    {"steps that a new holder is not told of",
     [](History &history, Random &random) {
         const auto place = some_step(history, random, [](const Transaction &transaction, const Step &step) {
             return is_begin(step) && step.steps_given && !step.steps_given->empty() && transaction.isolation == "rc";
         });
         if (place.step != nullptr)
             place.step->steps_given = "";
         return place.step != nullptr;
     },
     0.9, 10},
    {"a step that was noted before, and is new again",
     [](History &history, Random &random) {
         const auto place = some_step(history, random, [](const Transaction &transaction, const Step &step) {
             return step.call == Call::step && step.outcome == "f" && transaction.isolation == "rc";
         });
         if (place.step != nullptr)
             place.step->outcome = "t";
         return place.step != nullptr;
     },
     0.9, 10},
    {"a message published twice",
     [](History &history, Random &random) {
         auto &messages = history.final_state.messages;
         if (messages.empty())
             return false;
         messages.emplace_back(messages[random() % messages.size()].first, 7);
         return true;
     },
     1},
    {"a message that is lost",
     [](History &history, Random &) {
         const auto place =
             std::find_if(history.transactions.begin(), history.transactions.end(), [](const Transaction &transaction) {
                 return transaction.fate == Fate::committed &&
                        std::any_of(transaction.steps.begin(), transaction.steps.end(), [](const Step &step) {
                            return step.call == Call::publish && step.value_given && !step.undone;
                        });
             });
         history.final_state.messages.clear();
         return place != history.transactions.end();
     },
     1},
    {"another message's id",
     [](History &history, Random &random) {
         const auto place = some_step(history, random, [](const Transaction &transaction, const Step &step) {
             return step.call == Call::publish && !step.undone && transaction.fate == Fate::committed;
         });
         if (place.step != nullptr)
             place.step->value_given = 7;
         return place.step != nullptr;
     },
     1},
    {"a lock that was busy",
     [](History &history, Random &random) {
         const auto place = some_step(history, random, [](const Transaction &transaction, const Step &step) {
             return step.call == Call::lock && !step.fence_given && transaction.isolation == "rc";
         });
         if (place.step == nullptr)
             return false;
         std::int64_t before = 0;
         for (const auto &transaction : history.transactions)
             for (const auto &step : transaction.steps)
                 if (told_fence(step) && step.received < place.step->sent)
                     before = std::max(before, *step.fence_given);
         place.step->fence_given = before + 1; // which the next one has as well, or not
         return true;
     },
     0.8},
};

TEST(Mutations, are_found) {
    for (const auto &mutation : kMutations) {
        int made = 0;
        int found = 0;
        std::string missed;
        for (std::uint64_t seed = 1; seed <= 60; ++seed) {
            Simulation simulation;
            simulation.seed = seed;
            simulation.forgets = false;
            simulation.lease = 30'000'000;
            simulation.transactions = 60 * mutation.names;
            simulation.names = mutation.names;
            auto history = simulate(simulation);
            Random random(seed);
            if (!mutation.spoil(history, random))
                continue;
            ++made;
            Limits limits;
            limits.shrink = std::chrono::milliseconds(20);
            if (!check(history, limits).clean())
                ++found;
            else
                missed += " " + std::to_string(seed);
        }
        RecordProperty(mutation.name, std::to_string(found) + " of " + std::to_string(made));
        EXPECT_GE(made, 20) << mutation.name;
        EXPECT_GE(found, mutation.found * made) << mutation.name << ": " << found << " of " << made << "; missed:" << missed;
        std::cout << mutation.name << ": " << found << " of " << made << '\n';
    }
}

} // namespace
} // namespace chaos
