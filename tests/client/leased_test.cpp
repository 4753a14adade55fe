// leased, case by case.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <future>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <idem/leased.hpp>

#include "access.hpp"
#include "cut_points.hpp"
#include "server.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using test::ask;
using test::effects;
using test::eventually;
using test::leave_effect;
using test::unique_key;

constexpr char kState[] = "SELECT state FROM idem.idem_lookup($1, $2)";

std::string state_of(const std::string &key, const std::string &scope = "", const std::string &at = test::dsn()) {
    return ask(kState, {key, scope}, at);
}

/// Takes the key away from its holder.
void steal(const idem::lease &from) {
    ask("SELECT idem.idem_release($1, $2::int8)", {from.key(), std::to_string(from.fence())});
}

/// As time does, without a wait.
void end_lease(const std::string &key, const std::string &scope = "") {
    EXPECT_EQ(
        ask("UPDATE idem.idem_keys SET lease_until = pg_catalog.clock_timestamp() WHERE key = $1 AND scope = $2 RETURNING 1",
            {key, scope}),
        "1");
}

idem::client named_client(const std::string &name, std::size_t connections = 16) {
    idem::client_options options;
    options.dsn = "application_name=" + name;
    options.max_connections = connections;
    return test::make_client(options);
}

/// An event that one thread waits for and another makes happen.
class event {
  public:
    void set() { promise_.set_value(); }
    bool wait(std::chrono::milliseconds longest = 20s) const { return future_.wait_for(longest) == std::future_status::ready; }

  private:
    std::promise<void> promise_;
    std::shared_future<void> future_ = promise_.get_future().share();
};

TEST(Leased, FirstRunsAndDuplicateReplays) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    int runs = 0;
    const auto pay = [&] {
        return idem::leased(db, idem::request{key}.of_json(R"({"amount": 1})").lease(60s), [&](idem::lease &lease) {
            ++runs;
            EXPECT_EQ(lease.key(), key);
            EXPECT_EQ(lease.attempt(), 1);
            EXPECT_GT(lease.fence(), 0);
            EXPECT_FALSE(lease.steps());
            EXPECT_FALSE(lease.lost());
            EXPECT_GT(lease.time_left(), 50s);
            EXPECT_LE(lease.time_left(), 60s);
            EXPECT_EQ(state_of(key), "in_progress");
            return idem::response{201, R"({"b":1,   "a": 1.0})"};
        });
    };
    const idem::answer first = pay(), second = pay();
    EXPECT_EQ(first.response, R"({"a": 1.0, "b": 1})");
    EXPECT_EQ(first.status_code, 201);
    EXPECT_FALSE(first.replayed);
    EXPECT_EQ(second.response, first.response);
    EXPECT_EQ(second.status_code, 201);
    EXPECT_TRUE(second.replayed);
    EXPECT_EQ(runs, 1);
}

TEST(Leased, WithoutLeaseTheScopesCounts) {
    idem::client db = test::make_client();
    const std::string scope = unique_key("scope");
    ask("SELECT idem.idem_scope_set($1, lease => '70 s')", {scope});
    idem::leased(db, idem::request{"a"}.in(scope), [&](idem::lease &lease) {
        EXPECT_GT(lease.time_left(), 60s);
        EXPECT_LE(lease.time_left(), 70s);
    });
    EXPECT_EQ(state_of("a", scope), "completed");
}

TEST(Leased, AResponseOverTheLimitIsOmittedFromTheReplay) {
    idem::client db = test::make_client();
    const std::string scope = unique_key("scope"), large = '"' + std::string(1000, 'x') + '"';
    ask("SELECT idem.idem_scope_set($1, max_response_size => 100)", {scope});
    const auto call = [&] {
        return idem::leased(db, idem::request{"large"}.in(scope), [&](idem::lease &) { return idem::response{201, large}; });
    };
    const idem::answer first = call(), second = call();
    EXPECT_TRUE(first.response_omitted && second.response_omitted);
    EXPECT_EQ(first.response, large);
    EXPECT_FALSE(second.response);
}

