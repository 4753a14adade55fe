// once and once_statement, case by case. What a broken connection does at each message is in cut_points_test.cpp.
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

#include <idem/once.hpp>
#include <idem/target.hpp>

#include "access.hpp"
#include "cut_points.hpp"
#include "scratch.hpp"
#include "server.hpp"

namespace {

using namespace std::chrono_literals;
using idem::detail::exec_with;
using test::ask;
using test::effects;
using test::leave_effect;
using test::unique_key;

std::string state_of(const std::string &key) { return ask("SELECT state FROM idem.idem_lookup($1)", {key}); }

idem::once_options swift_once() {
    idem::once_options options;
    options.retry = test::swift();
    return options;
}

idem::client swift_client(std::string dsn = {}) {
    idem::client_options options;
    options.dsn = std::move(dsn);
    options.retry = test::swift();
    return test::make_client(options);
}

/// The exception of this class that the flow throws. If it throws none, the test fails and nothing is returned.
template <typename Error, typename F> std::optional<Error> thrown_by(F &&flow) {
    try {
        flow();
        ADD_FAILURE() << "nothing was thrown";
    } catch (const Error &e) {
        return e;
    } catch (const std::exception &e) {
        ADD_FAILURE() << "thrown instead: " << e.what();
    }
    return std::nullopt;
}

/// Another session that holds the key, until it is destroyed.
class holder {
  public:
    explicit holder(const std::string &key) { exec_with(tx_, "SELECT idem.idem_claim($1)", {key}); }
    void commit() { tx_.commit(); }

  private:
    pqxx::connection db_{test::dsn()};
    pqxx::work tx_{db_};
};

bool somebody_waits_for(const std::string &key) {
    return ask("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type IN ('Lock', 'Extension', 'IPC', 'Timeout') "
               "AND state = 'active' AND application_name = $1)",
               {key}) == "t";
}

// --- first, duplicate, in flight, mismatch -------------------------------------------------------------------------------

TEST(Once, FirstRunsAndDuplicateReplays) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    int runs = 0;
    const auto pay = [&] {
        return idem::once(db, idem::request{key}.of_json(R"({"amount": 1})"), [&](idem::transaction &tx) {
            ++runs;
            leave_effect(tx, key);
            return idem::response{201, R"({"b":1,   "a": 1.0})"};
        });
    };
    const idem::answer first = pay(), second = pay();
    EXPECT_EQ(first.response, R"({"a": 1.0, "b": 1})");
    EXPECT_EQ(first.status_code, 201);
    EXPECT_FALSE(first.replayed);
    EXPECT_EQ(first.attempt, 1);
    EXPECT_EQ(second.response, first.response);
    EXPECT_EQ(second.status_code, 201);
    EXPECT_TRUE(second.replayed);
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(effects(key), 1);
}

TEST(Once, WorkMayAnswerNothing) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const auto call = [&] { return idem::once(db, key, [&](idem::transaction &tx) { leave_effect(tx, key); }); };
    const idem::answer first = call(), second = call();
    EXPECT_FALSE(first.response || first.status_code || first.replayed);
    EXPECT_FALSE(second.response || second.status_code);
    EXPECT_TRUE(second.replayed);
    EXPECT_EQ(effects(key), 1);
}

TEST(Once, AResponseOverTheLimitIsOmittedFromTheReplay) {
    idem::client db = test::make_client();
    const std::string scope = unique_key("scope"), large = '"' + std::string(1000, 'x') + '"';
    ask("SELECT idem.idem_scope_set($1, max_response_size => 100)", {scope});
    const auto call = [&](const char *key, const std::string &body) {
        return idem::once(db, idem::request{key}.in(scope), [&](idem::transaction &) { return idem::response{201, body}; });
    };
    const idem::answer first = call("large", large), second = call("large", large);
    EXPECT_TRUE(first.response_omitted && second.response_omitted);
    EXPECT_EQ(first.response, large);
    EXPECT_FALSE(second.response);
    EXPECT_EQ(second.status_code, 201);
    EXPECT_TRUE(lookup(db, "large", scope)->response_omitted);
    EXPECT_FALSE(call("small", "1").response_omitted || call("small", "1").response_omitted);
}

TEST(Once, ScopesAreSpacesOfTheirOwn) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    for (const char *scope : {"", "payments", "orders"})
        EXPECT_FALSE(
            idem::once(db, idem::request{key}.in(scope), [&](idem::transaction &tx) { leave_effect(tx, key); }).replayed);
    EXPECT_EQ(effects(key), 3);
}

TEST(Once, InFlightThrowsWithoutWaiting) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const holder other(key);
    const auto e = thrown_by<idem::in_flight>(
        [&] { idem::once(db, idem::request{key}, [&](idem::transaction &tx) { leave_effect(tx, key); }); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->sqlstate(), "ID005");
    EXPECT_EQ(e->key(), key);
    EXPECT_FALSE(e->retry_after()); // its transaction is open
    EXPECT_EQ(effects(key), 0);
}

TEST(Once, InFlightTellsTheRestOfALease) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    ask("SELECT idem.idem_begin($1, lease => '1 min')", {key});
    const auto e = thrown_by<idem::in_flight>([&] { idem::once(db, key, [](idem::transaction &) {}); });
    ASSERT_TRUE(e);
    ASSERT_TRUE(e->retry_after());
    EXPECT_GT(*e->retry_after(), 50s);
    EXPECT_LE(*e->retry_after(), 60s);
}

