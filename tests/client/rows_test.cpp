// Row flows, case by case: outcomes, returned rows, conflicts and waits. transact_test.cpp tests the behaviour that they share
// with other flows.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <idem/once.hpp>
#include <idem/rows.hpp>

#include "scratch.hpp"

namespace {

using idem::row_outcome;
using test::effects;
using test::kOddColumn;
using test::kOddMember;
using test::leave_effect;
using test::scratch;

const idem::row kOne{{"id", 1}};
const idem::row kNine{{"id", 9}};
// As a member of a JSON object, and as stored in the database.
constexpr char kAwkward[] = R"("it's \\ \"q\"\n\t$1 @idem@ \u00e9 漢 ')";
constexpr char kAwkwardText[] = "it's \\ \"q\"\n\t$1 @idem@ \xC3\xA9 \xE6\xBC\xA2 '";

idem::row object(const std::string &member, const std::string &value) {
    return idem::json_text("{" + member + ": " + value + "}");
}
idem::row awkward() { return object(kOddMember, std::string(kAwkward) + "\""); }

bool contains(const std::optional<std::string> &row, const std::string &part) {
    return row && row->find(part) != std::string::npos;
}

class Rows : public testing::Test {
  protected:
    idem::client db_ = test::make_client();
    const scratch rows_;
    const std::string &table_ = rows_.table();
    const std::string key_ = test::unique_key();
};

TEST_F(Rows, OutcomesHaveTheServersWords) {
    EXPECT_STREQ(name(row_outcome::updated), "updated");
    EXPECT_STREQ(name(row_outcome::out_of_range), "out_of_range");
    EXPECT_STREQ(name(row_outcome::not_found), "not_found");
    EXPECT_STREQ(name(row_outcome::unchanged), "unchanged");
}

TEST_F(Rows, OptimisticUpdate) {
    const idem::row_result done = optimistic_update(db_, table_, kOne, 1, awkward());
    EXPECT_TRUE(done);
    EXPECT_EQ(done.outcome, row_outcome::updated);
    EXPECT_EQ(done.version, 2);
    EXPECT_TRUE(contains(done.row, "A-1"));
    EXPECT_EQ(rows_.value_of(kOddColumn, 1), kAwkwardText);
    const idem::row_result late = optimistic_update(db_, table_, kOne, 1, {{"kind", "lost"}});
    EXPECT_FALSE(late);
    EXPECT_EQ(late.outcome, row_outcome::conflict);
    EXPECT_EQ(late.version, 2);
    EXPECT_EQ(late.row, done.row);
    const idem::row_result none = optimistic_update(db_, table_, kNine, 1, {});
    EXPECT_EQ(none.outcome, row_outcome::not_found);
    EXPECT_FALSE(none.row || none.version);
}

TEST_F(Rows, ConditionalUpdate) {
    EXPECT_EQ(conditional_update(db_, table_, kOne, object(kOddMember, "null"), awkward()).outcome, row_outcome::updated);
    const idem::row_result late = conditional_update(db_, table_, kOne, object(kOddMember, "null"), {{"kind", "lost"}});
    EXPECT_EQ(late.outcome, row_outcome::conflict);
    EXPECT_TRUE(contains(late.row, "thing"));
    EXPECT_TRUE(conditional_update(db_, table_, kOne, awkward(), {{"kind", "found"}}));
    EXPECT_EQ(conditional_update(db_, table_, kNine, awkward(), {{"kind", "x"}}).outcome, row_outcome::not_found);
    EXPECT_EQ(rows_.value_of("kind", 1), "found");
}

TEST_F(Rows, LastUnitIsSoldOnce) {
    std::atomic<int> sold{0}, refused{0};
    std::vector<std::thread> buyers;
    for (int i = 0; i < 8; ++i)
        buyers.emplace_back([&] {
            const idem::adjust_result done = conditional_adjust(db_, table_, kOne, "quantity", "-1");
            EXPECT_EQ(done.value, "0");
            ++(done ? sold : refused);
        });
    for (std::thread &each : buyers)
        each.join();
    EXPECT_EQ(sold, 1);
    EXPECT_EQ(refused, 7);
    EXPECT_EQ(rows_.value_of("quantity", 1), "0");
}