TEST(Leased, InFlightThrowsAndSaysWhenToComeBack) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &) {
        try {
            idem::leased(db, idem::request{key}.lease(60s), [](idem::lease &) { FAIL() << "ran twice"; });
            FAIL() << "no exception";
        } catch (const idem::in_flight &e) {
            EXPECT_EQ(e.key(), key);
            ASSERT_TRUE(e.retry_after());
            EXPECT_GT(*e.retry_after(), 50s);
            EXPECT_LE(*e.retry_after(), 60s);
        }
    });
}

TEST(Leased, InFlightWaitsByOption) {
    idem::client db = named_client("waits");
    const std::string key = unique_key();
    event begun, waited;
    auto holder = std::async(std::launch::async, [&] {
        return idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &) {
            begun.set();
            EXPECT_TRUE(waited.wait());
            return idem::response{"\"done\""};
        });
    });
    ASSERT_TRUE(begun.wait());
    auto waiter = std::async(std::launch::async, [&] {
        return idem::leased(db, idem::request{key}.lease(60s).wait(idem::wait_limit::forever()),
                            [](idem::lease &) { ADD_FAILURE() << "ran twice"; });
    });
    EXPECT_TRUE(eventually([] {
        return ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits' AND state = 'active'") == "1";
    }));
    waited.set();
    EXPECT_FALSE(holder.get().replayed);
    const idem::answer replay = waiter.get();
    EXPECT_TRUE(replay.replayed);
    EXPECT_EQ(replay.response, "\"done\"");
}

TEST(Leased, LeaseBeginsWhenTheWaitEnds) {
    idem::client db = named_client("latelease");
    const std::string key = unique_key(), fence = ask("SELECT fence FROM idem.idem_begin($1, lease => '10 min')", {key});
    std::atomic<steady_clock::time_point> freed{steady_clock::time_point::max()};
    auto waiter = std::async(std::launch::async, [&] {
        idem::leased(
            db, idem::request{key}.lease(test::kRenewedLease).wait(idem::wait_limit::forever()), [&](idem::lease &lease) {
                const auto left = lease.time_left();
                EXPECT_GE(steady_clock::now() + left + 2ms, freed.load() + test::kRenewedLease); // in whole milliseconds
                EXPECT_FALSE(lease.lost());
            });
    });
    EXPECT_TRUE(eventually([] {
        return ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'latelease' AND state = 'active'") == "1";
    }));
    // It waits for longer than the length of its own lease.
    std::this_thread::sleep_for(test::kOverOneLease);
    freed = steady_clock::now();
    ask("SELECT idem.idem_release($1, $2::int8)", {key, fence});
    EXPECT_NO_THROW(waiter.get());
}

TEST(Leased, OtherRequestIsAMismatch) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    idem::leased(db, idem::request{key}.of_text("a").lease(5s), [](idem::lease &) {});
    EXPECT_THROW(idem::leased(db, idem::request{key}.of_text("b").lease(5s), [](idem::lease &) { ADD_FAILURE(); }),
                 idem::mismatch);
}

TEST(Leased, ExceptionReleasesTheKey) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s), [](idem::lease &) { throw std::range_error("no"); }),
                 std::range_error);
    const idem::answer again = idem::leased(db, idem::request{key}.lease(60s), [](idem::lease &lease) {
        EXPECT_EQ(lease.attempt(), 2);
        return idem::response{"2"};
    });
    EXPECT_EQ(again.attempt, 2);
    EXPECT_FALSE(again.replayed);
}

struct unspeakable {};

} // namespace

namespace idem {
template <> struct response_from<unspeakable> {
    static response make(const unspeakable &) { throw std::range_error("no JSON"); }
};
} // namespace idem

namespace {

// The work is done: it must not run again because its result is no response.
TEST(Leased, AResultThatIsNoResponseKeepsTheKey) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s), [](idem::lease &) { return unspeakable(); }),
                 std::range_error);
    EXPECT_EQ(state_of(key), "in_progress");
}

