#include "history.hpp"

#include <sstream>

#include <gtest/gtest.h>

#include "simulation.hpp"

namespace chaos {
namespace {

std::string written(const History &history) {
    std::ostringstream out;
    write(out, history);
    return out.str();
}

History reread(const std::string &text) {
    std::istringstream in(text);
    return read(in);
}

std::string complaint(const std::string &text) {
    try {
        reread(text);
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "";
}

TEST(History, is_the_same_after_writing_and_reading) {
    const auto text = written(simulate({}));
    EXPECT_EQ(written(reread(text)), text);
}

TEST(History, keeps_every_field) {
    Step step;
    step.call = Call::assert_fence;
    step.key = "a key = with 100% of\neverything\t";
    step.sent = 1;
    step.received = 2;
    step.undone = step.leased = step.in_ring = true;
    step.scope = "scope";
    step.owner = "owner";
    step.fingerprint = "fingerprint";
    step.lease = 3;
    step.retention = 4;
    step.fence = -5;
    step.response = "{\"a\": 1}";
    step.to_state = "paid";
    step.delta = -6;
    step.outcome = "acquired";
    step.sqlstate = "ID001";
    step.fence_given = 7;
    step.attempt = 8;
    step.response_given = "";
    step.value_given = 0;
    step.step_name = "charge";
    step.steps_given = "{\"charge\": null}";
    History history;
    history.setup = {18'446'744'073'709'551'615U, true, {{"article", 5}}, {{"", "created"}}};
    history.transactions.push_back({9, 10, "ser", true, 11, 12, Fate::unknown, {step, Step{}}, {{"k", 9, 13}}});
    history.final_state = {
        {{"k", 9, 13}}, {{"order", "", "created"}}, {{"article", -1}}, {{"order", "created"}}, {{"dedup", 17}}};

    const auto again = reread(written(history));
    EXPECT_EQ(again.setup.seed, history.setup.seed);
    EXPECT_TRUE(again.setup.fences_by_name);
    EXPECT_EQ(again.setup.stock, history.setup.stock);
    EXPECT_EQ(again.setup.transitions, history.setup.transitions);
    ASSERT_EQ(again.transactions.size(), 1U);
    const auto &transaction = again.transactions[0];
    EXPECT_EQ(transaction.id, 9U);
    EXPECT_EQ(transaction.client, 10);
    EXPECT_EQ(transaction.isolation, "ser");
    EXPECT_TRUE(transaction.prepared);
    EXPECT_EQ(transaction.begun, 11);
    EXPECT_EQ(transaction.ended, 12);
    EXPECT_EQ(transaction.fate, Fate::unknown);
    ASSERT_EQ(transaction.steps.size(), 2U);
    const auto &its = transaction.steps[0];
    EXPECT_EQ(its.call, step.call);
    EXPECT_EQ(its.scope, step.scope);
    EXPECT_TRUE(its.in_ring);
    EXPECT_EQ(its.key, step.key);
    EXPECT_EQ(its.sent, 1);
    EXPECT_EQ(its.received, 2);
    EXPECT_TRUE(its.undone);
    EXPECT_TRUE(its.leased);
    EXPECT_EQ(its.owner, step.owner);
    EXPECT_EQ(its.fingerprint, step.fingerprint);
    EXPECT_EQ(its.lease, 3);
    EXPECT_EQ(its.retention, 4);
    EXPECT_EQ(its.fence, -5);
    EXPECT_EQ(its.response, step.response);
    EXPECT_EQ(its.to_state, "paid");
    EXPECT_EQ(its.delta, -6);
    EXPECT_EQ(its.outcome, "acquired");
    EXPECT_EQ(its.sqlstate, "ID001");
    EXPECT_EQ(its.fence_given, 7);
    EXPECT_EQ(its.attempt, 8);
    EXPECT_EQ(its.response_given, "");
    EXPECT_EQ(its.value_given, 0);
    EXPECT_EQ(its.step_name, step.step_name);
    EXPECT_EQ(its.steps_given, step.steps_given);
    EXPECT_EQ(transaction.steps[1].received, kNever);
    EXPECT_FALSE(transaction.steps[1].fence_given);
    EXPECT_EQ(transaction.effects.at(0).fence, 13);
    EXPECT_EQ(again.final_state.effects.at(0).transaction, 9U);
    EXPECT_EQ(again.final_state.moves.at(0).to, "created");
    EXPECT_EQ(again.final_state.stock, history.final_state.stock);
    EXPECT_EQ(again.final_state.states, history.final_state.states);
    EXPECT_EQ(again.final_state.messages, history.final_state.messages);
}

TEST(History, names_the_line_it_cannot_read) {
    const std::string heading = "idem-chaos-history 1\n";
    EXPECT_EQ(complaint(""), "line 1: the file is empty");
    EXPECT_EQ(complaint("something else\n"), "line 1: not a history of this format");
    EXPECT_EQ(complaint(heading + "seed value=1\nstep call=claim sent=0\n"), "line 3: no transaction yet");
    EXPECT_EQ(complaint(heading + "seed value=one\n"), "line 2: bad number for \"value\"");
    EXPECT_EQ(complaint(heading + "transaction id=1 fate=lost\n"), "line 2: unknown word \"lost\"");
    EXPECT_EQ(complaint(heading + "stock article=a%2 quantity=1\n"), "line 2: bad escape");
}

} // namespace
} // namespace chaos