TEST(Once, WaitsForAHolderThatCommits) {
    const std::string key = unique_key();
    idem::client db = test::make_client([&] {
        idem::client_options options;
        options.dsn = "application_name=" + key;
        return options;
    }());
    holder other(key);
    auto waiting = std::async(std::launch::async, [&] {
        return idem::once(db, idem::request{key}.wait(1min), [&](idem::transaction &tx) { leave_effect(tx, key); });
    });
    ASSERT_TRUE(test::eventually([&] { return somebody_waits_for(key); }));
    other.commit();
    EXPECT_TRUE(waiting.get().replayed);
    EXPECT_EQ(effects(key), 0);
}

TEST(Once, WaitsForAHolderThatRollsBack) {
    const std::string key = unique_key();
    idem::client db = test::make_client([&] {
        idem::client_options options;
        options.dsn = "application_name=" + key;
        return options;
    }());
    auto other = std::make_unique<holder>(key);
    auto waiting = std::async(std::launch::async, [&] {
        return idem::once(db, idem::request{key}.wait(idem::wait_limit::forever()),
                          [&](idem::transaction &tx) { leave_effect(tx, key); });
    });
    ASSERT_TRUE(test::eventually([&] { return somebody_waits_for(key); }));
    other.reset();
    EXPECT_FALSE(waiting.get().replayed);
    EXPECT_EQ(effects(key), 1);
}

TEST(Once, AnotherRequestUnderTheKeyIsAMismatch) {
    idem::client db = test::make_client();
    const std::string json = unique_key(), text = unique_key(), hex = unique_key();
    const auto call = [&](const idem::request &about) { return idem::once(db, about, [](idem::transaction &) {}).replayed; };
    call(idem::request{json}.of_json(R"({"a": 1, "b": 2})"));
    call(idem::request{text}.of_text("one"));
    call(idem::request{hex}.with_fingerprint("cafe"));
    EXPECT_TRUE(call(idem::request{json}.of_json(R"({"b":2,"a":1.0})")));
    EXPECT_TRUE(call(idem::request{text}.of_text("one")));
    EXPECT_TRUE(call(idem::request{hex}.with_fingerprint("CAFE")));
    for (const idem::request &other : {idem::request{json}.of_json(R"({"a": 2})"), idem::request{text}.of_text("One"),
                                       idem::request{hex}.with_fingerprint("caff")}) {
        const auto e = thrown_by<idem::mismatch>([&] { call(other); });
        ASSERT_TRUE(e);
        EXPECT_EQ(e->sqlstate(), "ID002");
        EXPECT_EQ(e->key(), other.key());
    }
}

TEST(Once, OneOfSeveralFingerprintsCounts) {
    idem::client db = test::make_client();
    const std::string key = unique_key(), json = unique_key();
    const auto call = [&](const idem::request &about) { return idem::once(db, about, [](idem::transaction &) {}).replayed; };
    call(idem::request{key}.of_text("one").with_fingerprint("cafe").of_json("{}"));
    EXPECT_TRUE(call(idem::request{key}.with_fingerprint("cafe")));
    EXPECT_THROW(call(idem::request{key}.of_json("{}")), idem::mismatch);
    call(idem::request{json}.of_json("{}").of_text("one"));
    EXPECT_TRUE(call(idem::request{json}.of_json("{}")));
    EXPECT_THROW(call(idem::request{json}.of_text("one")), idem::mismatch);
}

TEST(Once, InDoubtIsThrownAndRecorded) {
    idem::client db = test::make_client();
    const std::string key = unique_key(), scope = unique_key("scope");
    ask("SELECT idem.idem_scope_set($1, on_lease_expiry => 'manual')", {scope});
    ask("SELECT idem.idem_begin($1, lease => '1 ms', scope => $2)", {key, scope});
    std::this_thread::sleep_for(5ms); // longer than the lease
    const auto e = thrown_by<idem::in_doubt>([&] { idem::once(db, idem::request{key}.in(scope), [](idem::transaction &) {}); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->scope(), scope);
    EXPECT_EQ(ask("SELECT state FROM idem.idem_lookup($1, scope => $2)", {key, scope}), "in_doubt");
}

TEST(Once, TakesALapsedLeaseOver) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    ask("SELECT idem.idem_begin($1, lease => '1 ms')", {key});
    std::this_thread::sleep_for(5ms);
    const idem::answer told = idem::once(db, key, [&](idem::transaction &tx) { leave_effect(tx, key); });
    EXPECT_EQ(told.attempt, 2);
    EXPECT_FALSE(told.replayed);
    EXPECT_EQ(effects(key), 1);
}

// --- outcomes as values ---------------------------------------------------------------------------------------------------

TEST(TryOnce, TellsTheWorkFromItsReplay) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const auto call = [&] {
        return idem::try_once(db, key, [&](idem::transaction &tx) {
            leave_effect(tx, key);
            return idem::response{201, "[1]"};
        });
    };
    const idem::once_result first = call(), second = call();
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first.outcome, idem::key_outcome::acquired);
    EXPECT_EQ(second.outcome, idem::key_outcome::completed);
    EXPECT_FALSE(first.answer->replayed);
    EXPECT_TRUE(second.answer->replayed);
    EXPECT_EQ(second.answer->response, "[1]");
    EXPECT_EQ(second.answer->status_code, 201);
    EXPECT_EQ(effects(key), 1);
}