// The same of a step.
TEST(Leased, AStepWhoseResultIsNoOutputKeepsTheKey) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const auto work = [](idem::lease &lease) { lease.step("charge", [] { return unspeakable(); }); };
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s), work), std::range_error);
    EXPECT_EQ(state_of(key), "in_progress");
}

// The same: for lock_timeout ends the wait of the completion again and again.
TEST(Leased, ARowThatIsLockedIsCompletedLater) {
    idem::client_options impatient;
    impatient.dsn = "options='-c lock_timeout=50ms'";
    idem::client db = test::make_client(impatient);
    const std::string key = unique_key();
    event locked;
    std::future<void> other;
    idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &) {
        other = std::async(std::launch::async, [&] {
            pqxx::connection own(test::dsn());
            pqxx::work tx(own);
            tx.exec("SELECT FROM idem.idem_keys WHERE key = " + tx.quote(key) + " FOR UPDATE");
            locked.set();
            std::this_thread::sleep_for(1s);
        });
        EXPECT_TRUE(locked.wait());
    });
    other.get();
    EXPECT_EQ(state_of(key), "completed");
}

TEST(Leased, ExceptionKeepsTheKeyByOption) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    idem::leased_options keep;
    keep.exception = idem::leased_options::on_exception::keep;
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s), keep, [](idem::lease &) { throw 1; }), int);
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s), [](idem::lease &) { ADD_FAILURE(); }), idem::in_flight);
}

TEST(Leased, TakeoverKnowsTheSteps) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    idem::leased_options keep;
    keep.exception = idem::leased_options::on_exception::keep;
    std::int64_t first_fence = 0;
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s), keep,
                              [&](idem::lease &lease) {
                                  first_fence = lease.fence();
                                  lease.step("charged", [] {});
                                  lease.step("mailed", [] {});
                                  throw 1;
                              }),
                 int);
    end_lease(key);
    const idem::answer taken = idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &lease) {
        EXPECT_EQ(lease.steps(), R"({"mailed": {}, "charged": {}})");
        EXPECT_EQ(lease.attempt(), 2);
        EXPECT_GT(lease.fence(), first_fence);
    });
    EXPECT_EQ(taken.attempt, 2);
}

TEST(Leased, VanishedHolderLeavesDoubtWhereAnOperatorDecides) {
    idem::client db = test::make_client();
    const std::string scope = unique_key("scope");
    ask("SELECT idem.idem_scope_set($1, on_lease_expiry => 'manual')", {scope});
    idem::leased_options keep;
    keep.exception = idem::leased_options::on_exception::keep;
    EXPECT_THROW(idem::leased(db, idem::request{"a"}.in(scope).lease(60s), keep, [](idem::lease &) { throw 1; }), int);
    end_lease("a", scope);
    EXPECT_THROW(idem::leased(db, idem::request{"a"}.in(scope).lease(60s), [](idem::lease &) { ADD_FAILURE(); }),
                 idem::in_doubt);
    EXPECT_EQ(state_of("a", scope), "in_doubt");
}

TEST(Leased, HeartbeatOutlivesTheLeaseManyTimes) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    idem::leased(db, idem::request{key}.lease(test::kRenewedLease), [&](idem::lease &lease) {
        EXPECT_FALSE(lease.stop().wait_for(4 * test::kRenewedLease));
        EXPECT_THROW(idem::leased(db, idem::request{key}.lease(1s), [](idem::lease &) { ADD_FAILURE(); }), idem::in_flight);
        EXPECT_FALSE(lease.lost());
    });
    EXPECT_EQ(state_of(key), "completed");
}

