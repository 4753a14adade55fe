// The common behaviour of all flows that are one transaction, under the same faults. Each flow's own behaviour has a file of
// its own.
#include <gtest/gtest.h>

#include <idem/once.hpp>
#include <idem/tokens.hpp>

#include <string_view>

#include "flows.hpp"
#include "proxy.hpp"
#include "scratch.hpp"

namespace {

using test::effects;
using test::leave_effect;
using test::lose_commit_reply;
using test::rival;
using test::scratch;
using test::terminate;
using test::unique_key;

using work = test::flow_work;

class EveryFlow : public testing::TestWithParam<test::transaction_flow> {
  protected:
    std::string run(const work &w, const idem::flow_options &options = {}) { return GetParam().run(db_, here_, w, options); }
    /// Runs the flow again: its step and its work take effect.
    void expect_untouched() {
        EXPECT_EQ(run([&](idem::transaction &tx) { leave_effect(tx, key_); }), GetParam().first);
        EXPECT_EQ(effects(key_), 1);
    }

    idem::client db_ = test::make_client();
    const scratch rows_;
    const std::string key_ = unique_key();
    const test::flow_setting here_{rows_, unique_key("it's \\ \"odd\"\n\xC3\xA9:"), idem::issue_token(db_, "me")};
    int runs_ = 0;
};

TEST_P(EveryFlow, FirstCommitsStepAndWorkAndASecondDoesNot) {
    const auto both = [&] { return run([&](idem::transaction &tx) { leave_effect(tx, key_); }); };
    EXPECT_EQ(both(), GetParam().first);
    EXPECT_EQ(effects(key_), 1);
    if (std::string("again") == GetParam().second) {
        EXPECT_EQ(both(), GetParam().first);
        EXPECT_EQ(effects(key_), 2);
    } else {
        EXPECT_EQ(both(), GetParam().second);
        EXPECT_EQ(effects(key_), 1);
    }
}

TEST_P(EveryFlow, ErrorInTheWorkRollsEverythingBack) {
    struct own_error {};
    EXPECT_THROW(run([&](idem::transaction &tx) {
                     ++runs_;
                     leave_effect(tx, key_);
                     throw own_error();
                 }),
                 own_error);
    EXPECT_EQ(runs_, 1);
    EXPECT_EQ(effects(key_), 0);
    expect_untouched();
}

TEST_P(EveryFlow, ErrorOfAStatementIsNotRetried) {
    EXPECT_THROW(run([&](idem::transaction &tx) {
                     ++runs_;
                     leave_effect(tx, key_);
                     tx.exec("SELECT 1/0");
                 }),
                 pqxx::sql_error);
    EXPECT_EQ(runs_, 1);
    expect_untouched();
}

TEST_P(EveryFlow, SwallowedErrorIsNoCommit) {
    EXPECT_THROW(run([&](idem::transaction &tx) {
                     leave_effect(tx, key_);
                     try {
                         tx.exec("SELECT 1/0");
                     } catch (const pqxx::sql_error &) {
                     }
                 }),
                 idem::rolled_back);
    EXPECT_EQ(effects(key_), 0);
    expect_untouched();
}

TEST_P(EveryFlow, RollbackAsAStatementIsNoSuccess) {
    EXPECT_THROW(run([&](idem::transaction &tx) {
                     leave_effect(tx, key_);
                     tx.exec("ROLLBACK");
                 }),
                 pqxx::usage_error);
    EXPECT_EQ(effects(key_), 0);
    expect_untouched();
}

TEST_P(EveryFlow, SerializationFailureIsRetried) {
    if (GetParam().name == std::string_view{"guarded"})
        NEEDS_C_EDITION("has no guarded_insert under REPEATABLE READ (0A000)");
    idem::flow_options options;
    options.level = idem::isolation::repeatable_read;
    std::vector<std::string> told;
    options.retry = db_.options().retry;
    options.retry->on_retry = [&](const idem::retry_event &event) { told.push_back(event.sqlstate); };
    EXPECT_EQ(run(
                  [&](idem::transaction &tx) {
                      leave_effect(tx, key_);
                      tx.exec("SELECT FROM " + rows_.table()); // takes a snapshot, where the step took none
                      if (++runs_ == 1)
                          test::ask("UPDATE " + rows_.table() + " SET quantity = 9 WHERE id = 2");
                      tx.exec("UPDATE " + rows_.table() + " SET quantity = quantity + 1 WHERE id = 2");
                  },
                  options),
              GetParam().first);
    EXPECT_EQ(runs_, 2);
    EXPECT_EQ(told, std::vector<std::string>{"40001"});
    EXPECT_EQ(effects(key_), 1);
    EXPECT_EQ(rows_.value_of("quantity", 2), "10");
}

TEST_P(EveryFlow, RetriesEndWithTheError) {
    if (GetParam().name == std::string_view{"guarded"})
        NEEDS_C_EDITION("has no guarded_insert under REPEATABLE READ (0A000)");
    idem::flow_options options;
    options.level = idem::isolation::repeatable_read;
    options.retry = idem::retry_policy{};
    options.retry->attempts = 2;
    try {
        run(
            [&](idem::transaction &tx) {
                ++runs_;
                tx.exec("SELECT FROM " + rows_.table());
                test::ask("UPDATE " + rows_.table() + " SET quantity = 9 WHERE id = 2");
                tx.exec("UPDATE " + rows_.table() + " SET quantity = quantity + 1 WHERE id = 2");
            },
            options);
        FAIL() << "it returned";
    } catch (const std::exception &e) {
        EXPECT_EQ(idem::judge(std::current_exception()), idem::verdict::transient) << e.what();
    }
    EXPECT_EQ(runs_, 2);
    expect_untouched();
}

TEST_P(EveryFlow, DeadlockIsRetried) {
    std::optional<rival> other;
    idem::flow_options options;
    options.retry = db_.options().retry;
    options.retry->on_retry = [&](const idem::retry_event &event) {
        EXPECT_EQ(event.sqlstate, "40P01");
        other.reset(); // waits until it has locked both rows
    };
    EXPECT_EQ(run(
                  [&](idem::transaction &tx) {
                      leave_effect(tx, key_);
                      tx.exec("SELECT FROM " + rows_.table() + " WHERE id = 1 FOR UPDATE");
                      if (++runs_ == 1) {
                          tx.exec("SET LOCAL deadlock_timeout = '10ms'");
                          other.emplace(rows_.table());
                      }
                      tx.exec("SELECT FROM " + rows_.table() + " WHERE id = 2 FOR UPDATE");
                  },
                  options),
              GetParam().first);
    EXPECT_EQ(runs_, 2);
    EXPECT_EQ(effects(key_), 1);
}

TEST_P(EveryFlow, TerminatedInTheWorkRunsAgain) {
    EXPECT_EQ(run([&](idem::transaction &tx) {
                  leave_effect(tx, key_);
                  if (++runs_ == 1)
                      tx.exec("SELECT pg_terminate_backend(pg_backend_pid())");
              }),
              GetParam().first);
    EXPECT_EQ(runs_, 2);
    EXPECT_EQ(effects(key_), 1);
}

TEST_P(EveryFlow, TerminatedAndSwallowedRunsAgain) {
    EXPECT_EQ(run([&](idem::transaction &tx) {
                  leave_effect(tx, key_);
                  if (++runs_ == 1) {
                      EXPECT_ANY_THROW(terminate(tx, true));
                  }
              }),
              GetParam().first);
    EXPECT_EQ(runs_, 2);
    EXPECT_EQ(effects(key_), 1);
}

// The loss has not been noticed when COMMIT is to be sent.
TEST_P(EveryFlow, TerminatedBehindTheWorkRunsAgain) {
    EXPECT_EQ(run([&](idem::transaction &tx) {
                  leave_effect(tx, key_);
                  if (++runs_ == 1)
                      terminate(tx, false);
              }),
              GetParam().first);
    EXPECT_EQ(runs_, 2);
    EXPECT_EQ(effects(key_), 1);
}

TEST_P(EveryFlow, CommitWhoseReplyWasLostHasOneEffect) {
    std::future<void> gate;
    const auto call = [&] {
        return run([&](idem::transaction &tx) {
            leave_effect(tx, key_);
            ++runs_;
            gate = lose_commit_reply(tx);
        });
    };
    if (GetParam().unknown == nullptr) {
        EXPECT_THROW(call(), idem::outcome_unknown);
    } else {
        EXPECT_EQ(call(), GetParam().unknown);
    }
    gate.get();
    EXPECT_EQ(runs_, 1);
    EXPECT_TRUE(test::eventually([&] { return effects(key_) == 1; }));
}

// COMMIT never arrived. When a flow has verified that, no later error of it is outcome_unknown.
TEST_P(EveryFlow, AStepThatHappensAgainResolvesAnUnknownCommit) {
    if (GetParam().unknown == nullptr)
        return; // it cannot verify the outcome
    test::proxy between;
    idem::client_options through;
    through.dsn = between.dsn();
    idem::client db = test::make_client(through);
    idem::flow_options twice;
    twice.retry = idem::retry_policy{};
    twice.retry->attempts = 2;
    const auto call = [&] {
        GetParam().run(
            db, here_,
            [&](idem::transaction &tx) {
                leave_effect(tx, key_);
                if (++runs_ == 2)
                    throw idem::transient("40001", "once more");
                between.arm({test::side::frontend, 1, test::moment::before, {}});
            },
            twice);
    };
    EXPECT_THROW(call(), idem::transient);
    EXPECT_TRUE(between.has_cut());
    EXPECT_EQ(runs_, 2);
    EXPECT_EQ(effects(key_), 0);
}

TEST_P(EveryFlow, TroubleOfAnotherConnectionIsTheWorksOwn) {
    EXPECT_THROW(run([&](idem::transaction &) {
                     ++runs_;
                     throw idem::outcome_unknown("08007", "elsewhere");
                 }),
                 idem::outcome_unknown);
    EXPECT_THROW(run([&](idem::transaction &) {
                     ++runs_;
                     throw idem::connection_lost("08006", "elsewhere");
                 }),
                 idem::connection_lost);
    EXPECT_EQ(runs_, 2);
    expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(Flows, EveryFlow, testing::ValuesIn(test::transaction_flows()),
                         [](const auto &each) { return std::string(each.param.name); });

TEST(Transact, ReturnsWhatTheWorkReturned) {
    idem::client db = test::make_client();
    EXPECT_EQ(idem::transact(db, [](idem::transaction &tx) { return tx.exec("SELECT 7")[0][0].as<int>(); }), 7);
    const auto one = idem::transact(db, [](idem::transaction &) { return std::make_unique<int>(1); });
    EXPECT_EQ(*one, 1);
    idem::transact(db, [](idem::transaction &) {});
}

TEST(Transact, CommitOfTheWorksOwnIsRefused) {
    idem::client db = test::make_client();
    EXPECT_THROW(idem::transact(db, [](idem::transaction &tx) { tx.commit(); }), pqxx::usage_error);
}

TEST(Transact, ZeroByteIsRefusedBeforeItIsSent) {
    idem::client db = test::make_client();
    const std::string split("a\0b", 3);
    EXPECT_THROW(idem::redeem_token(db, split), idem::bad_input);
    pqxx::connection raw(test::dsn());
    pqxx::work own(raw);
    EXPECT_THROW(idem::redeem_token(idem::target(db, own), split), idem::bad_input);
    EXPECT_THROW(idem::once(db, idem::request{split}, [](idem::transaction &) {}), idem::bad_input);
}

} // namespace