TEST_F(Rows, AdjustIsExactAndBounded) {
    const std::string much = "123456789012345678901234567890.000000000000000000001";
    EXPECT_EQ(conditional_adjust(db_, table_, kOne, "quantity", much).value,
              "123456789012345678901234567891.000000000000000000001");
    EXPECT_EQ(conditional_adjust(db_, table_, {{"id", 2}}, "quantity", "1", {"0", "5"}).outcome, row_outcome::out_of_range);
    EXPECT_EQ(conditional_adjust(db_, table_, {{"id", 2}}, "quantity", "-9", {std::nullopt, "5"}).value, "-4");
    EXPECT_EQ(conditional_adjust(db_, table_, kNine, "quantity", "1").outcome, row_outcome::not_found);
    EXPECT_THROW(conditional_adjust(db_, table_, kOne, "quantity", "1; DROP TABLE x"), idem::bad_input);
}

TEST_F(Rows, LocksTellBusyFromMissing) {
    idem::transact(db_, [&](idem::transaction &tx) {
        EXPECT_EQ(pessimistic_lock(tx, table_, kOne).outcome, row_outcome::locked);
        idem::transact(db_, [&](idem::transaction &other) {
            EXPECT_EQ(pessimistic_lock(other, table_, kOne, idem::duration(0)).outcome, row_outcome::busy);
            EXPECT_EQ(pessimistic_lock(other, table_, kNine, idem::duration(0)).outcome, row_outcome::not_found);
            const std::vector<idem::row_result> many =
                pessimistic_lock_many(other, table_, {{{"sku", "A-2"}}, kOne, kNine}, idem::duration(0));
            ASSERT_EQ(many.size(), 3u);
            EXPECT_EQ(many[0].outcome, row_outcome::locked);
            EXPECT_TRUE(contains(many[0].row, "A-2"));
            EXPECT_EQ(many[1].outcome, row_outcome::busy);
            EXPECT_EQ(many[2].outcome, row_outcome::not_found);
        });
    });
}

TEST_F(Rows, InsertsTellNewFromDuplicate) {
    const idem::row row{{"id", 3}, {"sku", "it's \"3\"\\"}, {"it's a \"col\\umn\" n\xC3\xA9", kAwkwardText}};
    const idem::row_result fresh = unique_insert(db_, table_, row);
    EXPECT_EQ(fresh.outcome, row_outcome::inserted);
    EXPECT_EQ(rows_.value_of(kOddColumn, 3), kAwkwardText);
    const idem::row_result again = unique_insert(db_, table_, {{"id", 4}, {"sku", "it's \"3\"\\"}}, {"sku"});
    EXPECT_EQ(again.outcome, row_outcome::duplicate);
    EXPECT_EQ(again.row, fresh.row);
    EXPECT_THROW(unique_insert(db_, table_, {{"id", 4}, {"sku", "A-1"}}), idem::bad_input);
    const idem::row rare{{"id", 5}, {"sku", "A-5"}, {"kind", "it's, {\"rare\"}"}};
    EXPECT_EQ(guarded_insert(db_, table_, rare, {"kind"}).outcome, row_outcome::inserted);
    EXPECT_EQ(guarded_insert(db_, table_, {{"id", 6}, {"sku", "A-6"}, {"kind", "it's, {\"rare\"}"}}, {"kind"}).outcome,
              row_outcome::duplicate);
    // A column name that needs quoting is passed unchanged: the column is found, and has no unique index.
    try {
        unique_insert(db_, table_, row, {"it's a \"col\\umn\" n\xC3\xA9"});
        ADD_FAILURE() << "it is no key";
    } catch (const idem::bad_input &e) {
        EXPECT_EQ(e.sqlstate(), "42P10");
    }
}