TEST(TryOnce, InFlightIsAValue) {
    idem::client db = test::make_client();
    const std::string key = unique_key(), leased = unique_key();
    const auto call = [&](const std::string &about) {
        return idem::try_once(db, about, [&](idem::transaction &tx) { leave_effect(tx, about); });
    };
    {
        const holder other(key);
        const idem::once_result told = call(key);
        EXPECT_FALSE(told);
        EXPECT_EQ(told.outcome, idem::key_outcome::in_flight);
        EXPECT_FALSE(told.answer || told.retry_after);
    }
    ask("SELECT idem.idem_begin($1, lease => '1 min')", {leased});
    const idem::once_result told = call(leased);
    EXPECT_EQ(told.outcome, idem::key_outcome::in_flight);
    ASSERT_TRUE(told.retry_after);
    EXPECT_GT(*told.retry_after, 50s);
    EXPECT_LE(*told.retry_after, 60s);
    EXPECT_EQ(effects(key) + effects(leased), 0);
    EXPECT_EQ(call(key).outcome, idem::key_outcome::acquired);
}

TEST(TryOnce, MismatchIsAValue) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const auto call = [&](const char *text) {
        return idem::try_once(db, idem::request{key}.of_text(text), [&](idem::transaction &tx) { leave_effect(tx, key); });
    };
    EXPECT_TRUE(call("one"));
    const idem::once_result other = call("two");
    EXPECT_FALSE(other);
    EXPECT_EQ(other.outcome, idem::key_outcome::mismatch);
    EXPECT_EQ(effects(key), 1);
}

TEST(TryOnce, InDoubtIsAValueAndRecorded) {
    idem::client db = test::make_client();
    const std::string key = unique_key(), scope = unique_key("scope");
    ask("SELECT idem.idem_scope_set($1, on_lease_expiry => 'manual')", {scope});
    ask("SELECT idem.idem_begin($1, lease => '1 ms', scope => $2)", {key, scope});
    std::this_thread::sleep_for(5ms); // longer than the lease
    EXPECT_EQ(idem::try_once(db, idem::request{key}.in(scope), [](idem::transaction &) { ADD_FAILURE(); }).outcome,
              idem::key_outcome::in_doubt);
    EXPECT_EQ(ask("SELECT state FROM idem.idem_lookup($1, scope => $2)", {key, scope}), "in_doubt");
}

TEST(TryOnce, SaysThatItTookOver) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    ask("SELECT idem.idem_begin($1, lease => '1 ms')", {key});
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(idem::try_once(db, key, [](idem::transaction &) {}).outcome, idem::key_outcome::taken_over);
}

TEST(TryOnce, ThrowsOtherErrorsAndThoseOfTheWork) {
    idem::client db = test::make_client();
    const std::string key = unique_key(), inner = unique_key();
    EXPECT_THROW(idem::try_once(db, "", [](idem::transaction &) {}), idem::bad_input);
    const holder other(inner);
    // in_flight of another key, from the work
    EXPECT_THROW(idem::try_once(db, key, [&](idem::transaction &) { idem::once(db, inner, [](idem::transaction &) {}); }),
                 idem::in_flight);
    EXPECT_TRUE(idem::try_once(db, key, [](idem::transaction &) {}));
}

// --- errors in the work ---------------------------------------------------------------------------------------------------

TEST(Once, AnExceptionOfTheWorkRollsBackAndFreesTheKey) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    struct declined : std::exception {};
    EXPECT_THROW(idem::once(db, key,
                            [&](idem::transaction &tx) {
                                leave_effect(tx, key);
                                throw declined();
                            }),
                 declined);
    EXPECT_THROW(idem::once(db, key, [&](idem::transaction &) { throw 42; }), int);
    EXPECT_EQ(effects(key), 0);
    EXPECT_EQ(state_of(key), "");
    EXPECT_FALSE(idem::once(db, key, [&](idem::transaction &tx) { leave_effect(tx, key); }).replayed);
    EXPECT_EQ(effects(key), 1);
}

TEST(Once, AnSqlErrorOfTheWorkStaysLibpqxxs) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    int runs = 0;
    const auto e = thrown_by<pqxx::sql_error>([&] {
        idem::once(db, key, [&](idem::transaction &tx) {
            ++runs;
            leave_effect(tx, key);
            tx.exec("SELECT 1/0");
        });
    });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->sqlstate(), "22012");
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(effects(key), 0);
}

TEST(Once, ASwallowedErrorIsNoSuccess) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const auto e = thrown_by<idem::rolled_back>([&] {
        idem::once(db, key, [&](idem::transaction &tx) {
            leave_effect(tx, key);
            try {
                tx.exec("SELECT 1/0");
            } catch (const std::exception &) {
            }
            return "[1]";
        });
    });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->sqlstate(), "25P02");
    EXPECT_EQ(e->key(), key);
    EXPECT_EQ(effects(key), 0);
    EXPECT_EQ(state_of(key), "");
}

TEST(Once, ACommitAnsweredWithRollbackIsAFailure) {
    idem::client db = test::make_client();
    const auto opened = idem::detail::access::begin(db, idem::isolation::read_committed, {});
    idem::transaction &tx = *opened;
    EXPECT_THROW(tx.exec("SELECT 1/0"), pqxx::sql_error);
    EXPECT_THROW(idem::detail::access::finish(tx, {}), idem::rolled_back);
}

TEST(Once, AnErrorInASubtransactionIsTheWorksOwnBusiness) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const idem::answer told = idem::once(db, key, [&](idem::transaction &tx) {
        try {
            idem::subtransaction inner(tx, "inner");
            leave_effect(inner, key);
            exec_with(inner, "SELECT 1/$1::int", {"0"});
            inner.commit();
        } catch (const pqxx::sql_error &) {
        }
        leave_effect(tx, key);
        return "[2]";
    });
    EXPECT_EQ(told.response, "[2]");
    EXPECT_EQ(effects(key), 1);
}