TEST(Leased, StolenLeaseIsSignalledAndNothingIsStored) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    event told;
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(900ms),
                              [&](idem::lease &lease) {
                                  const idem::stop_callback tell(lease.stop(), [&] { told.set(); });
                                  steal(lease);
                                  EXPECT_TRUE(told.wait());
                                  EXPECT_TRUE(lease.stop().stop_requested());
                                  EXPECT_TRUE(lease.lost());
                                  EXPECT_EQ(lease.time_left(), 0s);
                                  EXPECT_THROW(lease.throw_if_lost(), idem::lease_lost);
                                  EXPECT_THROW(lease.step("here", [] {}), idem::lease_lost);
                                  return idem::response{"1"};
                              }),
                 idem::lease_lost);
    EXPECT_EQ(state_of(key), "released");
}

TEST(Leased, LossIsFoundAtTheEndIfNotSignalledBefore) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    try {
        idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &lease) { steal(lease); });
        FAIL() << "no exception";
    } catch (const idem::lease_lost &e) {
        EXPECT_EQ(e.sqlstate(), "ID001");
        EXPECT_EQ(e.key(), key);
    }
    EXPECT_EQ(state_of(key), "released");
}

TEST(Leased, LostLeaseTakesTheBusinessRowsWithIt) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s),
                              [&](idem::lease &lease) {
                                  steal(lease);
                                  pqxx::connection own(test::dsn());
                                  pqxx::work tx(own);
                                  leave_effect(tx, key);
                                  lease.complete({db, tx}, {"1"});
                                  tx.commit();
                              }),
                 idem::lease_lost);
    EXPECT_EQ(effects(key), 0);
}

// A transaction keeps the row locked and so blocks the renewals: the clock alone shows that the lease is lost.
TEST(Leased, LapsedLeaseIsSignalledInTime) {
    idem::client db = test::make_client();
    const auto delay_of_signal = [&] {
        const std::string key = unique_key();
        event told;
        std::chrono::milliseconds late{};
        const idem::answer done = idem::leased(db, idem::request{key}.lease(3s), [&](idem::lease &lease) {
            const idem::stop_callback tell(lease.stop(), [&] { told.set(); });
            pqxx::connection other(test::dsn());
            pqxx::work tx(other);
            tx.exec("SELECT idem.idem_step('" + key + "', " + std::to_string(lease.fence()) + ", 'x')");
            const auto end = steady_clock::now() + lease.time_left();
            EXPECT_TRUE(told.wait());
            late = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - end);
            EXPECT_GE(late, -2ms); // in whole milliseconds
            EXPECT_TRUE(lease.lost());
            EXPECT_THROW(lease.throw_if_lost(), idem::lease_lost);
            EXPECT_THROW(lease.step("next", [] {}), idem::lease_lost);
            EXPECT_EQ(state_of(key), "in_progress"); // and others may take it over
            return idem::response{"1"};
        });
        EXPECT_EQ(done.response, "1") << "no other caller has taken it over: the fence decides";
        EXPECT_EQ(state_of(key), "completed");
        return late;
    };
    EXPECT_LT(test::least_delay(900ms, delay_of_signal), 900ms);
}

TEST(Leased, ALapsedLeaseIsReleasedWhenTheWorkThrows) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(1s),
                              [&](idem::lease &lease) {
                                  pqxx::connection other(test::dsn());
                                  pqxx::work tx(other);
                                  tx.exec("SELECT FROM idem.idem_keys WHERE key = " + tx.quote(key) + " FOR UPDATE");
                                  EXPECT_TRUE(lease.stop().wait_for(20s));
                                  lease.throw_if_lost();
                              }),
                 idem::lease_lost);
    EXPECT_EQ(state_of(key), "released");
}

// The server grants the lease when the claim reaches it, but it counts from when the claim was sent.
TEST(Leased, AnAnswerThatComesAfterTheLeaseBeginsNoWork) {
    test::proxy between;
    idem::client_options through;
    through.dsn = between.dsn();
    idem::client db = test::make_client(through);
    for (const auto &[delay, runs] : {std::pair{700ms, true}, std::pair{2500ms, false}}) {
        const std::string key = unique_key();
        const auto work = [&](idem::lease &lease) {
            EXPECT_TRUE(runs);
            EXPECT_GT(lease.time_left(), 1500ms) << "it was renewed";
        };
        db.schema(); // which connects
        between.stall(true);
        auto call = std::async(std::launch::async, [&] { idem::leased(db, idem::request{key}.lease(2s), work); });
        std::this_thread::sleep_for(delay);
        between.stall(false);
        if (runs)
            EXPECT_NO_THROW(call.get());
        else
            EXPECT_THROW(call.get(), idem::lease_lost);
        EXPECT_EQ(state_of(key), runs ? "completed" : "released");
    }
}

