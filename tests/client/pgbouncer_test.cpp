// Behind pgbouncer in transaction mode, with the default options: each transaction may run on another server connection, where
// the statements of the previous one are not prepared. From 1.21 on pgbouncer can carry prepared statements over, and from 1.24
// on it does so by default.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <idem/consume.hpp>
#include <idem/leased.hpp>
#include <idem/locks.hpp>
#include <idem/once.hpp>
#include <idem/target.hpp>

#include "cut_points.hpp"
#include "server.hpp"

namespace {

using namespace std::chrono_literals;
using test::ask;
using test::unique_key;

int run_pgbouncer(const std::string &arguments) {
    // Debian installs it in a directory that is only in root's PATH.
    return test::run_as_server(
        {"env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "bash", "-c", "pgbouncer " + arguments});
}

bool can_carry_prepared() {
    static const bool can =
        run_pgbouncer("--version | awk 'NR == 1 {split($2, part, \".\"); exit !(part[1] > 1 || part[2] >= 21)}'") == 0;
    return can;
}

/// A pgbouncer for one test in front of the shared server, on a Unix socket inside the cluster's directory.
class pooler {
  public:
    /// Prepared statements that each server connection may hold for its clients: with 0, they are lost between transactions.
    explicit pooler(int server_connections, int carried = 0) : directory_(std::string(std::getenv("PGHOST")) + "/pool-XXXXXX") {
        if (mkdtemp(directory_.data()) == nullptr)
            throw std::runtime_error("could not make " + directory_);
        std::ofstream(directory_ + "/ini") << "[databases]\n* = host=" << std::getenv("PGHOST")
                                           << " port=" << std::getenv("PGPORT") << " user=postgres\n"
                                           << "[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = " << directory_
                                           << "\nauth_type = any\npool_mode = transaction\ndefault_pool_size = "
                                           << server_connections << "\nserver_round_robin = 1\npidfile = " << directory_
                                           << "/pid\nlogfile = " << directory_ << "/log\n"
                                           << "ignore_startup_parameters = extra_float_digits\n"
                                           << (can_carry_prepared() ? "" : ";") << "max_prepared_statements = " << carried
                                           << "\n";
        if ((getuid() == 0 && std::system(("chown -R postgres: " + directory_).c_str()) != 0) ||
            run_pgbouncer("--daemon --quiet " + directory_ + "/ini") != 0)
            throw std::runtime_error("could not start pgbouncer");
        if (!test::eventually([this] { return answers(); }))
            throw std::runtime_error("pgbouncer does not answer");
    }
    ~pooler() {
        test::run_as_server({"bash", "-c", "kill -INT \"$(cat \"$0\"/pid)\"", directory_});
        test::eventually([this] { return access((directory_ + "/pid").c_str(), F_OK) != 0; });
        static_cast<void>(!std::system(("rm -rf " + directory_).c_str()));
    }

    std::string dsn() const { return "host=" + directory_ + " port=6432"; }

  private:
    bool answers() const {
        try {
            return ask("SELECT 1", {}, dsn()) == "1";
        } catch (const std::exception &) {
            return false;
        }
    }

    std::string directory_;
};

class Pgbouncer : public testing::Test {
  protected:
    idem::client make_client() {
        idem::client_options options; // the default ones, except for the hook
        options.dsn = pooler_.dsn();
        options.retry.on_retry = [this](const idem::retry_event &event) {
            ++retries_;
            if (event.sqlstate != "40001")
                ADD_FAILURE() << event.message;
        };
        return test::make_client(options);
    }

    // A renewal whose prepared statement was lost informs the client without a counted retry. A client that does not know of a
    // loss yet runs into one here, like a new client.
    bool knows_of_a_loss(idem::client &db) {
        const auto meets_one = [this](idem::client &client) {
            // Holds a server connection, so that the next transaction gets another.
            for (int i = 0; i < 10; ++i)
                idem::once(client, unique_key(),
                           [&](idem::transaction &) { idem::once(client, unique_key(), [](idem::transaction &) {}); });
            return retries_ > 0;
        };
        if (retries_ > 0)
            return true;
        idem::client fresh = make_client();
        return !meets_one(db) && meets_one(fresh);
    }

    static constexpr int kServers = 3;
    pooler pooler_{kServers};
    std::atomic<int> retries_{0};
};

TEST_F(Pgbouncer, OnceGoesOnWithoutPreparedStatements) {
    constexpr int kThreads = 8, kCalls = 40;
    idem::client db = make_client();
    const std::string key = unique_key();
    std::atomic<int> fresh{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            for (int j = 0; j < kCalls; ++j)
                try {
                    const std::string mine = key + "-" + std::to_string(j % 2 == 0 ? i : kThreads) + "-" + std::to_string(j);
                    const idem::answer told =
                        idem::once(db, idem::request{mine}.wait(idem::wait_limit::forever()), [&](idem::transaction &tx) {
                            test::leave_effect(tx, key);
                            return "[\"" + mine + "\"]";
                        });
                    EXPECT_EQ(told.response, "[\"" + mine + "\"]");
                    fresh += !told.replayed;
                } catch (const std::exception &e) {
                    ADD_FAILURE() << e.what();
                }
        });
    for (std::thread &each : threads)
        each.join();
    EXPECT_EQ(fresh, kThreads * kCalls / 2 + kCalls / 2);
    EXPECT_EQ(test::effects(key), fresh);
    EXPECT_GT(retries_, 0) << "nothing prepared was lost: this test shows nothing";
    const int before = retries_;
    for (int i = 0; i < 20; ++i)
        idem::once(db, unique_key(), [](idem::transaction &) {});
    EXPECT_EQ(retries_, before) << "the client has not learnt";
}

TEST_F(Pgbouncer, OnceStatementGoesOnWithoutPreparedStatements) {
    idem::client db = make_client();
    const std::string key = unique_key();
    const std::string insert = "INSERT INTO public.client_effect (key) VALUES ($1) RETURNING key";
    // Holds a server connection, so that the next transaction gets another.
    for (int i = 0; i < 10; ++i) {
        const std::string mine = key + "-" + std::to_string(i);
        idem::once(db, unique_key(),
                   [&](idem::transaction &) { EXPECT_FALSE(idem::once_statement(db, mine, insert, {mine}).replayed); });
        EXPECT_TRUE(idem::once_statement(db, mine, insert, {mine}).replayed);
        EXPECT_EQ(test::effects(mine), 1);
    }
    EXPECT_GT(retries_, 0);
}

// Renewals go through the pooler too. The leases would end without them.
TEST_F(Pgbouncer, LeasesAreRenewed) {
    constexpr int kThreads = 4;
    idem::client db = make_client();
    const std::string key = unique_key();
    std::atomic<int> fresh{0};
    const auto call = [&](int i, bool slow) {
        return idem::leased(db, idem::request{key + "-" + std::to_string(i)}.lease(test::kRenewedLease),
                            [&, i, slow](idem::lease &lease) {
                                EXPECT_EQ(lease.attempt(), 1);
                                lease.step("half", [] {});
                                if (slow) {
                                    EXPECT_FALSE(lease.stop().wait_for(test::kOverOneLease)) << "not renewed";
                                }
                                idem::transact(db, [&](idem::transaction &tx) {
                                    test::leave_effect(tx, key);
                                    lease.complete(tx, {201, "[" + std::to_string(i) + "]"});
                                });
                            });
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            try {
                const idem::answer told = call(i, true);
                EXPECT_EQ(told.response, "[" + std::to_string(i) + "]");
                fresh += !told.replayed;
                EXPECT_TRUE(call(i, true).replayed);
            } catch (const std::exception &e) {
                ADD_FAILURE() << e.what();
            }
        });
    for (std::thread &each : threads)
        each.join();
    // The client no longer prepares; the server connections change with every statement.
    for (int i = kThreads; i < kThreads + 20; ++i)
        fresh += !call(i, false).replayed;
    EXPECT_EQ(fresh, kThreads + 20);
    EXPECT_EQ(test::effects(key), fresh);
    EXPECT_GT(retries_, 0) << "nothing prepared was lost: this test shows nothing";
}

// A waiter for a lock occupies a server connection, so there must be fewer waiters than server connections.
TEST_F(Pgbouncer, LocksExcludeEachOther) {
    constexpr int kThreads = kServers - 1, kRounds = 30;
    idem::client db = make_client();
    const std::string name = unique_key("lock");
    idem::lock_options terms;
    terms.ttl = test::kRenewedLease;
    int count = 0; // guarded only by the lock
    std::int64_t last = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            for (int j = 0; j < kRounds; ++j)
                try {
                    idem::with_lock(db, name, terms, [&](idem::held_lock &held) {
                        EXPECT_GT(held.fence(), last);
                        last = held.fence();
                        const int before = count;
                        EXPECT_FALSE(held.stop().wait_for(j == 0 ? test::kOverOneLease : 1ms)) << "not renewed";
                        idem::transact(db, [&](idem::transaction &tx) {
                            held.assert_fence(tx);
                            test::leave_effect(tx, name);
                        });
                        EXPECT_FALSE(idem::try_lock(db, name, terms));
                        count = before + 1;
                    });
                } catch (const std::exception &e) {
                    ADD_FAILURE() << e.what();
                }
        });
    for (std::thread &each : threads)
        each.join();
    EXPECT_EQ(count, kThreads * kRounds);
    EXPECT_EQ(test::effects(name), count);
    EXPECT_TRUE(idem::try_lock(db, name, terms));
    EXPECT_TRUE(knows_of_a_loss(db)) << "nothing prepared was lost: this test shows nothing";
}