TEST(Once, AConstraintThatFailsAtCommitLeavesNothing) {
    idem::client db = swift_client();
    const std::string key = unique_key();
    ask("CREATE TABLE IF NOT EXISTS public.client_deferred (key text UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    int runs = 0;
    const auto e = thrown_by<idem::error>([&] {
        idem::once(db, key, [&](idem::transaction &tx) {
            ++runs;
            leave_effect(tx, key);
            exec_with(tx, "INSERT INTO public.client_deferred VALUES ($1), ($1)", {key});
        });
    });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->sqlstate(), "23505");
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(effects(key), 0);
    EXPECT_EQ(state_of(key), "");
}

TEST(Once, ABadResponseLeavesNothing) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    for (const std::string &json : {std::string("{"), std::string(""), std::string("\"\xff\""), std::string("1\0002", 3)}) {
        const auto e = thrown_by<idem::bad_input>([&] {
            idem::once(db, key, [&](idem::transaction &tx) {
                leave_effect(tx, key);
                return json;
            });
        });
        ASSERT_TRUE(e);
        EXPECT_EQ(e->key(), key);
    }
    EXPECT_EQ(effects(key), 0);
    EXPECT_EQ(state_of(key), "");
}

// A key that contains a zero byte must not be taken for the part before that byte.
TEST(Once, BadInputIsRefused) {
    idem::client db = test::make_client();
    const auto nothing = [](idem::transaction &) {};
    EXPECT_THROW(idem::once(db, "", nothing), idem::bad_input);
    EXPECT_THROW(idem::once(db, std::string(1025, 'x'), nothing), idem::bad_input);
    EXPECT_THROW(idem::once(db, unique_key() + "\xff", nothing), idem::bad_input);
    EXPECT_THROW(idem::once(db, idem::request{unique_key()}.in(std::string(256, 'x')), nothing), idem::bad_input);
    EXPECT_THROW(idem::once(db, idem::request{unique_key()}.ttl(0ms), nothing), idem::bad_input);
    EXPECT_THROW(idem::once(db, idem::request{unique_key()}.wait(-1ms), nothing), idem::bad_input);
    EXPECT_THROW(idem::once(db, idem::request{unique_key()}.of_json("{"), nothing), idem::bad_input);
    EXPECT_THROW(idem::once(db, idem::request{unique_key()}.with_fingerprint("xyz"), nothing), idem::bad_input);

    const std::string key = unique_key();
    EXPECT_FALSE(idem::once(db, key, nothing).replayed);
    const auto e = thrown_by<idem::bad_input>([&] { idem::once(db, key + std::string("\0more", 5), nothing); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->sqlstate(), "22021");
    EXPECT_THROW(idem::once_statement(db, key + std::string("\0more", 5), "SELECT 1"), idem::bad_input);
    EXPECT_THROW(idem::once_statement(db, unique_key(), "SELECT $1", {std::string("a\0b", 3)}), idem::bad_input);
}

// --- work that misuses its transaction ------------------------------------------------------------------------------------

TEST(Once, TheWorkCannotCommit) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    EXPECT_THROW(idem::once(db, key,
                            [&](idem::transaction &tx) {
                                leave_effect(tx, key);
                                tx.commit();
                            }),
                 pqxx::usage_error);
    EXPECT_EQ(effects(key), 0);
    EXPECT_EQ(state_of(key), "");
}

TEST(Once, WorkThatAbortsHasNoSuccess) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    int runs = 0;
    EXPECT_THROW(idem::once(db, key,
                            [&](idem::transaction &tx) {
                                ++runs;
                                leave_effect(tx, key);
                                tx.abort();
                            }),
                 pqxx::usage_error);
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(effects(key), 0);
    EXPECT_EQ(state_of(key), "");
}

// libpqxx allows statements with parameters after abort(): they must not run, and commit, in a transaction of their own.
TEST(Once, NothingThatRunsAfterAnAbortStays) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    EXPECT_ANY_THROW(idem::once(db, key, [&](idem::transaction &tx) {
        tx.abort();
        exec_with(tx, "INSERT INTO public.client_effect (key) VALUES ($1)", {key});
    }));
    EXPECT_EQ(effects(key), 0);
    EXPECT_EQ(state_of(key), "");
}

// The work runs COMMIT as a statement: its effect stays, and is the only one, but the flow reports an error.
TEST(Once, ACommitBehindTheFlowsBackIsAnErrorAndHappensOnce) {
    idem::client db = swift_client();
    for (const char *commit : {"COMMIT", "COMMIT AND CHAIN", "COMMIT; BEGIN"}) {
        const std::string key = unique_key();
        int runs = 0;
        const auto call = [&] {
            return idem::once(db, key, [&](idem::transaction &tx) {
                ++runs;
                leave_effect(tx, key);
                tx.exec(commit);
                return "[1]";
            });
        };
        if (commit == std::string("COMMIT"))
            EXPECT_THROW(call(), pqxx::usage_error); // detected: no transaction is open
        else
            EXPECT_THROW(call(), idem::stale_fence) << commit;
        EXPECT_TRUE(call().replayed) << commit;
        EXPECT_EQ(runs, 1) << commit;
        EXPECT_EQ(effects(key), 1) << commit;
    }
}

