// The pool of connections: its limit, its waits, and broken connections.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include <idem/ids.hpp>
#include <idem/locks.hpp>
#include <idem/once.hpp>
#include <idem/target.hpp>

#include "cut_points.hpp"
#include "server.hpp"

namespace {

using namespace std::chrono_literals;
using test::ask;
using test::unique_key;

constexpr idem::detail::statement kPid{"test_pid", "SELECT pg_catalog.pg_backend_pid()"};

std::string pid_of(const idem::target &where) { return *idem::detail::call(where, {&kPid, {}})[0][0]; }

/// Options with an application_name by which a test finds its own sessions.
idem::client_options named(const std::string &name) {
    idem::client_options options;
    options.dsn = "application_name=" + name;
    options.retry = test::swift();
    return options;
}

int sessions_of(const std::string &name) {
    return std::stoi(ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", {name}));
}

TEST(Pool, ConnectsWhenFirstNeededAndKeepsTheConnection) {
    const std::string name = unique_key("pool");
    idem::client db = test::make_client(named(name));
    EXPECT_EQ(sessions_of(name), 0);
    const std::string first = pid_of(db);
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(pid_of(db), first);
    EXPECT_EQ(sessions_of(name), 1);
    idem::client copy = db;
    EXPECT_EQ(pid_of(copy), first);
}

TEST(Pool, TooSmallABoundIsRefused) {
    idem::client_options options;
    options.max_connections = 0;
    EXPECT_THROW(idem::client{options}, idem::bad_input);
    options.max_connections = 1;
    options.retry.attempts = 0;
    EXPECT_THROW(idem::client{options}, idem::bad_input);
}

TEST(Pool, ThrowsInTimeIfNoConnectionIsFree) {
    idem::client_options options = named(unique_key("pool"));
    options.max_connections = 2;
    options.connection_wait = 50ms;
    idem::client db = test::make_client(options);
    idem::once(db, unique_key(), [&](idem::transaction &) {
        idem::once(db, unique_key(), [&](idem::transaction &) {
            const auto start = std::chrono::steady_clock::now();
            EXPECT_THROW(idem::once(db, unique_key(), [](idem::transaction &) {}), idem::pool_exhausted);
            const auto spent = std::chrono::steady_clock::now() - start;
            EXPECT_GE(spent, 50ms);
            EXPECT_LT(spent, 5s);
        });
    });
    EXPECT_FALSE(idem::once(db, unique_key(), [](idem::transaction &) {}).replayed);
}

TEST(Pool, WaiterGetsTheFirstFreeConnection) {
    idem::client_options options = named(unique_key("pool"));
    options.max_connections = 1;
    idem::client db = test::make_client(options);
    std::future<idem::answer> waiting;
    idem::once(db, unique_key(), [&](idem::transaction &) {
        waiting = std::async(std::launch::async, [&] { return idem::once(db, unique_key(), [](idem::transaction &) {}); });
        EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
    });
    EXPECT_FALSE(waiting.get().replayed);
}

// The caller's own transaction needs no connection of the pool once the names are known.
TEST(Pool, ACallInAForeignTransactionTakesNoConnection) {
    idem::client_options options = named(unique_key("pool"));
    options.max_connections = 1;
    options.connection_wait = 0ms;
    idem::client db = test::make_client(options);
    pid_of(db);
    pqxx::connection own(test::dsn());
    pqxx::work tx(own);
    idem::once(db, unique_key(), [&](idem::transaction &) { EXPECT_NE(pid_of(idem::target(db, tx)), ""); });
}

TEST(Pool, ManyThreadsShareFewConnections) {
    constexpr int kThreads = 16, kCalls = 200;
    const std::string name = unique_key("pool"), key = unique_key();
    idem::client_options options = named(name);
    options.max_connections = 4;
    idem::client db = test::make_client(options);
    std::atomic<int> fresh{0}, replayed{0}, failed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            for (int j = 0; j < kCalls; ++j)
                try {
                    // All threads use every second key.
                    const bool shared = j % 2 == 0;
                    const std::string mine = key + "-" + (shared ? "all" : std::to_string(i)) + "-" + std::to_string(j);
                    const idem::answer told =
                        idem::once(db, idem::request{mine}.wait(idem::wait_limit::forever()), [&](idem::transaction &tx) {
                            test::leave_effect(tx, key);
                            return "[\"" + mine + "\"]";
                        });
                    if (told.response != "[\"" + mine + "\"]")
                        ++failed;
                    ++(told.replayed ? replayed : fresh);
                } catch (const std::exception &e) {
                    ++failed;
                    ADD_FAILURE() << e.what();
                }
        });
    int most = 0;
    for (int i = 0; i < 10; ++i)
        most = std::max(most, sessions_of(name));
    for (std::thread &each : threads)
        each.join();
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(fresh, kCalls / 2 + kThreads * kCalls / 2);
    EXPECT_EQ(replayed, (kThreads - 1) * kCalls / 2);
    EXPECT_EQ(test::effects(key), fresh);
    EXPECT_LE(std::max(most, sessions_of(name)), 4);
}