// Every message is delivered to all workers, alone and in batches.
TEST_F(Pgbouncer, EachMessageIsConsumedOnce) {
    constexpr int kWorkers = 6, kMessages = 30;
    idem::client db = make_client();
    const idem::consume_options options;
    const std::string key = unique_key();
    std::vector<std::string> messages;
    for (int i = 0; i < kMessages; ++i)
        messages.push_back(key + "-" + std::to_string(i));
    std::atomic<int> done{0};
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorkers; ++i)
        workers.emplace_back([&, i] {
            try {
                for (int j = 0; j < kMessages; j += 3) {
                    const std::vector<std::string> batch(messages.begin() + j, messages.begin() + j + 3);
                    if (i % 2 == 0) {
                        const auto work = [](idem::transaction &tx, const std::vector<std::string> &fresh) {
                            for (const std::string &each : fresh)
                                test::leave_effect(tx, each);
                        };
                        done += static_cast<int>(idem::consume_many(db, "tests", batch, options, work).size());
                    } else
                        for (const std::string &each : batch)
                            done += idem::consume(db, "tests", each, options,
                                                  [&](idem::transaction &tx) { test::leave_effect(tx, each); });
                }
            } catch (const std::exception &e) {
                ADD_FAILURE() << e.what();
            }
        });
    for (std::thread &each : workers)
        each.join();
    EXPECT_EQ(done, kMessages);
    for (const std::string &each : messages)
        EXPECT_EQ(test::effects(each), 1) << each;
    EXPECT_GT(retries_, 0) << "nothing prepared was lost: this test shows nothing";
}