TEST(Leased, CompletionCommitsWithTheBusinessRows) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const auto pay = [&] {
        return idem::leased(db, idem::request{key}.lease(5s), [&](idem::lease &lease) {
            const auto opened = idem::detail::access::begin(db, idem::isolation::read_committed, {});
            idem::transaction &tx = *opened;
            leave_effect(tx, key);
            lease.complete(tx, {200, "[1]"});
            idem::detail::access::finish(tx, {});
        });
    };
    const idem::answer first = pay();
    EXPECT_EQ(first.response, "[1]");
    EXPECT_EQ(first.status_code, 200);
    EXPECT_FALSE(first.replayed);
    EXPECT_TRUE(pay().replayed);
    EXPECT_EQ(effects(key), 1);
}

TEST(Leased, CompletionThatWasRolledBackIsNone) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s),
                              [&](idem::lease &lease) {
                                  pqxx::connection own(test::dsn());
                                  pqxx::work tx(own);
                                  leave_effect(tx, key);
                                  lease.complete({db, tx}, {"1"});
                              }),
                 idem::rolled_back);
    EXPECT_EQ(effects(key), 0);
    EXPECT_EQ(state_of(key), "released");
}

TEST(Leased, TransactionThatCompletesMayRunAgain) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    const idem::answer done = idem::leased(db, idem::request{key}.lease(test::kRenewedLease), [&](idem::lease &lease) {
        for (int i = 0; i < 2; ++i) {
            const auto opened = idem::detail::access::begin(db, idem::isolation::read_committed, {});
            idem::transaction &tx = *opened;
            leave_effect(tx, key);
            lease.complete(tx, {std::to_string(i)});
            EXPECT_FALSE(lease.stop().wait_for(test::kOverOneLease)) << "its own transaction is no loss";
            if (i == 1)
                idem::detail::access::finish(tx, {});
        }
    });
    EXPECT_EQ(done.response, "1");
    EXPECT_EQ(effects(key), 1);
}

TEST(Leased, AfterARolledBackCompletionALossIsSignalledAgain) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    EXPECT_THROW(idem::leased(db, idem::request{key}.lease(test::kRenewedLease),
                              [&](idem::lease &lease) {
                                  {
                                      const auto opened = idem::detail::access::begin(db, idem::isolation::read_committed, {});
                                      idem::transaction &tx = *opened;
                                      lease.complete(tx, {"1"});
                                  }
                                  EXPECT_FALSE(lease.stop().wait_for(test::kOverOneLease));
                                  steal(lease);
                                  EXPECT_TRUE(lease.stop().wait_for(20s));
                                  throw std::range_error("stopped");
                              }),
                 std::range_error);
    EXPECT_EQ(state_of(key), "released");
}

TEST(Leased, LongOwnTransactionsDoNotStarveOthers) {
    idem::client db = named_client("starve", 24);
    constexpr int blocked = 8, free = 4;
    std::atomic<int> done{0}, begun{0};
    std::vector<std::future<idem::answer>> all;
    event everybody;
    for (int i = 0; i < blocked + free; ++i)
        all.push_back(std::async(std::launch::async, [&, i] {
            return idem::leased(db, idem::request{unique_key()}.lease(test::kRenewedLease), [&, i](idem::lease &lease) {
                if (++begun == blocked + free)
                    everybody.set();
                EXPECT_TRUE(everybody.wait());
                if (i < blocked) {
                    const auto opened = idem::detail::access::begin(db, idem::isolation::read_committed, {});
                    idem::transaction &tx = *opened;
                    lease.complete(tx, {"1"});
                    EXPECT_FALSE(lease.stop().wait_for(2 * test::kRenewedLease));
                    idem::detail::access::finish(tx, {});
                } else {
                    EXPECT_FALSE(lease.stop().wait_for(2 * test::kRenewedLease));
                }
                ++done;
            });
        }));
    for (auto &each : all)
        EXPECT_NO_THROW(each.get());
    EXPECT_EQ(done, blocked + free);
}