// The same while connections are being killed all the time.
TEST(Pool, ManyThreadsWhileConnectionsBreak) {
    constexpr int kThreads = 8, kCalls = 50;
    const std::string name = unique_key("pool"), key = unique_key();
    idem::client_options options = named(name);
    options.max_connections = 4;
    options.retry.attempts = 1000;
    idem::client db = test::make_client(options);
    std::atomic<bool> done{false};
    std::atomic<int> fresh{0};
    std::thread killer([&] {
        while (!done)
            ask("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE application_name = $1 "
                "ORDER BY random() LIMIT 1) one",
                {name});
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            for (int j = 0; j < kCalls; ++j)
                try {
                    const std::string mine = key + "-" + std::to_string(i) + "-" + std::to_string(j);
                    fresh += !idem::once(db, mine, [&](idem::transaction &tx) { test::leave_effect(tx, key); }).replayed;
                } catch (const std::exception &e) {
                    ADD_FAILURE() << e.what();
                }
        });
    for (std::thread &each : threads)
        each.join();
    done = true;
    killer.join();
    EXPECT_EQ(fresh, kThreads * kCalls);
    EXPECT_EQ(test::effects(key), kThreads * kCalls);
}

TEST(Pool, ABrokenConnectionIsThrownAway) {
    const std::string name = unique_key("pool");
    idem::client_options options = named(name);
    options.max_connections = 1;
    options.connection_wait = 0ms;
    idem::client db = test::make_client(options);
    for (int i = 0; i < 3; ++i) {
        const std::string before = pid_of(db);
        int runs = 0;
        idem::once(db, unique_key(), [&](idem::transaction &tx) {
            if (++runs == 1)
                tx.exec("SELECT pg_terminate_backend(pg_backend_pid())");
        });
        EXPECT_EQ(runs, 2);
        EXPECT_NE(pid_of(db), before);
    }
}

// No attempt is lost, and no call has an unknown outcome: the server's last message is read before anything is sent.
TEST(Pool, ARestartWhileIdleGoesUnnoticed) {
    test::private_server server;
    idem::client_options options;
    options.dsn = server.dsn();
    options.retry.attempts = 1;
    idem::client db = test::make_client(options);
    for (const char *mode : {"fast", "immediate"}) {
        std::vector<std::future<std::string>> crowd;
        std::promise<void> all;
        std::shared_future<void> together = all.get_future().share();
        std::atomic<int> arrived{0};
        for (int i = 0; i < 4; ++i)
            crowd.push_back(std::async(std::launch::async, [&] {
                std::string pid;
                idem::once(db, unique_key(), [&](idem::transaction &tx) {
                    pid = pid_of(tx);
                    if (++arrived == 4)
                        all.set_value();
                    together.wait();
                });
                return pid;
            }));
        for (auto &each : crowd)
            EXPECT_NE(each.get(), "");
        server.restart(mode);
        EXPECT_NO_THROW(pid_of(db)) << mode; // a statement that is not repeatable
        EXPECT_NO_THROW(idem::once(db, unique_key(), [](idem::transaction &) {})) << mode;
    }
}

TEST(Pool, AFailedConnectGivesItsPlaceBack) {
    idem::client_options options;
    options.dsn = "host=/nonexistent";
    options.max_connections = 1;
    options.connection_wait = 0ms;
    options.retry = test::swift();
    options.retry.attempts = 2;
    idem::client db = test::make_client(options);
    for (int i = 0; i < 3; ++i)
        EXPECT_THROW(idem::once(db, unique_key(), [](idem::transaction &) {}), idem::connection_lost);
    EXPECT_THROW(db.schema(), idem::connection_lost);
}