TEST_F(Rows, UniqueWaitsForAnUncommittedRival) {
    const auto race = [&](bool commits) {
        pqxx::connection raw(test::dsn());
        std::optional<pqxx::work> rival;
        rival.emplace(raw);
        const idem::row row{{"id", commits ? 8 : 7}, {"sku", commits ? "A-8" : "A-7"}};
        unique_insert(idem::target(db_, *rival), table_, row);
        const std::string pid = rival->exec("SELECT pg_backend_pid()")[0][0].c_str();
        std::future<idem::row_result> waiting = std::async(std::launch::async, [&] {
            return idem::unique(db_, table_, row, [&](idem::transaction &tx, const std::string &) { leave_effect(tx, key_); });
        });
        EXPECT_TRUE(test::eventually([&] {
            return test::ask("SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))", {pid}) == "1";
        }));
        if (commits)
            rival->commit();
        rival.reset();
        return waiting.get().outcome;
    };
    EXPECT_EQ(race(true), row_outcome::duplicate);
    EXPECT_EQ(effects(key_), 0);
    EXPECT_EQ(race(false), row_outcome::inserted);
    EXPECT_EQ(effects(key_), 1);
}

TEST_F(Rows, FlowsDoNotRunTheWorkWhereTheStepDidNotHappen) {
    const auto never = [&](idem::transaction &, const std::string &) { ADD_FAILURE() << "the work ran"; };
    EXPECT_EQ(idem::conditional(db_, table_, kOne, {{"kind", "x"}}, {{"kind", "y"}}, never).outcome, row_outcome::conflict);
    EXPECT_EQ(idem::conditional(db_, table_, kNine, {{"kind", "x"}}, {{"kind", "y"}}, never).outcome, row_outcome::not_found);
    EXPECT_EQ(idem::unique(db_, table_, {{"id", 1}, {"sku", "x"}}, never).outcome, row_outcome::duplicate);
    EXPECT_EQ(idem::optimistic(db_, table_, kNine,
                               [&](idem::transaction &, const std::string &) -> std::optional<idem::row> {
                                   ADD_FAILURE() << "the work ran";
                                   return {};
                               })
                  .outcome,
              row_outcome::not_found);
    EXPECT_EQ(idem::optimistic(db_, table_, kNine,
                               [&](const std::string &) -> std::optional<idem::row> {
                                   ADD_FAILURE() << "the work ran";
                                   return {};
                               })
                  .outcome,
              row_outcome::not_found);
}

TEST_F(Rows, FlowsHandOverTheRow) {
    idem::conditional(db_, table_, kOne, {{"kind", "thing"}}, {{"kind", "changed"}},
                      [&](idem::transaction &, const std::string &row) { EXPECT_TRUE(contains(row, "changed")) << row; });
    idem::unique(db_, table_, {{"id", 3}, {"sku", "A-3"}},
                 [&](idem::transaction &, const std::string &row) { EXPECT_TRUE(contains(row, "A-3")) << row; });
    idem::pessimistic(db_, table_, kOne,
                      [&](idem::transaction &, const std::string &row) { EXPECT_TRUE(contains(row, "changed")) << row; });
}

TEST_F(Rows, PessimisticThrowsBusyAndNotFound) {
    const auto never = [&](idem::transaction &, const std::string &) { ADD_FAILURE() << "the work ran"; };
    idem::transact(db_, [&](idem::transaction &tx) {
        pessimistic_lock(tx, table_, kOne);
        try {
            idem::pessimistic(db_, table_, kOne, idem::duration(10), never);
            ADD_FAILURE() << "it is locked";
        } catch (const idem::busy &e) {
            EXPECT_EQ(e.sqlstate(), "55P03");
            EXPECT_EQ(e.key(), kOne.json());
        }
    });
    try {
        idem::pessimistic(db_, table_, kNine, never);
        ADD_FAILURE() << "there is none";
    } catch (const idem::not_found &e) {
        EXPECT_EQ(e.sqlstate(), "P0002");
    }
}

TEST_F(Rows, PessimisticQueues) {
    std::vector<std::thread> workers;
    for (int i = 0; i < 8; ++i)
        workers.emplace_back([&] {
            for (int j = 0; j < 10; ++j)
                idem::pessimistic(db_, table_, {{"id", 2}}, [&](idem::transaction &tx, const std::string &) {
                    const std::string now = tx.exec("SELECT quantity FROM " + table_ + " WHERE id = 2")[0][0].c_str();
                    tx.exec("UPDATE " + table_ + " SET quantity = " + now + " + 1 WHERE id = 2");
                });
        });
    for (std::thread &each : workers)
        each.join();
    EXPECT_EQ(rows_.value_of("quantity", 2), "85");
}