TEST(Leased, TerminatedHeartbeatConnectionIsReplaced) {
    idem::client db = named_client("heartless");
    const std::string key = unique_key();
    int killed = 0;
    idem::leased(db, idem::request{key}.lease(test::kRenewedLease), [&](idem::lease &lease) {
        for (int i = 0; i < 6; ++i) {
            EXPECT_TRUE(eventually([&] {
                const std::string ended = ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                              "WHERE application_name = 'heartless' AND query LIKE '%idem_renew%'");
                return ended != "0" && ++killed;
            }));
            const auto left = lease.time_left();
            EXPECT_TRUE(eventually([&] { return lease.time_left() > left; })) << "not renewed";
        }
        EXPECT_FALSE(lease.stop().wait_for(test::kOverOneLease));
    });
    EXPECT_GE(killed, 6);
    EXPECT_EQ(state_of(key), "completed");
}

TEST(Leased, SixtyLeasesShareOneConnection) {
    idem::client db = named_client("sixty", 8);
    const std::string scope = unique_key("scope");
    constexpr int leases = 60;
    std::mutex lock;
    std::condition_variable changed;
    int begun = 0;
    bool over = false;
    std::vector<std::future<idem::answer>> all;
    for (int i = 0; i < leases; ++i)
        all.push_back(std::async(std::launch::async, [&] {
            return idem::leased(db, idem::request{unique_key()}.in(scope).lease(test::kRenewedLease), [&](idem::lease &lease) {
                std::unique_lock held(lock);
                ++begun;
                changed.notify_all();
                EXPECT_TRUE(changed.wait_for(held, 180s, [&] { return over; }));
                EXPECT_FALSE(lease.lost());
            });
        }));
    {
        std::unique_lock held(lock);
        ASSERT_TRUE(changed.wait_for(held, 60s, [&] { return begun == leases; }));
    }
    // Each is renewed after its first length is over.
    test::observer eyes;
    EXPECT_TRUE(eventually(
        [&] {
            return eyes.ask(
                       "SELECT count(*) FROM idem.idem_keys WHERE scope = $1 AND lease_until > created_at + interval '12.2 s'",
                       {scope}) == std::to_string(leases);
        },
        60s));
    EXPECT_LE(std::stoi(ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sixty'")), 9);
    EXPECT_EQ(ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sixty' AND query LIKE '%idem_renew%'"), "1");
    {
        const std::lock_guard held(lock);
        over = true;
        changed.notify_all();
    }
    for (auto &each : all)
        EXPECT_NO_THROW(each.get());
}

TEST(Leased, ServerRestartDoesNotEndALease) {
    test::private_server server;
    idem::client_options options;
    options.dsn = server.dsn();
    idem::client db = test::make_client(options);
    int runs = 0;
    for (const char *mode : {"fast", "immediate"}) {
        const std::string key = unique_key();
        const idem::answer done = idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &lease) {
            ++runs;
            server.restart(mode);
            lease.step("after the restart", [] {});
            return idem::response{"1"};
        });
        EXPECT_EQ(done.response, "1");
        EXPECT_FALSE(done.replayed);
        EXPECT_EQ(state_of(key, "", server.dsn()), "completed");
    }
    EXPECT_EQ(runs, 2);
}

TEST(Leased, RestartWhileCompletingIsWaitedFor) {
    test::private_server server;
    idem::client_options options;
    options.dsn = server.dsn();
    options.retry.attempts = 1;
    idem::client db = test::make_client(options);
    const std::string key = unique_key();
    std::future<void> back;
    const idem::answer done = idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &) {
        server.stop("immediate");
        back = std::async(std::launch::async, [&] { server.start(); });
        return idem::response{"1"};
    });
    back.get();
    EXPECT_EQ(done.response, "1");
    EXPECT_EQ(state_of(key, "", server.dsn()), "completed");
}

