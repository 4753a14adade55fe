// The state table of the contract, row by row, and what must hold whatever the row says.
#include "core/key_state.hpp"

#include <gtest/gtest.h>

namespace idem::core {
namespace {

constexpr Micros kNow = 1'000'000;

// A key that somebody else completed long before it expires; tests change what their row of the table is about.
KeyFacts committed(State state) {
    KeyFacts key{};
    key.state = state;
    key.has_fence = true;
    key.expires_at = kNow + 500'000;
    key.lease_until = kNow + 100;
    return key;
}

ClaimDecision decide(const KeyFacts &key, bool leased = true) { return decide_claim(key, {kNow, leased}); }

void expect(const ClaimDecision &decision, Outcome outcome, ClaimWrite write) {
    EXPECT_EQ(static_cast<int>(decision.outcome), static_cast<int>(outcome));
    EXPECT_EQ(static_cast<int>(decision.write), static_cast<int>(write));
}

TEST(Claim, ExpiredKeyStartsOver) {
    for (State state : {State::completed, State::released}) {
        KeyFacts key = committed(state);
        key.expires_at = kNow;
        key.fingerprints_differ = true; // what it was for is over
        expect(decide(key), Outcome::acquired, ClaimWrite::restart);
    }
}

TEST(Claim, RetentionThatEndsUnderALiveLeaseDoesNotExpireTheKey) {
    KeyFacts key = committed(State::in_progress);
    key.expires_at = kNow - 1;
    expect(decide(key), Outcome::in_flight, ClaimWrite::none);
    key.lease_until = kNow;
    expect(decide(key), Outcome::acquired, ClaimWrite::restart);
}

TEST(Claim, InDoubtNeverExpires) {
    KeyFacts key = committed(State::in_doubt);
    key.expires_at = kNow - 1;
    expect(decide(key), Outcome::in_doubt, ClaimWrite::none);
    key = committed(State::in_progress);
    key.expires_at = key.lease_until = kNow - 1;
    key.manual_policy = true;
    expect(decide(key), Outcome::in_doubt, ClaimWrite::mark_in_doubt);
}

TEST(Claim, OwnTransactionalClaimIsCompletedWhateverTheFingerprint) {
    KeyFacts key = committed(State::completed);
    key.own_transaction = true;
    key.has_fence = false;
    key.fingerprints_differ = true;
    expect(decide(key, false), Outcome::completed, ClaimWrite::none);
}

TEST(Claim, OwnLeasedClaimIsInFlightForAnotherOwner) {
    KeyFacts key = committed(State::in_progress);
    key.own_transaction = true;
    expect(decide(key), Outcome::in_flight, ClaimWrite::none);
    key.lease_until = kNow - 1;
    expect(decide(key), Outcome::in_flight, ClaimWrite::none);
    key.same_owner = true;
    expect(decide(key), Outcome::acquired, ClaimWrite::renew);
}

TEST(Claim, DifferentFingerprintIsAMismatchInEveryLiveState) {
    for (State state : {State::in_progress, State::completed, State::released, State::in_doubt}) {
        KeyFacts key = committed(state);
        key.fingerprints_differ = true;
        key.same_owner = true;
        expect(decide(key), Outcome::mismatch, ClaimWrite::none);
    }
}

TEST(Claim, SameOwnerGetsItsClaimBackAlsoWhenTheLeaseRanOut) {
    for (Micros lease_until : {kNow + 1, kNow, kNow - 1}) {
        KeyFacts key = committed(State::in_progress);
        key.lease_until = lease_until;
        key.same_owner = true;
        key.manual_policy = true;
        expect(decide(key), Outcome::acquired, ClaimWrite::renew);
        expect(decide(key, false), lease_until > kNow ? Outcome::in_flight : Outcome::in_doubt,
               lease_until > kNow ? ClaimWrite::none : ClaimWrite::mark_in_doubt);
    }
}

TEST(Claim, LiveLeaseIsInFlight) { expect(decide(committed(State::in_progress)), Outcome::in_flight, ClaimWrite::none); }

TEST(Claim, LapsedLeaseIsTakenOverOrInDoubtByPolicy) {
    KeyFacts key = committed(State::in_progress);
    key.lease_until = kNow; // over at that very microsecond
    expect(decide(key), Outcome::taken_over, ClaimWrite::next_attempt);
    expect(decide(key, false), Outcome::taken_over, ClaimWrite::next_attempt);
    key.manual_policy = true;
    expect(decide(key), Outcome::in_doubt, ClaimWrite::mark_in_doubt);
}

TEST(Claim, CompletedIsReplayed) {
    expect(decide(committed(State::completed)), Outcome::completed, ClaimWrite::none);
    expect(decide(committed(State::completed), false), Outcome::completed, ClaimWrite::none);
}

TEST(Claim, ReleasedIsAnotherAttempt) {
    expect(decide(committed(State::released)), Outcome::acquired, ClaimWrite::next_attempt);
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

TEST(Change, WithoutFenceOnlyAnOwnTransactionalClaimTakesAResponse) {
    for (State state : {State::in_progress, State::completed, State::released, State::in_doubt})
        for (bool own : {false, true})
            for (bool has_fence : {false, true})
                for (Change change : kChanges) {
                    HolderFacts key{};
                    key.state = state;
                    key.own_transaction = own;
                    key.has_fence = has_fence;
                    const bool attaches = state == State::completed && own && !has_fence && change == Change::complete;
                    expect(decide_change(key, change), attaches ? ChangeDecision::attach : ChangeDecision::stale);
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