TEST(Once, ARollbackBehindTheFlowsBackIsAnError) {
    idem::client db = swift_client();
    for (const char *rollback : {"ROLLBACK", "ROLLBACK AND CHAIN", "ROLLBACK; BEGIN"}) {
        const std::string key = unique_key();
        const auto call = [&] {
            idem::once(db, key, [&](idem::transaction &tx) {
                leave_effect(tx, key);
                tx.exec(rollback);
            });
        };
        if (rollback == std::string("ROLLBACK"))
            EXPECT_THROW(call(), pqxx::usage_error);
        else
            EXPECT_THROW(call(), idem::stale_fence) << rollback;
        EXPECT_EQ(effects(key), 0) << rollback;
        EXPECT_EQ(state_of(key), "") << rollback;
    }
}

// The state in which a failed flow leaves a session does not affect the connection's next user.
TEST(Once, AFailedFlowLeavesAUsableConnection) {
    idem::client_options one;
    one.max_connections = 1;
    one.connection_wait = 0ms;
    idem::client db = test::make_client(one);
    for (int i = 0; i < 3; ++i) {
        EXPECT_ANY_THROW(idem::once(db, unique_key(), [](idem::transaction &tx) { tx.exec("SELECT 1/0"); }));
        EXPECT_ANY_THROW(idem::once(db, unique_key(), [](idem::transaction &tx) { tx.exec("COMMIT"); }));
        EXPECT_ANY_THROW(idem::once(db, unique_key(), [](idem::transaction &tx) { tx.abort(); }));
        idem::once(db, unique_key(), swift_once(), [](idem::transaction &tx) { tx.exec("DEALLOCATE ALL"); });
        const std::string key = unique_key();
        EXPECT_FALSE(idem::once(db, key, [&](idem::transaction &tx) { leave_effect(tx, key); }).replayed);
        EXPECT_EQ(effects(key), 1);
    }
}

// --- retries ---------------------------------------------------------------------------------------------------------------

TEST(Once, SerializationFailuresAndDeadlocksRunAgain) {
    idem::client db = swift_client();
    for (const char *sqlstate : {"40001", "40P01"}) {
        const std::string key = unique_key();
        int runs = 0;
        const idem::answer told = idem::once(db, key, [&](idem::transaction &tx) {
            leave_effect(tx, key);
            if (++runs < 3)
                tx.exec(std::string("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '") + sqlstate + "'; END $$");
            return "[" + std::to_string(runs) + "]";
        });
        EXPECT_EQ(told.response, "[3]");
        EXPECT_FALSE(told.replayed);
        EXPECT_EQ(effects(key), 1);
    }
}

TEST(Once, DeadlockedCallersBothSucceed) {
    idem::client db = swift_client();
    const std::string left = unique_key(), right = unique_key();
    for (const std::string &key : {left, right})
        ask("INSERT INTO public.client_effect (key) VALUES ($1)", {key});
    std::promise<void> met[2];
    const auto call = [&](int me, const std::string &first, const std::string &second) {
        int runs = 0;
        // Also where this call fails before it meets the other, which would wait without end.
        struct arrival {
            std::promise<void> &promise;
            bool is_told = false;
            void tell() {
                if (!is_told)
                    promise.set_value();
                is_told = true;
            }
            ~arrival() { tell(); }
        } own{met[me]};
        return idem::once(db, unique_key(), [&](idem::transaction &tx) {
            exec_with(tx, "UPDATE public.client_effect SET at = now() WHERE key = $1", {first});
            if (++runs == 1) {
                own.tell();
                met[1 - me].get_future().wait();
            }
            exec_with(tx, "UPDATE public.client_effect SET at = now() WHERE key = $1", {second});
        });
    };
    auto other = std::async(std::launch::async, [&] { return call(1, right, left); });
    EXPECT_FALSE(call(0, left, right).replayed);
    EXPECT_FALSE(other.get().replayed);
}

TEST(Once, SerializableWorkRunsAgain) {
    idem::client db = swift_client();
    const std::string row = unique_key();
    ask("CREATE TABLE IF NOT EXISTS public.client_counter (key text PRIMARY KEY, n int NOT NULL)");
    ask("INSERT INTO public.client_counter VALUES ($1, 0)", {row});
    for (const idem::isolation level : {idem::isolation::repeatable_read, idem::isolation::serializable}) {
        idem::once_options options = swift_once();
        options.level = level;
        int runs = 0;
        idem::once(db, unique_key(), options, [&](idem::transaction &tx) {
            const pqxx::result n = exec_with(tx, "SELECT n FROM public.client_counter WHERE key = $1", {row});
            if (++runs == 1)
                ask("UPDATE public.client_counter SET n = n + 10 WHERE key = $1", {row});
            exec_with(tx, "UPDATE public.client_counter SET n = $2::int + 1 WHERE key = $1",
                      {row, std::string(n[0][0].c_str())});
        });
        EXPECT_EQ(runs, 2);
    }
    EXPECT_EQ(ask("SELECT n FROM public.client_counter WHERE key = $1", {row}), "22");
}

// --- the server ends the session at each statement of the work -----------------------------------------------------------

const std::string kTerminate = "SELECT pg_terminate_backend(pg_backend_pid())";

void terminate(idem::transaction &tx) {
    const std::string pid = tx.exec("SELECT pg_backend_pid()")[0][0].c_str();
    ask("SELECT pg_terminate_backend($1::int)", {pid});
    ASSERT_TRUE(test::eventually([&] { return ask("SELECT 1 FROM pg_stat_activity WHERE pid = $1::int", {pid}).empty(); }));
}

using statement = std::function<void(idem::transaction &, const std::string &key)>;