TEST(Leased, ServerThatIsGoneEndsALeaseInTime) {
    test::private_server server;
    idem::client_options options;
    options.dsn = server.dsn();
    idem::client db = test::make_client(options);
    const auto delay_of_signal = [&] {
        const std::string key = unique_key();
        std::chrono::milliseconds late{};
        EXPECT_THROW(idem::leased(db, idem::request{key}.lease(test::kRenewedLease),
                                  [&](idem::lease &lease) {
                                      server.stop("immediate");
                                      const auto end = steady_clock::now() + lease.time_left();
                                      EXPECT_TRUE(lease.stop().wait_for(20s));
                                      late = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - end);
                                      return idem::response{"1"};
                                  }),
                     idem::lease_lost);
        server.start();
        const idem::answer taken = idem::leased(db, idem::request{key}.lease(60s).wait(20s), [](idem::lease &lease) {
            return idem::response{std::to_string(lease.attempt())};
        });
        EXPECT_EQ(taken.response, "2");
        EXPECT_FALSE(taken.replayed);
        return late;
    };
    EXPECT_LT(test::least_delay(500ms, delay_of_signal), 500ms);
}

TEST(Leased, NothingIsSignalledAfterTheEnd) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    idem::stop_token stop;
    bool called = false;
    std::optional<idem::stop_callback> tell;
    idem::leased(db, idem::request{key}.lease(test::kRenewedLease), [&](idem::lease &lease) {
        stop = lease.stop();
        tell.emplace(stop, [&] { called = true; });
    });
    EXPECT_FALSE(stop.wait_for(test::kOverOneLease));
    tell.reset();
    EXPECT_FALSE(called);
}

// The child of the next test.
TEST(LeasedChild, Work) {
    const char *key = std::getenv("IDEM_TEST_CHILD_LEASE");
    if (key == nullptr)
        GTEST_SKIP() << "a child of another test";
    idem::client db = test::make_client();
    bool told_late = false, lost = false;
    try {
        idem::leased(db, idem::request{key}.lease(test::kRenewedLease), [&](idem::lease &lease) {
            lease.step("at work", [] {});
            while (!lease.lost()) // the process is stopped in here, and another takes over
                usleep(1000);
            lost = true;
            told_late = !lease.stop().wait_for(20s);
            pqxx::connection own(test::dsn());
            pqxx::work tx(own);
            leave_effect(tx, key);
            lease.complete({db, tx}, {"\"child\""});
            tx.commit();
        });
        _exit(1);
    } catch (const idem::lease_lost &) {
        _exit(lost && !told_late ? 0 : 2);
    }
}

TEST(Leased, PausedProcessLearnsThatItIsLate) {
    const std::string key = unique_key();
    const pid_t child = fork();
    if (child == 0) {
        setenv("IDEM_TEST_CHILD_LEASE", key.c_str(), 1);
        execl("/proc/self/exe", "idem-client-tests", "--gtest_filter=LeasedChild.Work", nullptr);
        _exit(127);
    }
    ASSERT_TRUE(eventually([&] { return ask("SELECT (steps ? 'at work')::text FROM idem.idem_lookup($1)", {key}) == "true"; }));
    ASSERT_EQ(kill(child, SIGSTOP), 0);
    idem::client db = test::make_client();
    const idem::answer taken = idem::leased(db, idem::request{key}.lease(60s).wait(60s), [&](idem::lease &lease) {
        EXPECT_EQ(lease.attempt(), 2);
        EXPECT_EQ(kill(child, SIGCONT), 0);
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), 0);
        return idem::response{"\"parent\""};
    });
    EXPECT_EQ(taken.response, "\"parent\"");
    EXPECT_EQ(effects(key), 0);
}

