// Steps of leased work: what is done is not repeated, and what may have happened is asked about.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <idem/leased.hpp>
#include <idem/transact.hpp>

#include "server.hpp"

namespace {

using namespace std::chrono_literals;
using idem::step_fate;
using test::ask;
using test::unique_key;

struct failure {};

class Step : public testing::Test {
  protected:
    template <typename F> idem::answer attempt(F &&work) {
        return idem::leased(db_, idem::request{key_}.lease(20s), std::forward<F>(work));
    }
    std::string steps() { return ask("SELECT steps::text FROM idem.idem_lookup($1)", {key_}); }

    idem::client db_ = test::make_client();
    const std::string key_ = unique_key();
    int acted_ = 0, asked_ = 0;
};

TEST_F(Step, DoneIsNotRepeated) {
    const auto work = [&](idem::lease &lease) {
        const std::string charge = lease.step("charge", [&] {
            ++acted_;
            return R"({"id":7})";
        });
        EXPECT_EQ(charge, R"({"id": 7})");
        if (lease.attempt() == 1)
            throw failure{};
        EXPECT_EQ(lease.steps(), R"({"charge": {"id": 7}})");
        return charge;
    };
    EXPECT_THROW(attempt(work), failure);
    EXPECT_EQ(attempt(work).response, R"({"id": 7})");
    EXPECT_EQ(acted_, 1);
}

// A worker that was suspended until its lease had run out, and its key's retention was over, still holds the key.
TEST_F(Step, DoneIsKnownWhenTheRetentionIsOver) {
    const auto suspend = [&] {
        ask("UPDATE idem.idem_keys SET expires_at = clock_timestamp() - interval '1 s', lease_until = clock_timestamp() - "
            "interval "
            "'1 s' WHERE key = $1 RETURNING key",
            {key_});
    };
    attempt([&](idem::lease &lease) {
        const auto charge = [&] { lease.step("charge", [&] { ++acted_; }); };
        const auto book = [&] {
            idem::transact(db_, [&](idem::transaction &tx) {
                lease.step(tx, "book", [&] { ++acted_; });
                lease.step(tx, "count", [&] { ++acted_; });
            });
        };
        charge();
        book();
        EXPECT_EQ(acted_, 3);
        suspend();
        charge();
        suspend();
        book();
    });
    EXPECT_EQ(acted_, 3);
}

TEST_F(Step, DoneInThisAttemptIsNotRepeatedEither) {
    attempt([&](idem::lease &lease) {
        for (int i = 0; i < 2; ++i)
            EXPECT_EQ(lease.step("mail", [&] { ++acted_; }), "{}");
    });
    EXPECT_EQ(acted_, 1);
}

TEST_F(Step, IntendedIsAskedAbout) {
    const auto fails = [&](idem::lease &lease) {
        lease.step("charge", [&] {
            EXPECT_EQ(steps(), R"({"charge": null})") << "the intention is stored before the step is taken";
            ++acted_;
            throw failure{};
        });
    };
    EXPECT_THROW(attempt(fails), failure);
    const auto never = [&]() -> std::string {
        ADD_FAILURE() << "the step has happened";
        return "0";
    };
    attempt([&](idem::lease &lease) {
        EXPECT_EQ(lease.step("charge", never,
                             [&] {
                                 ++asked_;
                                 return step_fate::done(R"({"id": 8})");
                             }),
                  R"({"id": 8})");
        EXPECT_EQ(lease.step("charge", never, [&]() -> step_fate { throw failure{}; }), R"({"id": 8})");
    });
    EXPECT_EQ(asked_, 1);
    EXPECT_EQ(steps(), R"({"charge": {"id": 8}})");
}

TEST_F(Step, NotDoneIsTaken) {
    const auto work = [&](idem::lease &lease) {
        return lease.step(
            "charge",
            [&]() -> std::string {
                if (++acted_ == 1)
                    throw failure{};
                return "2";
            },
            [&] {
                ++asked_;
                return step_fate::not_done();
            });
    };
    EXPECT_THROW(attempt(work), failure);
    EXPECT_EQ(asked_, 0) << "the first attempt has nothing to ask";
    EXPECT_EQ(attempt(work).response, "2");
    EXPECT_EQ(asked_, 1);
}

TEST_F(Step, WithoutReconcileItIsTakenAgain) {
    const auto work = [&](idem::lease &lease) {
        lease.step("mail", [&] {
            if (++acted_ == 1)
                throw failure{};
        });
    };
    EXPECT_THROW(attempt(work), failure);
    attempt(work);
    EXPECT_EQ(acted_, 2);
}

TEST_F(Step, UnknownIsInDoubtAndTheKeyIsKept) {
    const auto work = [&](idem::lease &lease) {
        lease.step(
            "charge", [&] { ++acted_, throw failure{}; }, [] { return step_fate::unknown(); });
    };
    EXPECT_THROW(attempt(work), failure);
    try {
        attempt(work);
        ADD_FAILURE();
    } catch (const idem::in_doubt &e) {
        EXPECT_EQ(e.key(), key_);
    }
    EXPECT_EQ(acted_, 1);
    EXPECT_EQ(ask("SELECT state FROM idem.idem_lookup($1)", {key_}), "in_progress");
    EXPECT_THROW(attempt(work), idem::in_flight);
}

TEST_F(Step, OfATransactionCommitsWithIt) {
    const auto book = [&](idem::lease &lease, bool fails) {
        idem::transact(db_, [&](idem::transaction &tx) {
            EXPECT_EQ(lease.step(tx, "book",
                                 [&] {
                                     ++acted_;
                                     test::leave_effect(tx, key_);
                                     return "1";
                                 }),
                      "1");
            if (fails)
                throw failure{};
        });
    };
    EXPECT_THROW(attempt([&](idem::lease &lease) { book(lease, true); }), failure);
    EXPECT_EQ(test::effects(key_), 0);
    EXPECT_EQ(steps(), "");
    EXPECT_THROW(attempt([&](idem::lease &lease) {
                     book(lease, false);
                     throw failure{};
                 }),
                 failure);
    attempt([&](idem::lease &lease) { book(lease, false); });
    EXPECT_EQ(test::effects(key_), 1);
    EXPECT_EQ(acted_, 2);
}

TEST_F(Step, OfAHolderThatWasTakenOverIsRefused) {
    EXPECT_THROW(attempt([&](idem::lease &lease) {
                     lease.step("charge", [&] {
                         ask("SELECT idem.idem_forget($1)", {key_});
                         return "1";
                     });
                 }),
                 idem::lease_lost);
}

TEST_F(Step, NullIsNoOutputAndTooMuchIsAnError) {
    attempt([&](idem::lease &lease) {
        EXPECT_THROW(lease.step("a", [] { return "null"; }), idem::bad_input);
        EXPECT_THROW(lease.step("", [] {}), idem::bad_input);
        try {
            lease.step("b", [] {
                std::string large(3'000'000, 'x');
                large.front() = large.back() = '"';
                return large;
            });
            ADD_FAILURE();
        } catch (const idem::error &e) {
            EXPECT_EQ(e.sqlstate(), "54000");
        }
        EXPECT_EQ(steps(), R"({"a": null, "b": null})");
    });
}

/// An error that says that the work was done, of this SQLSTATE.
template <typename F> void expect_done_but_unstored(F &&call, const std::string &sqlstate, const std::string &what) {
    try {
        call();
        ADD_FAILURE() << "no exception";
    } catch (const idem::error &e) {
        EXPECT_EQ(e.sqlstate(), sqlstate);
        EXPECT_EQ(std::string(e.what()).rfind(what + " was done, but its ", 0), 0U) << e.what();
    }
}

// No output, and no response, but the first is a text that a JSON string may be.
const std::vector<std::pair<std::string, std::string>> kUnstorable{{"ch_17", "22P02"},
                                                                   {std::string("\"\0\"", 3), "22021"},
                                                                   {"\"\xFF\"", "22021"},
                                                                   {"{\"\\u0000\": tru}", "22P02"},
                                                                   {"1e200000", "22003"}};

// The step has happened: a release would let the next caller take it again.
TEST_F(Step, OutputThatCannotBeStoredKeepsTheKey) {
    auto cases = kUnstorable;
    cases.emplace_back("null", "22023");
    cases.emplace_back('"' + std::string(3'000'000, 'x') + '"', "54000");
    for (const auto &[output, sqlstate] : cases) {
        const std::string key = unique_key();
        int acted = 0;
        const auto charge = [&, text = output] {
            return idem::leased(db_, idem::request{key}.lease(20s), [&](idem::lease &lease) {
                lease.step("charge", [&] {
                    ++acted;
                    return text;
                });
            });
        };
        expect_done_but_unstored(charge, sqlstate, "step \"charge\" of key \"" + key + '"');
        EXPECT_EQ(ask("SELECT state FROM idem.idem_lookup($1)", {key}), "in_progress") << sqlstate;
        EXPECT_THROW(charge(), idem::in_flight);
        EXPECT_EQ(acted, 1);
    }
}

TEST_F(Step, OutputThatCannotBeStoredKeepsTheKeyInATransactionToo) {
    for (const auto &[output, sqlstate] : kUnstorable) {
        const std::string key = unique_key();
        const auto book = [&, text = output] {
            return idem::leased(db_, idem::request{key}.lease(20s), [&](idem::lease &lease) {
                idem::transact(db_, [&](idem::transaction &tx) { lease.step(tx, "book", [&] { return text; }); });
            });
        };
        expect_done_but_unstored(book, sqlstate, "step \"book\" of key \"" + key + '"');
        EXPECT_THROW(book(), idem::in_flight) << sqlstate;
    }
}

TEST_F(Step, ReconciledOutputThatCannotBeStoredKeepsTheKey) {
    const auto work = [&](idem::lease &lease) {
        lease.step(
            "charge", [&] { ++acted_, throw failure{}; }, [] { return step_fate::done("ch_17"); });
    };
    EXPECT_THROW(attempt(work), failure);
    expect_done_but_unstored([&] { attempt(work); }, "22P02", "step \"charge\" of key \"" + key_ + '"');
    EXPECT_THROW(attempt(work), idem::in_flight);
    EXPECT_EQ(acted_, 1);
}

TEST_F(Step, ResponseThatCannotBeStoredKeepsTheKey) {
    for (const auto &[text, sqlstate] : kUnstorable)
        for (const bool completes : {false, true}) {
            const std::string key = unique_key();
            const auto work = [&, response = text] {
                return idem::leased(db_, idem::request{key}.lease(20s), [&](idem::lease &lease) {
                    if (completes)
                        idem::transact(db_, [&](idem::transaction &tx) { lease.complete(tx, {201, response}); });
                    return idem::response{201, response};
                });
            };
            expect_done_but_unstored(work, sqlstate, "the work of key \"" + key + '"');
            EXPECT_THROW(work(), idem::in_flight) << sqlstate;
        }
}

// A transaction that is rolled back undoes the step, and the key is free.
TEST_F(Step, FailureOfTheTransactionOfAStepReleasesTheKey) {
    const auto work = [&](idem::lease &lease) {
        idem::transact(db_, [&](idem::transaction &tx) {
            lease.step(tx, "book", [&] { ++acted_; });
            if (acted_ == 1)
                tx.exec("SELECT 1 / 0");
        });
    };
    EXPECT_ANY_THROW(attempt(work));
    attempt(work);
    EXPECT_EQ(acted_, 2);
}

} // namespace
