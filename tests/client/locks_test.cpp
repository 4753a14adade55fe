// Lease locks, case by case.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <idem/locks.hpp>

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

idem::lock_options leased_for(idem::duration lease, idem::wait_limit wait = idem::wait_limit::forever()) {
    idem::lock_options options;
    options.ttl = lease;
    options.wait = wait;
    return options;
}

bool is_free(test::observer &eyes, const std::string &name) {
    const std::string fence = eyes.ask("SELECT idem.idem_lock($1)", {name});
    return !fence.empty() && eyes.ask("SELECT idem.idem_unlock($1, $2::int8)", {name, fence}) == "t";
}

bool is_free(const std::string &name) {
    test::observer eyes;
    return is_free(eyes, name);
}

/// Takes the lock away from its holder.
void steal(const idem::held_lock &from) {
    ASSERT_EQ(ask("SELECT idem.idem_unlock($1, $2::int8)", {from.name(), std::to_string(from.fence())}), "t");
}

TEST(Lock, OnlyOneHoldsIt) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    std::optional<idem::held_lock> held = idem::try_lock(db, name);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->name(), name);
    EXPECT_TRUE(held->is_held());
    EXPECT_FALSE(held->lost());
    EXPECT_GT(held->time_left(), 25s);
    EXPECT_FALSE(idem::try_lock(db, name));
    try {
        idem::lock(db, name, leased_for(30s, 50ms));
        FAIL() << "no exception";
    } catch (const idem::busy &e) {
        EXPECT_EQ(e.key(), name);
    }
    EXPECT_TRUE(held->unlock());
    EXPECT_FALSE(held->is_held());
    EXPECT_TRUE(held->lost());
    EXPECT_THROW(held->unlock(), idem::lease_lost);
    EXPECT_TRUE(idem::try_lock(db, name));
}

TEST(Lock, FencesGrow) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    std::int64_t last = 0;
    for (int i = 0; i < 5; ++i) {
        const idem::held_lock held = idem::lock(db, name);
        EXPECT_GT(held.fence(), last);
        last = held.fence();
    }
}

TEST(Lock, DestructionUnlocksAndAMoveDoesNot) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock"), other = unique_key("lock");
    {
        idem::held_lock held = idem::lock(db, name);
        idem::held_lock moved = std::move(held);
        EXPECT_FALSE(is_free(name));
        EXPECT_EQ(moved.name(), name);
        moved = idem::lock(db, other);
        EXPECT_TRUE(is_free(name));
        EXPECT_FALSE(is_free(other));
    }
    EXPECT_TRUE(is_free(other));
}

TEST(Lock, ScopesAreApart) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    idem::lock_options elsewhere;
    elsewhere.scope = unique_key("scope");
    const auto one = idem::try_lock(db, name), two = idem::try_lock(db, name, elsewhere);
    ASSERT_TRUE(one && two);
    EXPECT_EQ(two->scope(), elsewhere.scope);
}

TEST(Lock, BadInputIsRefused) {
    idem::client db = test::make_client();
    EXPECT_THROW(idem::try_lock(db, ""), idem::bad_input);
    EXPECT_THROW(idem::try_lock(db, "a", leased_for(0s)), idem::bad_input);
}

TEST(Lock, ThreadsExcludeEachOther) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    std::atomic<int> inside{0};
    int count = 0; // the lock is all that guards it
    std::int64_t last = 0;
    std::vector<std::future<void>> all;
    for (int i = 0; i < 8; ++i)
        all.push_back(std::async(std::launch::async, [&] {
            for (int j = 0; j < 10; ++j)
                idem::with_lock(db, name, [&](idem::held_lock &held) {
                    EXPECT_EQ(++inside, 1);
                    ++count;
                    EXPECT_GT(held.fence(), last);
                    last = held.fence();
                    std::this_thread::yield();
                    --inside;
                });
        }));
    for (auto &each : all)
        each.get();
    EXPECT_EQ(count, 80);
}

// A child of the next test.
TEST(LockChild, Count) {
    const char *file = std::getenv("IDEM_TEST_CHILD_COUNTER");
    if (file == nullptr)
        GTEST_SKIP() << "a child of another test";
    idem::client db = test::make_client();
    for (int i = 0; i < 15; ++i)
        idem::with_lock(db, std::getenv("IDEM_TEST_CHILD_LOCK"), [&](idem::held_lock &) {
            int count = -1;
            std::ifstream(file) >> count;
            std::this_thread::yield();
            std::ofstream(file) << count + 1;
        });
    _exit(HasFailure() ? 1 : 0);
}

TEST(Lock, ProcessesExcludeEachOther) {
    char file[] = "/tmp/idem-lock-XXXXXX";
    close(mkstemp(file));
    std::ofstream(file) << 0;
    const std::string name = unique_key("lock");
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
        children.push_back(fork());
        if (children.back() == 0) {
            setenv("IDEM_TEST_CHILD_COUNTER", file, 1);
            setenv("IDEM_TEST_CHILD_LOCK", name.c_str(), 1);
            execl("/proc/self/exe", "idem-client-tests", "--gtest_filter=LockChild.Count", "--gtest_brief=1", nullptr);
            _exit(127);
        }
    }
    for (const pid_t child : children) {
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    int count = 0;
    std::ifstream(file) >> count;
    EXPECT_EQ(count, 60);
    unlink(file);
}

