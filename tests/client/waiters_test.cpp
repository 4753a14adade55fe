// What those that wait for a holder, and a database that does not answer, leave to the other leases of a process.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <idem/leased.hpp>
#include <idem/locks.hpp>
#include <idem/transact.hpp>

#include "proxy.hpp"
#include "server.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using test::unique_key;

idem::client small_client(std::size_t connections) {
    idem::client_options options;
    options.max_connections = connections;
    options.connection_wait = 5s;
    return test::make_client(options);
}

// The waiters must leave the connection in which the holder's work, and then its completion, run.
TEST(Waiters, OfAKeyDoNotTakeTheHoldersConnection) {
    for (const std::size_t connections : {1U, 3U}) {
        idem::client db = small_client(connections);
        const std::string key = unique_key();
        std::atomic<int> runs{0};
        const auto call = [&] {
            return idem::leased(db, idem::request{key}.lease(test::kRenewedLease).wait(60s), [&](idem::lease &lease) {
                ++runs;
                std::this_thread::sleep_for(500ms); // the others are waiting by now
                lease.step("charge", [] {});
                idem::transact(db, [](idem::transaction &tx) { tx.exec("SELECT"); });
                return "1";
            });
        };
        const auto began = steady_clock::now();
        std::vector<std::future<idem::answer>> calls;
        for (int i = 0; i < 8; ++i)
            calls.push_back(std::async(std::launch::async, call));
        for (auto &each : calls)
            EXPECT_EQ(each.get().response, "1");
        EXPECT_EQ(runs, 1);
        EXPECT_LT(steady_clock::now() - began, 20s);
    }
}

TEST(Waiters, OfALockDoNotTakeTheHoldersConnection) {
    for (const std::size_t connections : {1U, 3U}) {
        idem::client db = small_client(connections);
        const std::string name = unique_key("lock");
        std::atomic<int> inside{0}, done{0};
        const auto call = [&] {
            idem::lock_options options;
            options.ttl = test::kRenewedLease;
            options.wait = 60s;
            idem::held_lock held = idem::lock(db, name, options);
            EXPECT_EQ(++inside, 1);
            std::this_thread::sleep_for(200ms);
            idem::transact(db, [&](idem::transaction &tx) { held.assert_fence(tx); });
            EXPECT_FALSE(held.lost());
            --inside;
            EXPECT_TRUE(held.unlock());
            ++done;
        };
        std::vector<std::future<void>> calls;
        for (int i = 0; i < 8; ++i)
            calls.push_back(std::async(std::launch::async, call));
        for (auto &each : calls)
            EXPECT_NO_THROW(each.get());
        EXPECT_EQ(done, 8);
    }
}

// Waits end when they are over, also where the server is asked again and again.
TEST(Waiters, AreRefusedInTime) {
    idem::client db = small_client(1);
    const std::string key = unique_key();
    idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &) {
        const auto began = steady_clock::now();
        EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s).wait(700ms), [](idem::lease &) {}), idem::in_flight);
        const auto waited = steady_clock::now() - began;
        EXPECT_GE(waited, 700ms);
        EXPECT_LT(waited, 10s);
    });
}

// One database does not answer: the leases there are signalled in time, each at its own, and those of another are renewed.
TEST(Waiters, ADatabaseThatHangsDelaysNoSignal) {
    test::proxy between;
    idem::client_options through;
    through.dsn = between.dsn();
    idem::client slow = test::make_client(through), other = test::make_client();
    const auto hold = [](idem::client &db, std::chrono::milliseconds ttl) {
        idem::lock_options options;
        options.ttl = ttl;
        return idem::lock(db, unique_key("lock"), options);
    };
    const auto worst_delay = [&] {
        idem::held_lock renewed = hold(other, test::kRenewedLease);
        std::chrono::milliseconds late{0};
        {
            idem::held_lock first = hold(slow, 3s), second = hold(slow, 4s);
            between.stall(true);
            for (idem::held_lock *each : {&first, &second}) {
                const auto end = steady_clock::now() + each->time_left();
                EXPECT_TRUE(each->stop().wait_for(20s));
                late = std::max(late, std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - end));
            }
            between.stall(false);
        }
        EXPECT_FALSE(renewed.stop().wait_for(test::kOverOneLease));
        EXPECT_TRUE(renewed.unlock());
        return late;
    };
    EXPECT_LT(test::least_delay(500ms, worst_delay), 500ms);
}

} // namespace