// A client that never prepares has no loss to detect.
TEST_F(Pgbouncer, WithoutPreparingNothingIsRetried) {
    idem::client_options options;
    options.dsn = pooler_.dsn();
    options.prepare = false;
    options.retry.attempts = 1;
    idem::client db = test::make_client(options);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int j = 0; j < 20; ++j)
                EXPECT_NO_THROW(idem::once(db, unique_key(), [](idem::transaction &tx) { tx.exec("SELECT 1"); }));
        });
    for (std::thread &each : threads)
        each.join();
}

// A pooler that carries statements over prepares each once per server connection, and loses none. An older pooler loses them.
TEST(PgbouncerThatPrepares, NothingIsRetried) {
    const pooler carrying(3, 100);
    std::atomic<int> retries{0};
    idem::client_options options;
    options.dsn = carrying.dsn();
    options.retry.on_retry = [&](const idem::retry_event &) { ++retries; };
    idem::client db = test::make_client(options);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] {
            for (int j = 0; j < 20; ++j) {
                const std::string key = unique_key();
                const auto work = [&](idem::transaction &tx) { test::leave_effect(tx, key); };
                EXPECT_NO_THROW(EXPECT_FALSE(idem::once(db, key, work).replayed));
                EXPECT_NO_THROW(EXPECT_TRUE(idem::once(db, key, work).replayed));
                EXPECT_EQ(test::effects(key), 1);
            }
        });
    for (std::thread &each : threads)
        each.join();
    EXPECT_EQ(retries == 0, can_carry_prepared()) << retries << " retries";
}

// A server connection dies under a client that stays connected to the pooler.
TEST_F(Pgbouncer, AServerConnectionThatDiesIsAnAttempt) {
    idem::client_options options;
    options.dsn = pooler_.dsn();
    options.retry = test::swift();
    idem::client db = test::make_client(options);
    for (int i = 0; i < 5; ++i) {
        const std::string key = unique_key();
        int runs = 0;
        const idem::answer told = idem::once(db, key, [&](idem::transaction &tx) {
            test::leave_effect(tx, key);
            if (++runs == 1)
                tx.exec("SELECT pg_terminate_backend(pg_backend_pid())");
        });
        EXPECT_FALSE(told.replayed);
        EXPECT_EQ(test::effects(key), 1);
    }
}

// Two programs with different versions of the library share the server connections. With one name for both, each would run
// the other's statement.
TEST(PgbouncerNames, OneNameForTwoTexts) {
    static constexpr idem::detail::statement older{"test_shared", "SELECT 1"}, newer{"test_shared", "SELECT 2"};
    const pooler two(2);
    idem::client_options options;
    options.dsn = two.dsn();
    idem::client a = test::make_client(options), b = test::make_client(options);
    // Holds one of the two server connections, so that all other transactions get the other.
    pqxx::connection left(two.dsn()), right(two.dsn());
    auto holds_left = std::make_unique<pqxx::work>(left), holds_right = std::make_unique<pqxx::work>(right);
    holds_left->exec("SELECT 1");
    holds_right->exec("SELECT 1");
    holds_right.reset();
    EXPECT_EQ(*idem::detail::call(a, {&older, {}})[0][0], "1");
    holds_right = std::make_unique<pqxx::work>(right);
    holds_right->exec("SELECT 1");
    holds_left.reset();
    EXPECT_EQ(*idem::detail::call(b, {&newer, {}})[0][0], "2");
    EXPECT_EQ(*idem::detail::call(a, {&older, {}})[0][0], "1");
}

} // namespace