const std::vector<std::pair<const char *, statement>> kStatements = {
    {"exec", [](idem::transaction &tx, const std::string &key) { leave_effect(tx, key); }},
    {"exec with parameters", [](idem::transaction &tx, const std::string &key) { exec_with(tx, "SELECT $1", {key}); }},
    {"subtransaction",
     [](idem::transaction &tx, const std::string &) {
         idem::subtransaction inner(tx, "inner");
         inner.exec("SELECT 1");
         inner.commit();
     }},
    {"call",
     [](idem::transaction &tx, const std::string &key) {
         static constexpr idem::detail::statement serialize{"test_serialize", "SELECT @idem@.idem_serialize($1)"};
         idem::detail::call(tx, {&serialize, {key}});
     }},
};

TEST(Once, RunsAgainWhenTheServerEndsTheSessionBeforeAnyStatement) {
    idem::client db = swift_client();
    for (std::size_t at = 0; at <= kStatements.size(); ++at) {
        const std::string key = unique_key();
        int runs = 0;
        const idem::answer told = idem::once(db, key, [&](idem::transaction &tx) {
            ++runs;
            for (std::size_t i = 0; i <= kStatements.size(); ++i) {
                if (runs == 1 && i == at)
                    terminate(tx);
                if (i < kStatements.size())
                    kStatements[i].second(tx, key);
            }
            return "[" + std::to_string(runs) + "]";
        });
        const char *where = at < kStatements.size() ? kStatements[at].first : "the end";
        EXPECT_EQ(told.response, "[2]") << where;
        EXPECT_FALSE(told.replayed) << where;
        EXPECT_EQ(effects(key), 1) << where;
    }
}

TEST(Once, RunsAgainWhenAStatementEndsTheSession) {
    idem::client db = swift_client();
    const std::vector<std::pair<const char *, statement>> ways = {
        {"exec", [](idem::transaction &tx, const std::string &) { tx.exec(kTerminate); }},
        {"exec with parameters", [](idem::transaction &tx, const std::string &) { exec_with(tx, kTerminate, {}); }},
        {"subtransaction",
         [](idem::transaction &tx, const std::string &) {
             idem::subtransaction inner(tx, "inner");
             inner.exec(kTerminate);
         }},
        {"call",
         [](idem::transaction &tx, const std::string &) {
             static constexpr idem::detail::statement end{"test_end",
                                                          "SELECT pg_catalog.pg_terminate_backend(pg_backend_pid())"};
             idem::detail::call(tx, {&end, {}});
         }},
        {"idle in transaction",
         [](idem::transaction &tx, const std::string &) {
             tx.exec("SET LOCAL idle_in_transaction_session_timeout = 1");
             const std::string pid = tx.exec("SELECT pg_backend_pid()")[0][0].c_str();
             test::eventually([&] { return ask("SELECT 1 FROM pg_stat_activity WHERE pid = $1::int", {pid}).empty(); });
             tx.exec("SELECT 1");
         }},
    };
    for (const auto &[name, end] : ways) {
        SCOPED_TRACE(name);
        const std::string key = unique_key();
        int runs = 0;
        try {
            const idem::answer told = idem::once(db, key, [&](idem::transaction &tx) {
                leave_effect(tx, key);
                if (++runs == 1)
                    end(tx, key);
            });
            EXPECT_FALSE(told.replayed);
        } catch (const std::exception &e) {
            ADD_FAILURE() << e.what();
        }
        EXPECT_EQ(runs, 2);
        EXPECT_EQ(effects(key), 1);
    }
}

// Work that swallows the loss of its connection and returns normally: its answer is discarded.
TEST(Once, ASwallowedLossIsNoSuccess) {
    idem::client db = swift_client();
    const std::string key = unique_key();
    int runs = 0;
    const idem::answer told = idem::once(db, key, [&](idem::transaction &tx) {
        leave_effect(tx, key);
        if (++runs == 1)
            try {
                tx.exec(kTerminate);
            } catch (const std::exception &) {
            }
        return "[" + std::to_string(runs) + "]";
    });
    EXPECT_EQ(told.response, "[2]");
    EXPECT_EQ(effects(key), 1);
}

// The work's own exception reaches the caller unchanged, even if the connection is lost.
TEST(Once, TheWorksOwnExceptionSurvivesALoss) {
    idem::client db = swift_client();
    const std::string key = unique_key();
    struct declined : std::exception {};
    int runs = 0;
    EXPECT_THROW(idem::once(db, key,
                            [&](idem::transaction &tx) {
                                ++runs;
                                terminate(tx);
                                throw declined();
                            }),
                 declined);
    EXPECT_EQ(runs, 1);
}

// A connection other than the flow's broke, or the outcome of a commit other than the flow's is unknown: running the work again
// could repeat that commit.
TEST(Once, LossesOnOtherConnectionsAreNotRetried) {
    idem::client db = swift_client();
    int runs = 0;
    EXPECT_THROW(idem::once(db, unique_key(),
                            [&](idem::transaction &) {
                                ++runs;
                                ask(kTerminate);
                            }),
                 std::exception);
    EXPECT_EQ(runs, 1);
    runs = 0;
    EXPECT_THROW(idem::once(db, unique_key(),
                            [&](idem::transaction &) {
                                ++runs;
                                idem::throw_error("08007", "another commit");
                            }),
                 idem::outcome_unknown);
    EXPECT_EQ(runs, 1);
    runs = 0;
    EXPECT_THROW(idem::once(db, unique_key(),
                            [&](idem::transaction &) {
                                ++runs;
                                idem::throw_error("08006", "another connection");
                            }),
                 idem::connection_lost);
    EXPECT_EQ(runs, 1);
}