idem::leased_options swift_leased() {
    idem::leased_options options;
    options.retry = test::swift();
    return options;
}

// The work runs once per call and answers differently each time.
test::flow leased_alone(idem::client &beside) {
    return [&beside](idem::client &db, const std::string &key, bool) {
        int runs = 0;
        const auto call = [&](idem::client &on) {
            return idem::leased(on, idem::request{key}.of_text("work").lease(60s), swift_leased(), [&](idem::lease &lease) {
                EXPECT_EQ(lease.attempt(), 1);
                lease.step("here", [] {});
                return idem::response{201, "{\"run\": " + std::to_string(++runs) + "}"};
            });
        };
        const idem::answer told = call(db);
        EXPECT_FALSE(told.replayed);
        EXPECT_EQ(told.response, R"({"run": 1})");
        const idem::answer again = call(beside);
        EXPECT_TRUE(again.replayed);
        EXPECT_EQ(again.response, told.response);
        EXPECT_EQ(runs, 1);
    };
}

TEST(CutPoints, LeasedOnWarmConnection) {
    idem::client beside = test::make_client();
    test::at_every_cut_point(leased_alone(beside));
}

TEST(CutPoints, LeasedFromTheFirstConnect) {
    idem::client beside = test::make_client();
    test::cut_options cold;
    cold.warm = false;
    cold.client.retry = test::swift();
    test::at_every_cut_point(leased_alone(beside), cold);
}

TEST(CutPoints, LeasedWhileTheServerDoesNotNotice) {
    idem::client beside = test::make_client();
    test::cut_options slow;
    slow.unnoticed = 10ms;
    test::at_every_cut_point(leased_alone(beside), slow);
}

// The claim was executed and not committed: its transaction holds the key until the server notices the broken connection.
TEST(Leased, OwnClaimOfALostConnectionIsWaitedFor) {
    test::proxy between;
    idem::client_options through;
    through.dsn = between.dsn();
    idem::client db = test::make_client(through);
    int runs = 0;
    const auto call = [&] {
        return idem::leased(db, idem::request{unique_key()}.lease(60s), swift_leased(), [&](idem::lease &) { ++runs; });
    };
    call();
    between.arm({test::side::frontend, 4, test::moment::before, 300ms});
    EXPECT_FALSE(call().replayed);
    EXPECT_TRUE(between.has_cut());
    EXPECT_EQ(between.seen(test::side::frontend), "BDES"); // the sync, at which the server commits
    EXPECT_EQ(runs, 2);
}

// leased does not retry the work's own transaction. If that transaction fails, it leaves no effect and the key is free. If it
// commits, the answer says so, even when the reply to COMMIT was lost.
TEST(CutPoints, LeasedThatCompletesInATransaction) {
    test::observer eyes;
    for (const auto unnoticed : {0ms, 10ms}) {
        test::cut_options options;
        options.unnoticed = unnoticed;
        test::at_every_cut_point(
            [&](idem::client &db, const std::string &key, bool calm) {
                bool failed = false;
                try {
                    const idem::answer told =
                        idem::leased(db, idem::request{key}.lease(60s), swift_leased(), [&](idem::lease &lease) {
                            const auto opened = idem::detail::access::begin(db, idem::isolation::read_committed, {});
                            idem::transaction &tx = *opened;
                            leave_effect(tx, key);
                            lease.complete(tx, {201, "[1]"});
                            idem::detail::access::finish(tx, {});
                        });
                    EXPECT_EQ(told.response, "[1]");
                    EXPECT_EQ(told.status_code, 201);
                    EXPECT_FALSE(told.replayed);
                } catch (const idem::error &) {
                    failed = true;
                } catch (const pqxx::failure &) {
                    failed = true;
                }
                EXPECT_FALSE(calm && failed);
                EXPECT_EQ(eyes.effects(key), failed ? 0 : 1);
                EXPECT_EQ(eyes.ask(kState, {key, ""}), failed ? "released" : "completed");
            },
            options);
    }
}

} // namespace
