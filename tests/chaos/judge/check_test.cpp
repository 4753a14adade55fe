#include "check.hpp"

#include <sstream>

#include <gtest/gtest.h>

#include "script.hpp"

namespace chaos {
namespace {

std::string text(const Report &report) {
    std::ostringstream out;
    print(out, report);
    return out.str();
}

// The guarantee that the history breaks; "" if none, "several" if it is not one alone.
std::string broken(const History &history) {
    const auto report = check(history);
    std::string guarantee;
    for (const auto &violation : report.violations) {
        if (!guarantee.empty() && guarantee != violation.guarantee)
            return "several: " + text(report);
        guarantee = violation.guarantee;
    }
    return guarantee;
}

const std::string kOne = "at most one effect per key and retention";
const std::string kHolders = "only holders have effects";
const std::string kKept = "an acknowledged claim is never lost";
const std::string kEqual = "every replay equals the first response";
const std::string kReal = "only a real duplicate is called one";
const std::string kGrow = "fences strictly grow in real time";
const std::string kHolder = "at most one holder per fence";
const std::string kStale = "no committed write under a stale fence";
const std::string kAllowed = "only allowed transitions";
const std::string kConserved = "stock sold is stock that was there";
const std::string kExplained = "some order of the calls explains every answer";

Script claimed() {
    Script script;
    script.transaction().begin("k", 0, 1, "acquired").given(0, 1).effect("k").ends(3);
    script.last().fence_given.reset();
    return script;
}

Script leased(double lease = 1000) {
    Script script;
    script.transaction().begin("k", 0, 1, "acquired").leased(lease, "a").given(100, 1).ends(3);
    return script;
}

TEST(Effects, two_of_one_key) {
    auto script = claimed();
    script.transaction().begin("k", 2, 4, "acquired").effect("k").ends(6);
    EXPECT_EQ(broken(script.history), kOne);
}

TEST(Effects, two_of_one_key_after_its_retention) {
    Script script;
    script.transaction().call(Call::claim, "k", 0, 1, "t").effect("k");
    script.last().retention = ms(100);
    script.transaction().call(Call::claim, "k", 150, 151, "t").effect("k");
    script.last().retention = ms(100);
    EXPECT_EQ(broken(script.history), "");
}

TEST(Effects, twice_by_one_transaction) {
    auto script = claimed();
    script.history.final_state.effects.push_back(script.history.final_state.effects.front());
    EXPECT_EQ(broken(script.history), kOne);
}

TEST(Effects, twice_by_one_transaction_after_the_retention) {
    Script script;
    script.transaction().call(Call::claim, "k", 0, 1, "t").effect("k");
    script.last().retention = ms(100);
    script.call(Call::claim, "k", 150, 151, "t").effect("k");
    script.last().retention = ms(100);
    EXPECT_EQ(broken(script.history), "");
    script.effect("k");
    EXPECT_EQ(broken(script.history), kOne);
    script.history.final_state.effects.pop_back();
    script.last().sent = ms(50);
    script.last().received = ms(51);
    EXPECT_EQ(broken(script.history), kOne);
}

TEST(Effects, of_an_aborted_transaction) {
    auto script = claimed();
    script.now().fate = Fate::aborted;
    EXPECT_EQ(broken(script.history), kHolders);
}

TEST(Effects, of_who_was_told_of_a_duplicate) {
    auto script = claimed();
    script.transaction().begin("k", 4, 5, "completed").effect("k");
    EXPECT_EQ(broken(script.history), kHolders);
}

TEST(Effects, of_nobody) {
    auto script = claimed();
    script.history.final_state.effects.push_back({"k", 77, 0});
    EXPECT_EQ(broken(script.history), kHolders);
}

// Claimed at 0 with a retention of 100, completed at 90; asked again at 150, when it is a duplicate.
Script asked_after_the_claims_retention(bool in_ring, bool with_response) {
    Script script;
    script.transaction().begin("k", 0, 1, "acquired").effect("k");
    script.last().retention = ms(100);
    script.last().in_ring = in_ring;
    if (with_response) {
        script.complete("k", 90, 91, 0, "{}");
        script.last().in_ring = in_ring;
    }
    script.ends(92);
    script.transaction().begin("k", 150, 151, "completed");
    script.last().retention = ms(100);
    script.last().in_ring = in_ring;
    if (with_response)
        script.replies("{}");
    return script;
}

TEST(Retention, counts_from_the_completion) {
    EXPECT_EQ(broken(asked_after_the_claims_retention(false, false).history), "");
    EXPECT_EQ(broken(asked_after_the_claims_retention(false, true).history), "");
}

TEST(Retention, counts_from_the_claim_in_a_ring) {
    EXPECT_EQ(broken(asked_after_the_claims_retention(true, false).history), kExplained);
    EXPECT_EQ(broken(asked_after_the_claims_retention(true, true).history), kExplained);
}

TEST(Retention, is_over_in_a_ring_when_the_claims_is) {
    auto script = asked_after_the_claims_retention(true, true);
    script.last().outcome = "acquired";
    script.last().response_given.reset();
    script.effect("k");
    EXPECT_EQ(broken(script.history), "");
}

TEST(Retention, is_not_over_in_a_ring_before) {
    auto script = asked_after_the_claims_retention(true, true);
    script.last().outcome = "acquired";
    script.last().response_given.reset();
    script.last().sent = script.now().begun = ms(93);
    script.last().received = ms(94);
    EXPECT_EQ(broken(script.history), kKept);
    script.effect("k");
    EXPECT_NE(broken(script.history), "");
}

TEST(Claims, whose_effect_is_lost) {
    auto script = claimed();
    script.history.final_state.effects.clear();
    EXPECT_EQ(broken(script.history), kKept);
}

TEST(Claims, that_are_free_again) {
    auto script = claimed();
    script.transaction(Fate::aborted).begin("k", 4, 5, "acquired");
    EXPECT_EQ(broken(script.history), kKept);
}

TEST(Claims, that_were_forgotten) {
    auto script = claimed();
    script.transaction().call(Call::forget, "k", 4, 5, "t").ends(8);
    script.transaction(Fate::aborted).begin("k", 7, 9, "acquired");
    EXPECT_EQ(broken(script.history), "");
}

TEST(Claims, of_unknown_fate_may_be_free_or_taken) {
    for (const std::string outcome : {"acquired", "completed"}) {
        Script script;
        script.transaction(Fate::unknown).begin("k", 0, 1, "acquired");
        script.transaction(Fate::aborted).begin("k", 10, 11, outcome);
        EXPECT_EQ(broken(script.history), "") << outcome;
    }
}

TEST(Claims, of_unknown_fate_are_not_free_once_they_were_seen) {
    Script script;
    script.transaction(Fate::unknown).begin("k", 0, 1, "acquired");
    script.transaction(Fate::aborted).begin("k", 10, 11, "completed");
    script.transaction(Fate::aborted).begin("k", 12, 13, "acquired");
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Claims, whose_effect_is_in_the_table_have_committed) {
    Script script;
    script.transaction(Fate::unknown).begin("k", 0, 1, "acquired").effect("k");
    script.transaction(Fate::aborted).begin("k", 10, 11, "completed");
    EXPECT_EQ(broken(script.history), kReal) << "it wrote an effect, which is not there";
    script.history.final_state.effects = script.history.transactions[0].effects;
    EXPECT_EQ(broken(script.history), "");
}

TEST(Claims, that_were_undone_are_free) {
    Script script;
    script.transaction().begin("k", 0, 1, "acquired").undone().begin("other", 2, 30, "acquired");
    script.transaction().begin("k", 10, 11, "acquired");
    EXPECT_EQ(broken(script.history), "");
    script.transaction().begin("k", 40, 41, "acquired");
    EXPECT_EQ(broken(script.history), kKept);
}

TEST(Claims, of_an_open_transaction_are_nobody_elses) {
    Script script;
    script.transaction().begin("k", 0, 1, "acquired").begin("other", 20, 21, "acquired");
    script.transaction(Fate::aborted).begin("k", 10, 11, "acquired");
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Replays, of_what_nobody_stored) {
    auto script = claimed();
    script.complete("k", 1, 2, 0, "{\"by\":1}").ends(3);
    script.transaction().begin("k", 4, 5, "completed").replies("{\"by\": 1}");
    EXPECT_EQ(broken(script.history), "");
    script.last().response_given = "{\"by\": 2}";
    EXPECT_EQ(broken(script.history), kEqual);
}

TEST(Replays, of_what_another_key_completed_with) {
    auto script = leased();
    script.transaction().complete("k", 4, 5, 100, "first");
    script.transaction().complete("k", 7, 8, 100, "second").error("ID001").now().fate = Fate::aborted;
    script.transaction().begin("k", 10, 11, "completed").replies("first");
    EXPECT_EQ(broken(script.history), "");
    script.transaction().begin("k", 12, 13, "completed").replies("second");
    EXPECT_EQ(broken(script.history), kEqual);
}

TEST(Replays, without_the_response) {
    auto script = leased();
    script.transaction().complete("k", 4, 5, 100, "first");
    script.transaction().begin("k", 10, 11, "completed");
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Duplicates, of_nothing) {
    Script script;
    script.transaction().call(Call::claim, "k", 0, 1, "f");
    EXPECT_EQ(broken(script.history), kReal);
}

TEST(Duplicates, of_an_aborted_transaction) {
    Script script;
    script.transaction(Fate::aborted).call(Call::claim, "k", 0, 1, "t").ends(5);
    script.transaction().call(Call::claim, "k", 2, 3, "f");
    EXPECT_EQ(broken(script.history), kReal);
}

TEST(Duplicates, of_a_transaction_that_commits_later) {
    Script script;
    script.transaction().call(Call::claim, "k", 0, 1, "t").call(Call::claim, "other", 10, 11, "t");
    script.transaction().call(Call::claim, "k", 2, 3, "f");
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Duplicates, of_its_own) {
    Script script;
    script.transaction(Fate::aborted).call(Call::claim, "k", 0, 1, "t").call(Call::claim, "k", 2, 3, "f");
    EXPECT_EQ(broken(script.history), "");
}

TEST(Fences, that_shrink) {
    Script script;
    script.transaction(Fate::aborted).begin("a", 0, 1, "acquired").leased(100).given(100);
    script.transaction().begin("b", 2, 3, "acquired").leased(100).given(99);
    EXPECT_EQ(broken(script.history), kGrow);
}

TEST(Fences, drawn_at_the_same_time_come_in_any_order) {
    Script script;
    script.transaction().begin("a", 0, 3, "acquired").leased(100).given(100);
    script.transaction().begin("b", 2, 4, "acquired").leased(100).given(99);
    EXPECT_EQ(broken(script.history), "");
}

TEST(Fences, of_two_holders) {
    Script script;
    script.transaction().begin("a", 0, 3, "acquired").leased(100, "one").given(100);
    script.transaction().call(Call::lock, "a", 1, 4, "").leased(100, "one").given(100);
    EXPECT_EQ(broken(script.history), kHolder);
}

TEST(Fences, of_two_names_that_draw_their_own) {
    Script script;
    script.history.setup.fences_by_name = true;
    script.transaction().begin("a", 0, 3, "acquired").leased(100, "one").given(100);
    script.transaction().begin("b", 1, 4, "acquired").leased(100, "one").given(100);
    EXPECT_EQ(broken(script.history), "");
    script.transaction().begin("b", 1, 4, "acquired").leased(100, "two").given(100);
    EXPECT_EQ(broken(script.history), kHolder);
}

TEST(Fences, of_one_owner_twice) {
    auto script = leased();
    script.transaction().begin("k", 4, 5, "acquired").leased(1000, "a").given(100, 1);
    EXPECT_EQ(broken(script.history), "");
    script.last().owner = "b";
    EXPECT_EQ(broken(script.history), kHolder);
}

TEST(Fences, of_a_call_whose_answer_was_lost) {
    Script script;
    script.transaction(Fate::unknown).begin("a", 0, 1, "").leased(1000, "one");
    script.last().received = kNever;
    script.now().ended = kNever;
    script.transaction().begin("b", 2, 3, "acquired").leased(1000).given(100);
    script.transaction().begin("a", 4, 5, "acquired").leased(1000, "one").given(99, 1);
    EXPECT_EQ(broken(script.history), "");
    script.history.transactions[0].steps[0].owner = "another";
    EXPECT_EQ(broken(script.history), kGrow);
}

TEST(StaleFences, that_complete) {
    auto script = leased(20);
    script.transaction().begin("k", 40, 41, "taken_over").leased(1000, "b").given(200, 2);
    script.transaction().complete("k", 50, 51, 200, "b");
    script.transaction().complete("k", 60, 61, 100, "b");
    EXPECT_EQ(broken(script.history), kStale);
    script.error("ID001").now().fate = Fate::aborted;
    EXPECT_EQ(broken(script.history), "");
}

TEST(StaleFences, are_good_again_when_the_takeover_is_rolled_back) {
    auto script = leased(20);
    script.transaction(Fate::aborted).begin("k", 40, 41, "taken_over").leased(1000, "b").given(200, 2);
    script.transaction().complete("k", 60, 61, 100, "a");
    EXPECT_EQ(broken(script.history), "");
}

TEST(StaleFences, are_good_as_long_as_the_row_is_there) {
    auto script = leased(20);
    script.history.transactions[0].steps[0].retention = ms(30);
    script.transaction().complete("k", 40, 41, 100, "a");
    script.transaction().complete("k", 400, 401, 100, "a");
    EXPECT_EQ(broken(script.history), "");
    script.transaction().complete("k", 410, 411, 100, "b");
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(StaleFences, that_were_asserted) {
    Script script;
    script.transaction().call(Call::lock, "l", 0, 1).leased(20).given(100);
    script.transaction().fenced(Call::assert_fence, "l", 40, 41, 100).call(Call::claim, "k", 90, 91, "t").effect("l", 100);
    script.transaction().call(Call::lock, "l", 50, 51).leased(20).given(200);
    EXPECT_EQ(broken(script.history), kStale) << "taken while it was asserted";
    script.history.transactions[2].steps[0].sent = ms(92);
    script.history.transactions[2].steps[0].received = script.history.transactions[2].ended = ms(95);
    EXPECT_EQ(broken(script.history), "");
    script.transaction().fenced(Call::assert_fence, "l", 100, 101, 100);
    EXPECT_EQ(broken(script.history), kStale) << "taken before";
}

TEST(Locks, of_two_at_a_time) {
    Script script;
    script.transaction().call(Call::lock, "l", 0, 1).leased(1000).given(100);
    script.transaction().call(Call::lock, "l", 50, 51).leased(1000);
    EXPECT_EQ(broken(script.history), "");
    script.given(200);
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Locks, that_are_busy_with_nobody) {
    Script script;
    script.transaction().call(Call::lock, "l", 0, 1).leased(1000).given(100);
    script.transaction().fenced(Call::unlock, "l", 10, 11, 100, "t");
    script.transaction().call(Call::lock, "l", 50, 51).leased(1000);
    EXPECT_EQ(broken(script.history), kExplained);
    script.given(200);
    EXPECT_EQ(broken(script.history), "");
}

TEST(Locks, that_a_stranger_frees) {
    Script script;
    script.transaction().call(Call::lock, "l", 0, 1).leased(10).given(100);
    script.transaction().call(Call::lock, "l", 50, 51).leased(1000).given(200);
    script.transaction().fenced(Call::unlock, "l", 60, 61, 100, "f");
    EXPECT_EQ(broken(script.history), "");
    script.last().outcome = "t";
    EXPECT_EQ(broken(script.history), kStale);
}

TEST(Leases, that_are_taken_over_while_they_run) {
    auto script = leased(1000);
    script.transaction().begin("k", 40, 41, "taken_over").leased(1000, "b").given(200, 2);
    EXPECT_EQ(broken(script.history), kExplained);
    script.last().sent = script.now().begun = ms(1100);
    script.last().received = ms(1101);
    script.now().ended = ms(1102);
    EXPECT_EQ(broken(script.history), "");
}

TEST(Leases, that_were_renewed_are_not_taken_over) {
    auto script = leased(50);
    script.transaction().fenced(Call::renew, "k", 40, 41, 100).last().lease = ms(1000);
    script.transaction().begin("k", 100, 101, "taken_over").leased(50, "b").given(200, 2);
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Leases, count_attempts) {
    auto script = leased(20);
    script.transaction().fenced(Call::release, "k", 5, 6, 100);
    script.transaction().begin("k", 10, 11, "acquired").leased(20, "b").given(200, 2);
    script.transaction().begin("k", 50, 51, "taken_over").leased(20, "c").given(300, 3);
    EXPECT_EQ(broken(script.history), "");
    script.last().attempt = 2;
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Leases, that_the_holder_is_denied) {
    auto script = leased(1000);
    script.transaction(Fate::aborted).complete("k", 5, 6, 100, "r").error("ID001");
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Fingerprints, that_differ) {
    auto script = claimed();
    script.history.transactions[0].steps[0].fingerprint = "f1";
    script.transaction().begin("k", 5, 6, "mismatch").last().fingerprint = "f2";
    EXPECT_EQ(broken(script.history), "");
    script.last().outcome = "completed";
    EXPECT_EQ(broken(script.history), kExplained);
    script.last().outcome = "mismatch";
    script.last().fingerprint = "f1";
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Fingerprints, of_released_keys) {
    auto script = leased(1000);
    script.history.transactions[0].steps[0].fingerprint = "f1";
    script.transaction().fenced(Call::release, "k", 5, 6, 100);
    script.transaction().call(Call::begin, "k", 10, 11, "acquired").effect("k").last().fingerprint = "f2";
    EXPECT_EQ(broken(script.history), "") << "forgotten";
    script.last().outcome = "mismatch";
    script.history.transactions[2].effects.clear();
    script.history.final_state.effects.clear();
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Claims, that_are_given_back) {
    Script script;
    script.transaction().call(Call::claim, "k", 0, 1, "t").call(Call::release, "k", 2, 3, "t");
    script.transaction().call(Call::claim, "k", 5, 6, "t").effect("k");
    EXPECT_EQ(broken(script.history), "");
    script.transaction().call(Call::release, "k", 8, 9, "t");
    EXPECT_EQ(broken(script.history), kExplained) << "it is another's";
    script.history.transactions.pop_back();
    script.history.transactions[0].steps[1].outcome.clear();
    script.history.transactions[0].steps[1].sqlstate = "ID001";
    EXPECT_NE(broken(script.history), "") << "it is its own";
}

TEST(InFlight, with_nobody) {
    Script script;
    script.transaction().begin("k", 0, 1, "in_flight");
    EXPECT_EQ(broken(script.history), kExplained);
    script.transaction().begin("k", 0.5, 2, "acquired");
    EXPECT_EQ(broken(script.history), "");
}

TEST(Snapshots, may_be_old) {
    for (const std::string isolation : {"rc", "rr"}) {
        auto script = claimed();
        script.transaction(Fate::committed, isolation).call(Call::claim, "other", 5, 6, "t").begin("k", 30, 31, "completed");
        script.transaction().call(Call::forget, "k", 10, 11, "t");
        EXPECT_EQ(broken(script.history), isolation == "rc" ? kExplained : "");
    }
}

TEST(Tokens, accepted_twice) {
    Script script;
    script.transaction().call(Call::redeem, "token", 0, 5, "accepted");
    script.transaction().call(Call::redeem, "token", 1, 6, "accepted");
    EXPECT_EQ(broken(script.history), "a token is accepted once");
    script.now().fate = Fate::aborted;
    EXPECT_EQ(broken(script.history), "");
}

TEST(Tokens, called_duplicates_of_nothing) {
    Script script;
    script.transaction().call(Call::redeem, "token", 0, 5, "duplicate");
    EXPECT_EQ(broken(script.history), kReal);
}

Script sold() {
    Script script;
    script.history.setup.stock = {{"article", 3}};
    script.history.final_state.stock = {{"article", 1}};
    script.transaction().call(Call::adjust, "article", 0, 1, "adjusted").last().delta = -2;
    script.last().value_given = 1;
    script.transaction().call(Call::adjust, "article", 3, 4, "out_of_range").last().delta = -2;
    return script;
}

TEST(Stock, that_is_missing) {
    auto script = sold();
    EXPECT_EQ(broken(script.history), "");
    script.history.final_state.stock[0].second = 0;
    EXPECT_EQ(broken(script.history), kConserved);
}

TEST(Stock, that_was_not_there) {
    auto script = sold();
    script.last().outcome = "adjusted";
    script.history.final_state.stock[0].second = -1;
    EXPECT_EQ(broken(script.history), kConserved);
}

TEST(Stock, sold_by_an_unknown_transaction) {
    auto script = sold();
    script.history.transactions[0].fate = Fate::unknown;
    EXPECT_EQ(broken(script.history), "");
    script.history.final_state.stock[0].second = 3;
    EXPECT_EQ(broken(script.history), kExplained) << "somebody had seen that it was gone";
    script.history.transactions.pop_back();
    EXPECT_EQ(broken(script.history), "");
}

TEST(Stock, of_a_lost_update) {
    auto script = sold();
    script.last().outcome = "adjusted";
    script.last().delta = -1;
    script.last().value_given = 2; // from 3, though 1 were left
    script.history.final_state.stock[0].second = 0;
    EXPECT_EQ(broken(script.history), kExplained);
}

Script moved() {
    Script script;
    script.history.setup.transitions = {{"", "created"}, {"created", "paid"}, {"paid", "shipped"}};
    script.history.final_state.states = {{"order", "shipped"}};
    script.history.final_state.moves = {{"order", "", "created"}, {"order", "created", "paid"}, {"order", "paid", "shipped"}};
    script.transaction().call(Call::transition, "order", 0, 1, "moved").last().to_state = "paid";
    script.transaction().call(Call::transition, "order", 3, 4, "moved").last().to_state = "shipped";
    return script;
}

TEST(Transitions, that_the_machine_lacks) {
    auto script = moved();
    EXPECT_EQ(broken(script.history), "");
    script.history.final_state.moves[1].to = "shipped";
    EXPECT_EQ(broken(script.history), kAllowed);
}

TEST(Transitions, that_end_elsewhere) {
    auto script = moved();
    script.history.final_state.states[0].second = "paid";
    EXPECT_EQ(broken(script.history), kAllowed);
}

TEST(Transitions, that_are_not_in_the_log) {
    auto script = moved();
    script.history.final_state.moves.pop_back();
    script.history.final_state.states[0].second = "paid";
    EXPECT_EQ(broken(script.history), kAllowed);
}

TEST(Transitions, from_a_state_it_was_not_in) {
    auto script = moved();
    std::swap(script.history.transactions[0].steps[0].to_state, script.history.transactions[1].steps[0].to_state);
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Transitions, that_were_not_allowed_and_were) {
    auto script = moved();
    script.transaction().call(Call::transition, "order", 6, 7, "not_allowed").last().to_state = "paid";
    EXPECT_EQ(broken(script.history), "");
    script.last().sent = ms(-2);
    script.last().received = ms(-1);
    EXPECT_EQ(broken(script.history), kExplained);
}

TEST(Reports, show_the_few_calls_that_matter) {
    Script script;
    for (int i = 0; i < 400; ++i) {
        script.transaction()
            .call(Call::claim, "k", 10 * i, 10 * i + 1, "t")
            .call(Call::lookup, "k", 10 * i + 2, 10 * i + 3, "completed");
        script.transaction().call(Call::forget, "k", 10 * i + 5, 10 * i + 6, "t");
    }
    script.transaction().call(Call::claim, "k", 5000, 5001, "t").call(Call::claim, "other", 5100, 5101, "t");
    script.transaction().call(Call::try_claim, "k", 5050, 5051, "completed");
    const auto report = check(script.history);
    ASSERT_EQ(report.violations.size(), 1U);
    const auto &history = report.violations[0].history;
    EXPECT_LE(history.transactions.size(), 3U) << text(report);
    std::ostringstream out;
    print(out, report.violations[0]);
    const auto shown = out.str();
    EXPECT_NE(shown.find("50.000 ->      51.000  c802 t802      try_claim(k) -> completed"), std::string::npos) << shown;
}

TEST(Reports, count_what_they_leave_out) {
    Script script;
    for (int i = 0; i < 9; ++i)
        script.transaction().call(Call::claim, "k" + std::to_string(i), i, i + 0.5, "f");
    const auto report = check(script.history);
    EXPECT_EQ(report.violations.size(), 5U);
    EXPECT_EQ(report.left_out, 4U);
}

TEST(Reports, tell_what_was_given_up) {
    Script script;
    for (int i = 0; i < 40; ++i) {
        script.transaction(Fate::unknown).call(Call::adjust, "article", 0, 100, "adjusted").last().delta = 1 << (i % 20);
        script.last().received = kNever;
    }
    script.history.setup.stock = {{"article", 0}};
    script.transaction().call(Call::adjust, "article", 50, 51, "adjusted").last().value_given = -5;
    script.transaction().call(Call::adjust, "article2", 50, 51, "adjusted");
    script.last().delta = 1;
    Limits limits;
    limits.configurations = 100;
    script.history.transactions[40].steps[0].value_given = 1 << 30;
    const auto report = check(script.history, limits);
    EXPECT_EQ(report.undecided, 1U);
    EXPECT_TRUE(report.clean());
}

} // namespace
} // namespace chaos
