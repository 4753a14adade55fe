// Transitions, as a call and as a flow. transact_test.cpp tests the behaviour that the flow shares with others.
#include <gtest/gtest.h>

#include <idem/machines.hpp>
#include <idem/once.hpp>

#include "scratch.hpp"

namespace {

using idem::transition_outcome;
using test::effects;
using test::leave_effect;
using test::scratch;

const idem::row kOne{{"id", 1}};
const idem::row kNine{{"id", 9}};

class Machine : public testing::Test {
  protected:
    idem::client db_ = test::make_client();
    const scratch rows_;
    const std::string key_ = test::unique_key();
};

TEST_F(Machine, EveryOutcomeOfACall) {
    const auto move = [&](const idem::row &key, const std::optional<std::string> &from, const char *to) {
        const idem::transition_result done = transition(db_, rows_.table(), key, from, to);
        EXPECT_EQ(bool(done), done.outcome == transition_outcome::moved);
        return std::string(name(done.outcome)) + " " + done.state.value_or("-");
    };
    EXPECT_EQ(move(kOne, "new", "paid"), "moved paid");
    EXPECT_EQ(move(kOne, "new", "paid"), "already paid");
    EXPECT_EQ(move(kOne, "new", "sent"), "conflict paid");
    EXPECT_EQ(move(kOne, std::nullopt, "new"), "not_allowed paid");
    EXPECT_EQ(move(kOne, std::nullopt, "it's \"no\\state\""), "not_allowed paid");
    EXPECT_EQ(move(kNine, std::nullopt, "paid"), "not_found -");
}

TEST_F(Machine, NamesItsColumn) {
    EXPECT_THROW(transition(db_, rows_.table(), kOne, "new", "paid", "id"), idem::error);
    EXPECT_TRUE(transition(db_, rows_.table(), kOne, "new", "paid", "state"));
    idem::transition_options options;
    options.state_column = "id";
    EXPECT_THROW(transition(db_, rows_.table(), kOne, "paid", "sent", options, [](idem::transaction &) {}), idem::error);
}

TEST_F(Machine, FlowRunsTheWorkOnlyWhenTheRowMoved) {
    const auto pay = [&](const idem::row &key, const std::optional<std::string> &from, const char *to) {
        return transition(db_, rows_.table(), key, from, to, [&](idem::transaction &tx) { leave_effect(tx, key_); });
    };
    EXPECT_EQ(pay(kOne, "new", "paid").outcome, transition_outcome::moved);
    EXPECT_EQ(pay(kOne, "new", "paid").outcome, transition_outcome::already);
    EXPECT_EQ(pay(kOne, "new", "sent").outcome, transition_outcome::conflict);
    EXPECT_EQ(pay(kOne, std::nullopt, "new").outcome, transition_outcome::not_allowed);
    EXPECT_EQ(pay(kNine, std::nullopt, "paid").outcome, transition_outcome::not_found);
    EXPECT_EQ(effects(key_), 1);
    EXPECT_EQ(rows_.value_of("state", 1), "paid");
}

TEST_F(Machine, ErrorInTheWorkLeavesTheRowWhereItWas) {
    struct own_error {};
    EXPECT_THROW(transition(db_, rows_.table(), kOne, "new", "paid", [&](idem::transaction &) { throw own_error(); }),
                 own_error);
    EXPECT_EQ(rows_.value_of("state", 1), "new");
}

TEST_F(Machine, ComposesInsideOnce) {
    struct own_error {};
    EXPECT_THROW(idem::once(db_, idem::request{key_},
                            [&](idem::transaction &tx) {
                                EXPECT_TRUE(transition(tx, rows_.table(), kOne, std::nullopt, "paid"));
                                throw own_error();
                            }),
                 own_error);
    EXPECT_EQ(rows_.value_of("state", 1), "new");
}

TEST_F(Machine, GuardsErrorIsNotAllowed) {
    try {
        check_transition(db_, rows_.machine(), "sent", "new");
        ADD_FAILURE() << "it is allowed";
    } catch (const idem::not_allowed &e) {
        EXPECT_EQ(e.sqlstate(), "ID003");
        EXPECT_EQ(e.key(), rows_.machine());
    }
    EXPECT_NO_THROW(check_transition(db_, rows_.machine(), "new", "paid"));
    EXPECT_TRUE(can_transition(db_, rows_.machine(), "new", "paid"));
    EXPECT_FALSE(can_transition(db_, rows_.machine(), "paid", "new"));
    EXPECT_THROW(can_transition(db_, "no such machine", "a", "b"), idem::bad_input);
}

TEST_F(Machine, IsDrawn) {
    EXPECT_NE(machine_dot(db_, rows_.machine()).find("digraph"), std::string::npos);
    EXPECT_NE(machine_mermaid(db_, rows_.machine()).find("stateDiagram-v2"), std::string::npos);
}

} // namespace