// Not a JSON parser, but sufficient for one number.
int number_in(const std::string &row, const std::string &member) {
    return std::stoi(row.substr(row.find("\"" + member + "\": ") + member.size() + 4));
}

class OptimisticSum : public Rows, public testing::WithParamInterface<bool> {};

TEST_P(OptimisticSum, EightTimesFiftyIncrementsAreFourHundred) {
    idem::flow_options options;
    options.retry = idem::retry_policy{};
    options.retry->attempts = 10'000;
    options.retry->longest_pause = std::chrono::milliseconds(20);
    std::atomic<int> conflicts{0};
    options.retry->on_retry = [&](const idem::retry_event &event) {
        EXPECT_EQ(event.sqlstate, "ID004");
        ++conflicts;
    };
    std::vector<std::thread> workers;
    for (int i = 0; i < 8; ++i)
        workers.emplace_back([&] {
            const auto next = [](const std::string &row) { return idem::row{{"quantity", number_in(row, "quantity") + 1}}; };
            for (int j = 0; j < 50; ++j) {
                const idem::row_result done = GetParam() ? idem::optimistic(db_, table_, kOne, options,
                                                                            [&](idem::transaction &tx, const std::string &row) {
                                                                                leave_effect(tx, key_);
                                                                                return next(row);
                                                                            })
                                                         : idem::optimistic(db_, table_, kOne, options, next);
                EXPECT_TRUE(done);
            }
        });
    for (std::thread &each : workers)
        each.join();
    EXPECT_EQ(rows_.value_of("quantity", 1), "401");
    EXPECT_EQ(rows_.value_of("version", 1), "401");
    EXPECT_EQ(effects(key_), GetParam() ? 400 : 0);
    EXPECT_GT(conflicts, 0) << "there was never a conflict";
}

INSTANTIATE_TEST_SUITE_P(, OptimisticSum, testing::Bool(),
                         [](const auto &each) { return std::string(each.param ? "InOneTransaction" : "Alone"); });

TEST_F(Rows, OptimisticConflictBringsTheRowAlong) {
    std::vector<std::string> seen;
    const idem::row_result done = idem::optimistic(db_, table_, kOne, [&](const std::string &row) {
        if (seen.empty())
            test::ask("UPDATE " + table_ + " SET kind = 'sudden' WHERE id = 1");
        seen.push_back(row);
        return awkward();
    });
    EXPECT_EQ(done.outcome, row_outcome::updated);
    EXPECT_EQ(done.version, 3);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_TRUE(contains(seen[1], "sudden"));
    EXPECT_EQ(rows_.value_of(kOddColumn, 1), kAwkwardText);
}

TEST_F(Rows, OptimisticConflictRollsTheWorkBack) {
    int runs = 0;
    const idem::row_result done = idem::optimistic(db_, table_, kOne, [&](idem::transaction &tx, const std::string &) {
        leave_effect(tx, key_);
        if (++runs == 1)
            test::ask("UPDATE " + table_ + " SET kind = 'sudden' WHERE id = 1");
        return idem::row{{"sku", "mine"}};
    });
    EXPECT_EQ(done.outcome, row_outcome::updated);
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(effects(key_), 1);
    EXPECT_EQ(rows_.value_of("kind", 1), "sudden");
}

TEST_F(Rows, OptimisticRowThatVanishesKeepsNothing) {
    const idem::row_result done = idem::optimistic(db_, table_, kOne, [&](idem::transaction &tx, const std::string &) {
        leave_effect(tx, key_);
        test::ask("DELETE FROM " + table_ + " WHERE id = 1");
        return idem::row{{"sku", "mine"}};
    });
    EXPECT_EQ(done.outcome, row_outcome::not_found);
    EXPECT_EQ(effects(key_), 0);
}