TEST(Pool, AnExceptionWhileConnectingGivesThePlaceBack) {
    idem::client_options options = named(unique_key("pool"));
    options.max_connections = 1;
    options.connection_wait = 0ms;
    int connects = 0;
    struct refused : std::exception {};
    options.on_connect = [&](idem::connection &) {
        if (++connects <= 2)
            throw refused();
    };
    idem::client db = test::make_client(options);
    for (int i = 0; i < 2; ++i)
        EXPECT_THROW(idem::once(db, unique_key(), [](idem::transaction &) {}), refused);
    EXPECT_FALSE(idem::once(db, unique_key(), [](idem::transaction &) {}).replayed);
    EXPECT_EQ(connects, 3);
}

TEST(Pool, NoticesReachTheirCaller) {
    idem::client_options options = named(unique_key("pool"));
    std::vector<std::string> seen;
    options.on_notice = [&](const std::string &severity, const std::string &message) {
        seen.push_back(severity + " " + message);
        throw std::runtime_error("not heard of");
    };
    idem::client db = test::make_client(options);
    idem::once(db, unique_key(), [](idem::transaction &tx) { tx.exec("DO $$ BEGIN RAISE WARNING 'look'; END $$"); });
    EXPECT_EQ(seen, std::vector<std::string>{"WARNING look"});
}

TEST(Pool, AConnectionThatTheWorkClosedIsNotUsedAgain) {
    idem::client_options options = named(unique_key("pool"));
    options.max_connections = 1;
    options.retry.attempts = 1;
    idem::client db = test::make_client(options);
    const std::string key = unique_key();
    EXPECT_ANY_THROW(idem::once(db, key, [](idem::transaction &tx) { idem::detail::close_connection(tx.conn()); }));
    // The old backend may not have noticed yet, and holds the key until it does.
    const idem::request again = idem::request{key}.wait(idem::wait_limit::forever());
    EXPECT_FALSE(idem::once(db, again, [](idem::transaction &tx) { tx.exec("SELECT 1"); }).replayed);
}

TEST(Pool, ATransientErrorWhileConnectingDoesNotEndTheHeart) {
    idem::client_options options = named(unique_key("pool"));
    const auto here = std::this_thread::get_id();
    std::atomic<int> refused{0}, accepted{0};
    options.on_connect = [&](idem::connection &) {
        if (std::this_thread::get_id() == here)
            return;
        if (++refused <= 2)
            throw idem::transient("40001", "not now");
        ++accepted;
    };
    idem::client db = test::make_client(options);
    idem::lock_options terms;
    terms.ttl = test::kRenewedLease;
    const std::optional<idem::held_lock> held = try_lock(db, unique_key(), terms);
    ASSERT_TRUE(held);
    EXPECT_TRUE(test::eventually([&] { return accepted == 1 && held->time_left() > 4s; }));
    EXPECT_FALSE(held->lost());
}

TEST(Pool, TheLongestWaitIsLong) {
    idem::client_options options = named(unique_key("pool"));
    options.max_connections = 1;
    options.connection_wait = std::chrono::milliseconds::max();
    idem::client db = test::make_client(options);
    std::future<idem::answer> waiting;
    idem::once(db, unique_key(), [&](idem::transaction &) {
        waiting = std::async(std::launch::async, [&] { return idem::once(db, unique_key(), [](idem::transaction &) {}); });
        EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
    });
    EXPECT_NO_THROW(waiting.get());
}

TEST(Pool, AGivenSchemaIsQuotedAndNotLookedUp) {
    idem::client_options options;
    options.dsn = "host=/nonexistent";
    options.schema = R"(Odd "one")";
    EXPECT_EQ(test::make_client(options).schema(), R"("Odd ""one""")");
    options.dsn = "";
    options.schema = "idem";
    idem::client db = test::make_client(options);
    EXPECT_FALSE(idem::once(db, unique_key(), [](idem::transaction &) {}).replayed);
    options.schema = "idem.idem_health(), idem"; // SQL injection, unless it is quoted as a name
    idem::client wrong = test::make_client(options);
    EXPECT_THROW(next_id(wrong), idem::not_installed);
}

// The prepared statements of the connections outlive the types that they use.
TEST(Pool, SurvivesAReinstalledExtension) {
    test::private_server server;
    idem::client_options options;
    options.dsn = server.dsn();
    options.retry.attempts = 1;
    idem::client db = test::make_client(options);
    const std::string key = unique_key();
    const auto call = [&] { return idem::once(db, key, [](idem::transaction &) {}).replayed; };
    const auto statement = [&] { return idem::once_statement(db, key + "s", "SELECT 1").replayed; };
    EXPECT_FALSE(call());
    EXPECT_FALSE(statement());
    server.reinstall();
    EXPECT_FALSE(call());
    EXPECT_FALSE(statement());
}

} // namespace