// --- the server restarts mid-flow -----------------------------------------------------------------------------------------

TEST(Once, RunsAgainAcrossARestart) {
    test::private_server server;
    idem::client db = swift_client(server.dsn());
    for (const char *mode : {"fast", "immediate"}) {
        const std::string key = unique_key();
        int runs = 0;
        const auto call = [&] {
            return idem::once(db, key, [&](idem::transaction &tx) {
                leave_effect(tx, key);
                if (++runs == 1)
                    server.restart(mode);
                leave_effect(tx, key + "-late");
                return "[" + std::to_string(runs) + "]";
            });
        };
        const idem::answer told = call();
        EXPECT_EQ(told.response, "[2]") << mode;
        EXPECT_FALSE(told.replayed) << mode;
        EXPECT_EQ(effects(key, server.dsn()), 1) << mode;
        server.restart(mode);
        EXPECT_TRUE(call().replayed) << mode;
        EXPECT_EQ(effects(key, server.dsn()), 1) << mode;
    }
}

// The flow retries while the server is down, and succeeds when it is up again.
TEST(Once, OutlastsAServerThatIsDown) {
    test::private_server server;
    idem::client db = swift_client(server.dsn());
    const std::string key = unique_key();
    idem::once_options options = swift_once();
    std::vector<std::string> seen;
    options.retry->on_retry = [&](const idem::retry_event &event) {
        seen.push_back(event.sqlstate);
        if (event.attempt == 3)
            server.start();
    };
    int runs = 0;
    const idem::answer told = idem::once(db, key, options, [&](idem::transaction &tx) {
        if (++runs == 1)
            server.stop("immediate");
        leave_effect(tx, key);
    });
    EXPECT_FALSE(told.replayed);
    EXPECT_EQ(runs, 2);
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[1], "08001");
    EXPECT_EQ(seen[2], "08001");
    EXPECT_EQ(effects(key, server.dsn()), 1);
}

// --- the retries are used up while the outcome of a commit is unknown -----------------------------------------------------

idem::once_options three_attempts() {
    idem::once_options options = swift_once();
    options.retry->attempts = 3;
    options.recovery_wait = 50ms;
    return options;
}

TEST(Once, AnUnknownOutcomeIsNotCalledALostConnection) {
    test::proxy between;
    idem::client db = swift_client(between.dsn());
    const std::string key = unique_key();
    idem::once(db, unique_key(), [](idem::transaction &) {}); // connected, prepared
    const auto e = thrown_by<idem::outcome_unknown>([&] {
        idem::once(db, key, three_attempts(), [&](idem::transaction &tx) {
            leave_effect(tx, key);
            between.arm({test::side::backend, 1, test::moment::before, 0ms}); // the next reply is COMMIT's
            between.refuse(true);
        });
    });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->sqlstate(), "08007");
    EXPECT_EQ(e->key(), key);
    EXPECT_EQ(effects(key), 1);
}

// The backend of the lost connection may still hold the key.
TEST(Once, AnUnknownOutcomeIsNotCalledInFlight) {
    test::proxy between;
    idem::client db = swift_client(between.dsn());
    const std::string key = unique_key();
    idem::once(db, unique_key(), [](idem::transaction &) {});
    const auto e = thrown_by<idem::outcome_unknown>([&] {
        idem::once(db, key, three_attempts(), [&](idem::transaction &tx) {
            leave_effect(tx, key);
            between.arm(
                {test::side::frontend, 1, test::moment::before, 60s}); // COMMIT never arrives, and the connection stays open
        });
    });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->sqlstate(), "08007");
    between.cut_all();
    EXPECT_EQ(effects(key), 0);
}

TEST(TryOnce, AnUnknownOutcomeIsNotCalledInFlight) {
    test::proxy between;
    idem::client db = swift_client(between.dsn());
    const std::string key = unique_key();
    idem::once(db, unique_key(), [](idem::transaction &) {});
    EXPECT_THROW(idem::try_once(db, key, three_attempts(),
                                [&](idem::transaction &tx) {
                                    leave_effect(tx, key);
                                    between.arm({test::side::frontend, 1, test::moment::before, 60s});
                                }),
                 idem::outcome_unknown);
    between.cut_all();
    EXPECT_EQ(effects(key), 0);
}

TEST(TryOnce, ALostReplyOfItsOwnCommitIsItsOwnWork) {
    test::proxy between;
    idem::client db = swift_client(between.dsn());
    const std::string key = unique_key();
    idem::once(db, unique_key(), [](idem::transaction &) {});
    const idem::once_result told = idem::try_once(db, key, swift_once(), [&](idem::transaction &tx) {
        leave_effect(tx, key);
        between.arm({test::side::backend, 1, test::moment::before, 0ms}); // the next reply is COMMIT's
    });
    EXPECT_EQ(told.outcome, idem::key_outcome::acquired);
    EXPECT_FALSE(told.answer->replayed);
    EXPECT_EQ(effects(key), 1);
}

TEST(OnceStatement, AnUnknownOutcomeIsNotCalledALostConnection) {
    test::proxy between;
    idem::client db = swift_client(between.dsn());
    idem::once_statement(db, unique_key(), "SELECT 1");
    const std::string key = unique_key();
    between.arm({test::side::backend, 1, test::moment::before, 0ms});
    between.refuse(true);
    const auto e = thrown_by<idem::outcome_unknown>([&] {
        idem::once_statement(db, key, "INSERT INTO public.client_effect (key) VALUES ($1) RETURNING key", {key},
                             three_attempts());
    });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->key(), key);
    EXPECT_EQ(effects(key), 1);
}