TEST(Lock, UnlockWakesAWaiter) {
    idem::client_options options;
    options.dsn = "application_name=lockwaiter";
    idem::client db = test::make_client(options);
    const std::string name = unique_key("lock");
    idem::held_lock held = idem::lock(db, name, leased_for(10min));
    auto waiter = std::async(std::launch::async, [&] { return idem::lock(db, name, leased_for(10min)).fence(); });
    EXPECT_TRUE(eventually([] {
        return ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockwaiter' AND state = 'active'") == "1";
    }));
    const std::int64_t fence = held.fence();
    EXPECT_TRUE(held.unlock());
    EXPECT_GT(waiter.get(), fence);
}

TEST(Lock, LeaseBeginsWhenTheWaitEnds) {
    idem::client_options options;
    options.dsn = "application_name=latelock";
    idem::client db = test::make_client(options);
    const std::string name = unique_key("lock"), fence = ask("SELECT idem.idem_lock($1, '10 min')", {name});
    auto waiter = std::async(std::launch::async, [&] { return idem::lock(db, name, leased_for(test::kRenewedLease)); });
    EXPECT_TRUE(eventually([] {
        return ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'latelock' AND state = 'active'") == "1";
    }));
    std::this_thread::sleep_for(test::kOverOneLease);
    const auto freed = steady_clock::now();
    EXPECT_EQ(ask("SELECT idem.idem_unlock($1, $2::int8)", {name, fence}), "t");
    const idem::held_lock held = waiter.get();
    const auto left = held.time_left();
    EXPECT_GE(steady_clock::now() + left + 2ms, freed + test::kRenewedLease); // in whole milliseconds
    EXPECT_FALSE(held.lost());
}

TEST(Lock, HeartbeatOutlivesTheLeaseManyTimes) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    idem::held_lock held = idem::lock(db, name, leased_for(test::kRenewedLease));
    EXPECT_FALSE(held.stop().wait_for(4 * test::kRenewedLease));
    EXPECT_FALSE(idem::try_lock(db, name));
    EXPECT_TRUE(held.unlock());
}

TEST(Lock, LossIsSignalled) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    idem::held_lock held = idem::lock(db, name, leased_for(600ms));
    steal(held);
    EXPECT_TRUE(held.stop().wait_for(20s));
    EXPECT_TRUE(held.lost());
    EXPECT_THROW(held.throw_if_lost(), idem::lease_lost);
    const auto other = idem::try_lock(db, name);
    ASSERT_TRUE(other);
    EXPECT_FALSE(held.unlock());
    EXPECT_FALSE(other->lost());
    EXPECT_FALSE(is_free(name));
}

TEST(Lock, WorkUnderALostLockDoesNotCount) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    EXPECT_THROW(idem::with_lock(db, name, [](idem::held_lock &held) { steal(held); }), idem::lease_lost);
    EXPECT_EQ(idem::with_lock(db, name, [](idem::held_lock &) { return 7; }), 7);
}

TEST(Lock, ExceptionUnlocks) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    EXPECT_THROW(idem::with_lock(db, name, [](idem::held_lock &) { throw std::range_error("no"); }), std::range_error);
    EXPECT_TRUE(is_free(name));
}

TEST(Lock, AssertedFenceStopsALateTransaction) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    const idem::held_lock held = idem::lock(db, name, leased_for(10min));
    const auto write = [&] {
        pqxx::connection own(test::dsn());
        pqxx::work tx(own);
        leave_effect(tx, name);
        held.assert_fence({db, tx});
        tx.commit();
    };
    write();
    EXPECT_EQ(effects(name), 1);
    steal(held);
    EXPECT_THROW(write(), idem::lease_lost);
    EXPECT_TRUE(held.stop().stop_requested());
    EXPECT_EQ(effects(name), 1);
}

TEST(Lock, AssertingTransactionDoesNotKeepItsHolderFromRenewing) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    idem::held_lock held = idem::lock(db, name, leased_for(test::kRenewedLease));
    {
        const auto opened = idem::detail::access::begin(db, idem::isolation::read_committed, {});
        idem::transaction &tx = *opened;
        held.assert_fence(tx);
        EXPECT_FALSE(held.stop().wait_for(test::kOverOneLease));
        EXPECT_FALSE(idem::try_lock(db, name));
        idem::detail::access::finish(tx, {});
    }
    EXPECT_TRUE(held.unlock());
}

TEST(Lock, DestructionGivesUpOnATransactionThatAsserts) {
    idem::client db = test::make_client();
    const std::string name = unique_key("lock");
    pqxx::connection own(test::dsn());
    pqxx::work tx(own);
    const auto begun = steady_clock::now();
    {
        const idem::held_lock held = idem::lock(db, name);
        held.assert_fence({db, tx});
    }
    EXPECT_LT(steady_clock::now() - begun, 10s);
}