TEST_F(Rows, OptimisticGivesUpWithStaleVersion) {
    idem::flow_options options;
    options.retry = idem::retry_policy{};
    options.retry->attempts = 3;
    int runs = 0;
    const auto disturb = [&] {
        ++runs;
        test::ask("UPDATE " + table_ + " SET kind = 'sudden' WHERE id = 1");
        return idem::row();
    };
    EXPECT_THROW(idem::optimistic(db_, table_, kOne, options, [&](const std::string &) { return disturb(); }),
                 idem::stale_version);
    EXPECT_EQ(runs, 3);
    EXPECT_THROW(
        idem::optimistic(db_, table_, kOne, options, [&](idem::transaction &, const std::string &) { return disturb(); }),
        idem::stale_version);
    EXPECT_EQ(runs, 6);
}

TEST_F(Rows, OptimisticMayLeaveTheRowAlone) {
    const idem::row_result left =
        idem::optimistic(db_, table_, kOne, [](const std::string &) { return std::optional<idem::row>(); });
    EXPECT_EQ(left.outcome, row_outcome::unchanged);
    EXPECT_EQ(left.version, 1);
    EXPECT_EQ(rows_.value_of("version", 1), "1");
    const idem::row_result unchanged = idem::optimistic(db_, table_, kOne, [&](idem::transaction &tx, const std::string &) {
        leave_effect(tx, key_);
        return std::optional<idem::row>();
    });
    EXPECT_EQ(unchanged.outcome, row_outcome::unchanged);
    EXPECT_EQ(effects(key_), 1);
}

TEST_F(Rows, OptimisticWithoutTransactionPassesErrorsOn) {
    struct own_error {};
    EXPECT_THROW(idem::optimistic(db_, table_, kOne, [](const std::string &) -> idem::row { throw own_error(); }), own_error);
    EXPECT_THROW(idem::optimistic(db_, table_, kOne,
                                  [](const std::string &) {
                                      return idem::row{{"quantity", "x"}};
                                  }),
                 idem::bad_input);
}

TEST_F(Rows, TableWithoutVersionIsAnError) {
    test::ask("SELECT idem.optimistic_disable($1::regclass)", {table_});
    try {
        optimistic_update(db_, table_, kOne, 1, {});
        ADD_FAILURE() << "it has no version";
    } catch (const idem::error &e) {
        EXPECT_EQ(e.sqlstate(), "55000");
    }
}

TEST_F(Rows, ComposeInsideOnceAllOrNothing) {
    struct own_error {};
    bool fails = true;
    const auto buy = [&] {
        return idem::once(db_, idem::request{key_}, [&](idem::transaction &tx) {
            EXPECT_TRUE(conditional_adjust(tx, table_, kOne, "quantity", "-1"));
            EXPECT_TRUE(unique_insert(tx, table_, {{"id", 3}, {"sku", "A-3"}}));
            EXPECT_TRUE(optimistic_update(tx, table_, {{"id", 2}}, 1, {{"kind", "sold with"}}));
            EXPECT_TRUE(pessimistic_lock(tx, table_, kOne));
            leave_effect(tx, key_);
            if (fails)
                throw own_error();
        });
    };
    EXPECT_THROW(buy(), own_error);
    EXPECT_EQ(rows_.value_of("quantity", 1), "1");
    EXPECT_EQ(rows_.value_of("kind", 2), "thing");
    EXPECT_EQ(rows_.count(), "2");
    EXPECT_EQ(effects(key_), 0);
    fails = false;
    EXPECT_FALSE(buy().replayed);
    EXPECT_TRUE(buy().replayed);
    EXPECT_EQ(rows_.value_of("quantity", 1), "0");
    EXPECT_EQ(rows_.count(), "3");
    EXPECT_EQ(effects(key_), 1);
}

TEST_F(Rows, WorkInATransactionOfLibpqxxsOwn) {
    pqxx::connection raw(test::dsn());
    {
        pqxx::work tx(raw);
        EXPECT_TRUE(conditional_update(idem::target(db_, tx), table_, kOne, {{"kind", "thing"}}, awkward()));
        EXPECT_EQ(conditional_adjust(idem::target(db_, tx), table_, kOne, "quantity", "-1").value, "0");
    }
    EXPECT_EQ(rows_.value_of("quantity", 1), "1");
}

} // namespace