// --- once_statement ---------------------------------------------------------------------------------------------------------

const std::string kInsert = "INSERT INTO public.client_effect (key) VALUES ($1) RETURNING key";

TEST(OnceStatement, FirstRunsAndDuplicateReplays) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const idem::answer first = idem::once_statement(db, key, kInsert, {key});
    const idem::answer second = idem::once_statement(db, key, kInsert, {key});
    EXPECT_EQ(first.response, "[{\"key\": \"" + key + "\"}]");
    EXPECT_FALSE(first.replayed);
    EXPECT_EQ(second.response, first.response);
    EXPECT_TRUE(second.replayed);
    EXPECT_EQ(effects(key), 1);
}

TEST(OnceStatement, ArgumentsArriveAsTheyAre) {
    idem::client db = test::make_client();
    const std::string odd = "a\"b\\c,{}' NULL \n ä";
    const std::string key = unique_key();
    idem::once_statement(db, key,
                         "INSERT INTO public.client_effect (key) SELECT $1 WHERE $2::text IS NULL AND $3 = 'NULL' AND $4 = ''",
                         {key + odd, std::nullopt, "NULL", ""});
    EXPECT_EQ(effects(key + odd), 1);
}

TEST(OnceStatement, AnErrorFreesTheKey) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const auto e = thrown_by<idem::bad_input>([&] { idem::once_statement(db, key, "SELECT 1/$1::int", {"0"}); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->sqlstate(), "22012");
    EXPECT_EQ(e->key(), key);
    EXPECT_FALSE(idem::once_statement(db, key, kInsert, {key}).replayed);
    EXPECT_EQ(effects(key), 1);
}

TEST(OnceStatement, MismatchAndInFlight) {
    idem::client db = test::make_client();
    const std::string key = unique_key(), held = unique_key();
    idem::once_statement(db, idem::request{key}.of_json("[1]"), kInsert, {key});
    EXPECT_THROW(idem::once_statement(db, idem::request{key}.of_json("[2]"), kInsert, {key}), idem::mismatch);
    holder other(held);
    EXPECT_THROW(idem::once_statement(db, held, kInsert, {held}), idem::in_flight);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THROW(idem::once_statement(db, idem::request{held}.wait(50ms), kInsert, {held}), idem::in_flight);
    EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms);
    auto waiting = std::async(std::launch::async, [&] {
        return idem::once_statement(db, idem::request{held}.wait(idem::wait_limit::forever()), kInsert, {held});
    });
    other.commit();
    EXPECT_TRUE(waiting.get().replayed);
    EXPECT_EQ(effects(held), 0);
    EXPECT_EQ(effects(key), 1);
}

// A function may raise the SQLSTATE of a broken connection (dblink and postgres_fdw do) on a connection that is intact.
TEST(OnceStatement, AnErrorOfClass08IsNotTheConnections) {
    idem::client_options options;
    options.retry = test::swift();
    int connects = 0;
    options.on_connect = [&](idem::connection &) { ++connects; };
    idem::client db = test::make_client(options);
    ask("CREATE OR REPLACE FUNCTION public.client_raise(code text) RETURNS int LANGUAGE plpgsql AS "
        "'BEGIN RAISE EXCEPTION USING ERRCODE = code; END'");
    for (const char *code : {"08001", "08006", "57P01"}) {
        const auto e =
            thrown_by<idem::error>([&] { idem::once_statement(db, unique_key(), "SELECT public.client_raise($1)", {code}); });
        ASSERT_TRUE(e);
        EXPECT_EQ(e->sqlstate(), code);
    }
    EXPECT_EQ(connects, 1);
}

// The reply to COMMIT was lost, and the next server is a standby that lags: it does not know the key, and cannot run the work.
TEST(Once, LostCommitAndAServerThatOnlyReadsIsUnknown) {
    const std::string key = unique_key();
    idem::client_options options;
    options.retry = test::swift();
    int connects = 0;
    options.on_connect = [&](idem::connection &fresh) {
        if (++connects == 1)
            return;
        EXPECT_TRUE(test::eventually([&] { return effects(key) == 1; }));
        ask("SELECT idem.idem_forget($1)", {key});
        pqxx::nontransaction(fresh).exec("SET default_transaction_read_only = on");
    };
    idem::client db = test::make_client(options);
    std::future<void> gate;
    EXPECT_THROW(idem::once(db, key,
                            [&](idem::transaction &tx) {
                                test::leave_effect(tx, key);
                                gate = test::lose_commit_reply(tx);
                            }),
                 idem::outcome_unknown);
    gate.get();
    EXPECT_EQ(effects(key), 1);
}

TEST(OnceStatement, TransientErrorsRunAgain) {
    idem::client db = swift_client();
    const std::string key = unique_key();
    ask("CREATE SEQUENCE IF NOT EXISTS public.client_tries");
    ask("CREATE OR REPLACE FUNCTION public.client_third_time() RETURNS bigint LANGUAGE plpgsql AS "
        "'DECLARE n bigint = nextval(''public.client_tries''); BEGIN IF n % 3 <> 0 THEN RAISE EXCEPTION USING ERRCODE = "
        "''40001''; "
        "END IF; RETURN 3; END'");
    EXPECT_EQ(idem::once_statement(db, key, "SELECT public.client_third_time() AS n").response, "[{\"n\": 3}]");
}

} // namespace