TEST(Lock, TerminatedHeartbeatConnectionIsReplaced) {
    idem::client_options options;
    options.dsn = "application_name=heartlesslock";
    idem::client db = test::make_client(options);
    idem::held_lock held = idem::lock(db, unique_key("lock"), leased_for(test::kRenewedLease));
    for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(eventually([] {
            return ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                       "WHERE application_name = 'heartlesslock' AND query LIKE '%idem_lock_renew%'") != "0";
        }));
        const auto left = held.time_left();
        EXPECT_TRUE(eventually([&] { return held.time_left() > left; })) << "not renewed";
    }
    EXPECT_FALSE(held.stop().wait_for(test::kOverOneLease));
    EXPECT_TRUE(held.unlock());
}

TEST(Lock, OutlivesAServerRestart) {
    test::private_server server;
    idem::client_options options;
    options.dsn = server.dsn();
    idem::client db = test::make_client(options);
    idem::held_lock held = idem::lock(db, "a", leased_for(60s));
    server.restart("immediate");
    EXPECT_FALSE(idem::try_lock(db, "a"));
    EXPECT_FALSE(held.lost());
    EXPECT_TRUE(held.unlock());

    idem::held_lock last = idem::lock(db, "a", leased_for(1s));
    server.stop("immediate");
    EXPECT_TRUE(last.stop().wait_for(20s));
    EXPECT_THROW(last.unlock(), idem::connection_lost);
}

// After the end no renewal is sent, and the answer to one that is under way is ignored.
TEST(Lock, NothingIsSignalledAfterTheEnd) {
    idem::client db = test::make_client();
    const auto terms = leased_for(test::kRenewedLease);
    idem::held_lock other = idem::lock(db, unique_key("lock"), terms); // keeps the heartbeat running
    std::vector<idem::stop_token> stops;
    for (const bool unlocks : {true, false}) {
        idem::held_lock held = idem::lock(db, unique_key("lock"), terms);
        stops.push_back(held.stop());
        if (unlocks) {
            EXPECT_TRUE(held.unlock());
        }
    }
    EXPECT_FALSE(stops[0].wait_for(test::kOverOneLease));
    EXPECT_FALSE(stops[1].stop_requested());
    EXPECT_TRUE(other.unlock());
}

// The holder may have the last reference to the client.
TEST(Lock, KeepsItsClientAlive) {
    std::optional<idem::held_lock> held;
    {
        idem::client db = test::make_client();
        held.emplace(idem::lock(db, unique_key("lock"), leased_for(test::kRenewedLease)));
    }
    EXPECT_FALSE(held->stop().wait_for(test::kOverOneLease));
    EXPECT_TRUE(held->unlock());
}

/// Checks that each lock becomes free. Where a connection broke, the server may execute the statement sent there only after the
/// unlocking: the lock then stays orphaned until that statement's lease ends. These ends are waited for together.
class freed_locks {
  public:
    explicit freed_locks(test::observer &eyes) : eyes_(eyes) {}
    ~freed_locks() {
        for (const std::string &name : orphaned_)
            EXPECT_TRUE(eventually([&] { return is_free(eyes_, name); })) << name;
    }

    void expect(const std::string &name, bool now) {
        if (is_free(eyes_, name))
            return;
        EXPECT_FALSE(now) << name;
        orphaned_.push_back(name);
    }

  private:
    test::observer &eyes_;
    std::vector<std::string> orphaned_;
};

idem::lock_options swift_and_short() {
    idem::lock_options options;
    options.retry = test::swift();
    options.ttl = 5s;
    return options;
}

// A lock whose first answer was lost is the same lock. After unlock() it is free, whether that was answered or not.
TEST(CutPoints, Lock) {
    test::observer eyes;
    freed_locks freed(eyes);
    for (const auto unnoticed : {0ms, 10ms}) {
        test::cut_options options;
        options.unnoticed = unnoticed;
        test::at_every_cut_point(
            [&](idem::client &db, const std::string &name, bool calm) {
                EXPECT_EQ(idem::with_lock(db, name, swift_and_short(),
                                          [&](idem::held_lock &) {
                                              EXPECT_FALSE(is_free(eyes, name));
                                              return 7;
                                          }),
                          7);
                freed.expect(name, calm);
            },
            options);
    }
}

TEST(CutPoints, TryLock) {
    test::observer eyes;
    freed_locks freed(eyes);
    for (const auto unnoticed : {0ms, 10ms}) {
        test::cut_options options;
        options.unnoticed = unnoticed;
        test::at_every_cut_point(
            [&](idem::client &db, const std::string &name, bool calm) {
                std::optional<idem::held_lock> held = idem::try_lock(db, name, swift_and_short());
                ASSERT_TRUE(held);
                EXPECT_FALSE(is_free(eyes, name));
                EXPECT_TRUE(held->unlock());
                freed.expect(name, calm);
            },
            options);
    }
}

} // namespace
