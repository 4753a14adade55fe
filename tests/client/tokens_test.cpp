// Tokens, as calls and as a flow. transact_test.cpp tests the behaviour that the flow shares with others.
#include <gtest/gtest.h>

#include <idem/tokens.hpp>

#include "scratch.hpp"

namespace {

using idem::token_outcome;
using test::effects;
using test::leave_effect;

const std::string kSubject = "it's \"me\"\\\n\xC3\xA9";
const std::string kScope = "sc'ope\\";

TEST(Tokens, EveryOutcomeOfACall) {
    idem::client db = test::make_client();
    const std::string token = issue_token(db, kSubject, std::chrono::minutes(1), kScope);
    EXPECT_EQ(token.size(), 82u);
    EXPECT_EQ(redeem_token(db, token, "mallory", kScope), token_outcome::invalid);
    EXPECT_EQ(redeem_token(db, token, kSubject), token_outcome::invalid);
    EXPECT_EQ(redeem_token(db, "it's no token", kSubject, kScope), token_outcome::invalid);
    idem::transact(db, [&](idem::transaction &tx) {
        EXPECT_EQ(redeem_token(tx, token, kSubject, kScope), token_outcome::accepted);
        EXPECT_EQ(redeem_token(db, token, kSubject, kScope), token_outcome::in_flight);
    });
    EXPECT_EQ(redeem_token(db, token, kSubject, kScope), token_outcome::duplicate);
    const std::string brief = issue_token(db, kSubject, std::chrono::milliseconds(1), kScope);
    EXPECT_TRUE(test::eventually([&] { return redeem_token(db, brief, kSubject, kScope) == token_outcome::expired; }));
    EXPECT_THROW(issue_token(db, kSubject, std::chrono::hours(24 * 8)), idem::bad_input);
    EXPECT_STREQ(name(token_outcome::in_flight), "in_flight");
}

TEST(Tokens, WorkThatFailsLeavesTheTokenGood) {
    idem::client db = test::make_client();
    const std::string token = issue_token(db, kSubject, std::chrono::minutes(1), kScope), key = test::unique_key();
    struct own_error {};
    EXPECT_THROW(with_token(db, token, kSubject, {{}, kScope}, [](idem::transaction &) { throw own_error(); }), own_error);
    const auto submit = [&](const std::string &subject) {
        return with_token(db, token, subject, {{}, kScope}, [&](idem::transaction &tx) { leave_effect(tx, key); });
    };
    EXPECT_EQ(submit("mallory"), token_outcome::invalid);
    EXPECT_EQ(submit(kSubject), token_outcome::accepted);
    EXPECT_EQ(submit(kSubject), token_outcome::duplicate);
    EXPECT_EQ(effects(key), 1);
}

TEST(Tokens, TokenInOtherHandsIsToldAtOnce) {
    idem::client db = test::make_client();
    const std::string token = issue_token(db);
    with_token(db, token, [&](idem::transaction &) {
        EXPECT_EQ(with_token(db, token, [](idem::transaction &) { ADD_FAILURE() << "the work ran twice"; }),
                  token_outcome::in_flight);
    });
}

// Redeeming never waits, so after a lost connection the flow may find its own earlier transaction. That one may end too soon
// for a test: another session takes its place, and ends when the flow has found it.
TEST(Tokens, OwnTransactionOfBeforeIsWaitedFor) {
    const std::string key = test::unique_key();
    idem::client_options named;
    named.dsn = "application_name=" + key;
    idem::client db = test::make_client(named);
    const std::string token = issue_token(db);
    pqxx::connection raw(test::dsn());
    std::optional<pqxx::work> lingering;
    std::future<void> end;
    idem::flow_options options;
    options.retry = idem::retry_policy{};
    options.retry->on_retry = [&](const idem::retry_event &) {
        lingering.emplace(raw);
        EXPECT_EQ(redeem_token(idem::target(db, *lingering), token), token_outcome::accepted);
        end = std::async(std::launch::async, [&] {
            EXPECT_TRUE(test::eventually([&] {
                return test::ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND query = 'ROLLBACK'",
                                 {key}) == "1";
            }));
            lingering.reset();
        });
    };
    int runs = 0;
    EXPECT_EQ(with_token(db, token, "", {options},
                         [&](idem::transaction &tx) {
                             leave_effect(tx, key);
                             if (++runs == 1)
                                 test::terminate(tx, true);
                         }),
              token_outcome::accepted);
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(effects(key), 1);
}

// The server then returns "expired" even for a token that this call has redeemed.
TEST(Tokens, LostCommitOfATokenThatRunsOutMeanwhileIsUnknown) {
    const std::string key = test::unique_key();
    idem::client db = test::make_client();
    const std::string token = issue_token(db, "", std::chrono::seconds(6)); // to be redeemed in
    idem::flow_options options;
    options.retry = idem::retry_policy{};
    options.retry->on_retry = [&](const idem::retry_event &) {
        EXPECT_TRUE(test::eventually([&] { return redeem_token(db, token) == token_outcome::expired; }));
    };
    std::future<void> gate;
    EXPECT_THROW(with_token(db, token, "", {options},
                            [&](idem::transaction &tx) {
                                leave_effect(tx, key);
                                gate = test::lose_commit_reply(tx);
                            }),
                 idem::outcome_unknown);
    gate.get();
    EXPECT_EQ(effects(key), 1);
    EXPECT_EQ(with_token(db, token, "", {options}, [](idem::transaction &) { ADD_FAILURE() << "the work ran twice"; }),
              token_outcome::expired);
}

} // namespace
