// The state table of the contract, as tests/vectors/claims.tsv has it, and what must hold whatever the row says.
#include "core/key_state.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace idem::core {
namespace {

constexpr Micros kNow = 1'000'000;

ClaimDecision decide(const KeyFacts &key, bool leased = true) { return decide_claim(key, {kNow, leased}); }

// The facts of a line of tests/vectors/claims.tsv, by their columns.
enum Fact { over, live, own, fenced, differs, same_owner, manual, leased, facts };

struct ClaimLine {
    std::string state, outcome, write;
    std::string wanted[facts]; // yes, no, or * for either
};

// The lines about a row.
std::vector<ClaimLine> claim_lines() {
    std::ifstream file(IDEM_VECTORS "/claims.tsv");
    std::vector<ClaimLine> lines;
    for (std::string text; std::getline(file, text);) {
        std::istringstream words(text);
        ClaimLine line;
        words >> line.state;
        for (std::string &fact : line.wanted)
            words >> fact;
        words >> line.outcome >> line.write;
        if (line.state.size() == 1 && line.state.find_first_of("pcrd") != std::string::npos)
            lines.push_back(line);
    }
    return lines;
}

bool fits(const ClaimLine &line, State state, unsigned bits) {
    bool fitting = line.state[0] == static_cast<char>(state);
    for (int fact = 0; fact < facts; fact++)
        fitting = fitting && (line.wanted[fact] == "*" || (line.wanted[fact] == "yes") == ((bits >> fact & 1) != 0));
    return fitting;
}

// Retention and lease end `margin` before now, or after it. A time that is now is over.
KeyFacts row_with(State state, unsigned bits, Micros margin) {
    const auto has = [bits](Fact fact) { return (bits >> fact & 1) != 0; };
    return KeyFacts{state,
                    has(own),
                    has(fenced),
                    has(over) ? kNow - margin : kNow + 1 + margin,
                    has(live) ? kNow + 1 + margin : kNow - margin,
                    has(differs),
                    has(same_owner),
                    has(manual)};
}

TEST(Claim, IsDecidedByTheFirstLineOfTheTableThatFits) {
    constexpr const char *kOutcomeNames[] = {"acquired", "taken_over", "in_flight", "completed", "mismatch", "in_doubt"};
    constexpr const char *kWriteNames[] = {"none", "restart", "next_attempt", "renew", "mark_in_doubt"};
    const std::vector<ClaimLine> lines = claim_lines();
    std::set<const ClaimLine *> used;
    for (State state : {State::in_progress, State::completed, State::released, State::in_doubt})
        for (unsigned bits = 0; bits < 1U << facts; bits++) {
            const auto line =
                std::find_if(lines.begin(), lines.end(), [&](const ClaimLine &l) { return fits(l, state, bits); });
            ASSERT_NE(line, lines.end()) << static_cast<char>(state) << " " << bits;
            used.insert(&*line);
            for (Micros margin : {0, 1, 100}) {
                const ClaimDecision decision = decide(row_with(state, bits, margin), (bits >> leased & 1) != 0);
                EXPECT_EQ(kOutcomeNames[static_cast<int>(decision.outcome)], line->outcome)
                    << static_cast<char>(state) << " " << bits;
                EXPECT_EQ(kWriteNames[static_cast<int>(decision.write)], line->write)
                    << static_cast<char>(state) << " " << bits;
            }
        }
    EXPECT_EQ(used.size(), lines.size()); // no line is hidden by those before it
}

// Every combination of facts: only a completed key is called completed, and nothing is granted while another's lease lives.
TEST(Claim, InvariantsHoldForEveryCombination) {
    for (State state : {State::in_progress, State::completed, State::released, State::in_doubt})
        for (int bits = 0; bits < 1 << 8; bits++) {
            const KeyFacts key{state,
                               (bits & 1) != 0,
                               (bits & 2) != 0,
                               (bits & 4) != 0 ? kNow + 1 : kNow - 1,
                               (bits & 8) != 0 ? kNow + 1 : kNow - 1,
                               (bits & 16) != 0,
                               (bits & 32) != 0,
                               (bits & 64) != 0};
            const ClaimDecision decision = decide(key, (bits & 128) != 0);
            const bool granted = decision.outcome == Outcome::acquired || decision.outcome == Outcome::taken_over;
            if (decision.outcome == Outcome::completed) {
                EXPECT_EQ(static_cast<char>(key.state), static_cast<char>(State::completed));
            }
            if (state == State::in_progress && key.lease_until > kNow && granted) {
                EXPECT_TRUE(key.same_owner);
            }
            if (state == State::in_doubt) {
                EXPECT_FALSE(granted);
            }
            if (granted) {
                EXPECT_NE(static_cast<int>(decision.write), static_cast<int>(ClaimWrite::none));
            }
        }
}

HolderFacts held(State state) {
    HolderFacts key{};
    key.state = state;
    key.has_fence = key.fence_given = key.fence_matches = true;
    return key;
}

constexpr Change kChanges[] = {Change::renew, Change::step, Change::complete, Change::release};

void expect(ChangeDecision actual, ChangeDecision expected) { EXPECT_EQ(static_cast<int>(actual), static_cast<int>(expected)); }

TEST(Response, ExpiresAfterItsTtl) {
    KeyFacts key{};
    key.state = State::completed;
    EXPECT_FALSE(is_response_expired(key, 100, 50, 149));
    EXPECT_TRUE(is_response_expired(key, 100, 50, 150));
    EXPECT_FALSE(is_response_expired(key, 100, 50, 20)); // the clock was set back
    EXPECT_FALSE(is_response_expired(key, 100, kForever, kForever));
    EXPECT_FALSE(is_response_expired(key, 100, kForever, 1'000'000));
}

TEST(Response, OnlyOfCompletedKeys) {
    for (State state : {State::in_progress, State::released, State::in_doubt}) {
        KeyFacts key{};
        key.state = state;
        EXPECT_FALSE(is_response_expired(key, 100, 1, 1000));
    }
}

TEST(Change, HolderInProgressMayDoEverything) {
    for (Change change : kChanges)
        expect(decide_change(held(State::in_progress), change), ChangeDecision::apply);
}

TEST(Change, StaleFenceMayDoNothingInAnyState) {
    for (State state : {State::in_progress, State::completed, State::released, State::in_doubt})
        for (Change change : kChanges) {
            HolderFacts key = held(state);
            key.fence_matches = false;
            key.same_response = true;
            expect(decide_change(key, change), ChangeDecision::stale);
        }
}

TEST(Change, InDoubtIsOnlyCompletedByItsHolder) {
    for (Change change : kChanges)
        expect(decide_change(held(State::in_doubt), change),
               change == Change::complete ? ChangeDecision::apply : ChangeDecision::stale);
}

TEST(Change, CompletedAgainIsANoOpOnlyWithTheSameResponse) {
    HolderFacts key = held(State::completed);
    expect(decide_change(key, Change::complete), ChangeDecision::stale);
    key.same_response = true;
    expect(decide_change(key, Change::complete), ChangeDecision::no_op);
    expect(decide_change(key, Change::renew), ChangeDecision::stale);
    expect(decide_change(key, Change::step), ChangeDecision::stale);
    expect(decide_change(key, Change::release), ChangeDecision::stale);
}

TEST(Change, ReleasedIsOver) {
    for (Change change : kChanges)
        expect(decide_change(held(State::released), change), ChangeDecision::stale);
}

TEST(Change, WithoutFenceOnlyAnOwnTransactionalClaimTakesAResponseOrIsGivenBack) {
    for (State state : {State::in_progress, State::completed, State::released, State::in_doubt})
        for (bool own : {false, true})
            for (bool has_fence : {false, true})
                for (bool completed : {false, true})
                    for (Change change : kChanges) {
                        HolderFacts key{};
                        key.state = state;
                        key.own_transaction = own;
                        key.has_fence = has_fence;
                        key.completed_by_call = completed;
                        const bool is_claim = state == State::completed && own && !has_fence;
                        expect(decide_change(key, change), is_claim && change == Change::complete ? ChangeDecision::attach
                                                           : is_claim && change == Change::release && !completed
                                                               ? ChangeDecision::apply
                                                               : ChangeDecision::stale);
                    }
}

TEST(Step, IsWrittenOnceAsIntendedAndOnceAsDone) {
    for (bool same : {false, true}) {
        EXPECT_EQ(decide_step({StepState::absent, false, same}), StepDecision::write);
        EXPECT_EQ(decide_step({StepState::absent, true, same}), StepDecision::write);
        EXPECT_EQ(decide_step({StepState::intended, false, same}), StepDecision::keep);
        EXPECT_EQ(decide_step({StepState::intended, true, same}), StepDecision::write);
        EXPECT_EQ(decide_step({StepState::done, false, same}), StepDecision::keep);
        EXPECT_EQ(decide_step({StepState::done, true, same}), same ? StepDecision::keep : StepDecision::conflict);
    }
}

} // namespace
} // namespace idem::core
