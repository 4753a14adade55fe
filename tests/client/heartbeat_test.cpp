// Stop tokens, and what the background threads do when things go wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <dlfcn.h>
#include <future>
#include <pthread.h>
#include <stdexcept>
#include <thread>

#include <idem/leased.hpp>
#include <idem/locks.hpp>

#include "server.hpp"

namespace {
std::atomic<int> threads_left{-1}; // that can still be started; negative: no limit
} // namespace

#ifndef __SANITIZE_THREAD__
// Replaces the system's function, so that a test can let threads run out.
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    static const auto system = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    if (threads_left >= 0 && threads_left-- == 0)
        return EAGAIN;
    return system(thread, attributes, run, argument);
}
#endif

namespace {

using namespace std::chrono_literals;
using test::ask;
using test::unique_key;

idem::lock_options leased_for(idem::duration lease) {
    idem::lock_options options;
    options.ttl = lease;
    return options;
}

struct stop_source {
    std::shared_ptr<idem::detail::stop_state> state = std::make_shared<idem::detail::stop_state>();
    idem::stop_token token = idem::detail::token_of(state);
};

TEST(StopToken, OneMadeFromNothingNeverStops) {
    const idem::stop_token none;
    EXPECT_FALSE(none.stop_possible());
    EXPECT_FALSE(none.stop_requested());
    EXPECT_FALSE(none.wait_for(1ms));
    const idem::stop_callback never(none, [] { ADD_FAILURE(); });
}

TEST(StopToken, CallsEachCallbackOnce) {
    stop_source source;
    int first = 0, second = 0, gone = 0, late = 0;
    const idem::stop_callback one(source.token, [&] { ++first; });
    {
        const idem::stop_callback left(source.token, [&] { ++gone; });
    }
    const idem::stop_callback two(source.token, [&] { ++second; });
    EXPECT_TRUE(source.token.stop_possible());
    EXPECT_FALSE(source.token.stop_requested());
    source.state->request();
    source.state->request();
    EXPECT_TRUE(source.token.stop_requested());
    EXPECT_TRUE(source.token.wait_for(1h));
    const idem::stop_callback three(source.token, [&] { ++late; });
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 1);
    EXPECT_EQ(gone, 0);
    EXPECT_EQ(late, 1);
}

TEST(StopToken, ExceptionsOfCallbacksAreDropped) {
    stop_source source;
    int called = 0;
    const auto fail = [&] {
        ++called;
        throw std::runtime_error("no");
    };
    const idem::stop_callback one(source.token, fail), two(source.token, fail);
    source.state->request();
    const idem::stop_callback three(source.token, fail);
    EXPECT_EQ(called, 3);
}

TEST(StopToken, CallbackMayDestroyItselfAndOthers) {
    stop_source source;
    auto other = std::make_unique<idem::stop_callback>(source.token, [] { ADD_FAILURE() << "was destroyed before"; });
    std::unique_ptr<idem::stop_callback> self;
    bool called = false;
    self = std::make_unique<idem::stop_callback>(source.token, [&, text = std::string("a text that is on the heap")] {
        other.reset();
        self.reset();
        called = text.size() > 20;
    });
    source.state->request();
    EXPECT_TRUE(called);
}

TEST(StopToken, DestructorWaitsForACallThatRuns) {
    stop_source source;
    std::promise<void> entered;
    std::atomic<bool> done{false};
    auto callback = std::make_unique<idem::stop_callback>(source.token, [&] {
        entered.set_value();
        std::this_thread::sleep_for(50ms);
        done = true;
    });
    std::thread requester([&] { source.state->request(); });
    entered.get_future().wait();
    callback.reset();
    EXPECT_TRUE(done);
    requester.join();
}

TEST(StopToken, WakesWaiters) {
    stop_source source;
    auto waiter = std::async(std::launch::async, [&] { return source.token.wait_for(1h); });
    source.state->request();
    EXPECT_TRUE(waiter.get());
}

TEST(StopToken, RacesAreHarmless) {
    for (int i = 0; i < 200; ++i) {
        stop_source source;
        std::atomic<int> called{0};
        std::thread one([&] { source.state->request(); }), two([&] { source.state->request(); });
        {
            const idem::stop_callback callback(source.token, [&] { ++called; });
            const idem::stop_callback brief(source.token, [] {});
            EXPECT_TRUE(source.token.wait_for(20s));
            one.join();
            two.join();
        }
        EXPECT_EQ(called, 1);
    }
}

#ifndef __SANITIZE_THREAD__
TEST(Heartbeat, ThreadThatCannotBeStartedIsAnErrorAndFreesTheKey) {
    for (int threads = 0; threads < 2; ++threads) {
        idem::client db = test::make_client();
        const std::string key = unique_key();
        const auto work = [](idem::lease &) { return idem::response{"1"}; };
        threads_left = threads;
        EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s), work), idem::error);
        EXPECT_EQ(threads_left, -1);
        threads_left = 0;
        EXPECT_THROW(idem::lock(db, key, leased_for(60s)), idem::error);
        EXPECT_EQ(threads_left, -1);
        EXPECT_EQ(idem::leased(db, idem::request{key}.lease(60s), work).attempt, 2);
        EXPECT_TRUE(idem::try_lock(db, key));
    }
}
#endif

TEST(Heartbeat, ExceptionOfACallbackDoesNotStopRenewals) {
    idem::client db = test::make_client();
    idem::held_lock lost = idem::lock(db, unique_key(), leased_for(600ms)),
                    other = idem::lock(db, unique_key(), leased_for(test::kRenewedLease));
    std::promise<void> told;
    const idem::stop_callback tell(lost.stop(), [&] {
        told.set_value();
        throw std::runtime_error("no");
    });
    ask("SELECT idem.idem_unlock($1, $2::int8)", {lost.name(), std::to_string(lost.fence())});
    EXPECT_EQ(told.get_future().wait_for(20s), std::future_status::ready);
    EXPECT_FALSE(other.stop().wait_for(test::kOverOneLease));
    EXPECT_TRUE(other.unlock());
}

TEST(Heartbeat, SlowCallbackDoesNotDelayRenewals) {
    idem::client db = test::make_client();
    idem::held_lock lost = idem::lock(db, unique_key(), leased_for(600ms)),
                    other = idem::lock(db, unique_key(), leased_for(test::kRenewedLease));
    std::promise<void> told, go_on;
    const idem::stop_callback tell(lost.stop(), [&] {
        told.set_value();
        go_on.get_future().wait();
    });
    ask("SELECT idem.idem_unlock($1, $2::int8)", {lost.name(), std::to_string(lost.fence())});
    EXPECT_EQ(told.get_future().wait_for(20s), std::future_status::ready);
    EXPECT_FALSE(other.stop().wait_for(test::kOverOneLease));
    EXPECT_TRUE(other.unlock());
    go_on.set_value();
}

TEST(Heartbeat, LastReferenceToAClientMayGoInACallback) {
    std::promise<void> gone;
    std::optional<idem::held_lock> held;
    std::optional<idem::stop_callback> tell;
    {
        idem::client db = test::make_client();
        held.emplace(idem::lock(db, unique_key(), leased_for(300ms)));
    }
    const idem::stop_token stop = held->stop();
    const std::string name = held->name(), fence = std::to_string(held->fence()); // from now on the callback owns the lock
    tell.emplace(stop, [&] {
        held.reset();
        gone.set_value();
    });
    ask("SELECT idem.idem_unlock($1, $2::int8)", {name, fence});
    EXPECT_EQ(gone.get_future().wait_for(20s), std::future_status::ready);
}

TEST(Heartbeat, ConnectionIsClosedWhenNothingIsHeld) {
    idem::client_options options;
    options.dsn = "application_name=lonelyheart";
    idem::client db = test::make_client(options);
    const auto connections = [] { return ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lonelyheart'"); };
    for (int i = 0; i < 2; ++i) {
        idem::held_lock held = idem::lock(db, unique_key(), leased_for(test::kRenewedLease));
        EXPECT_TRUE(test::eventually([&] { return connections() == "2"; }));
        EXPECT_TRUE(held.unlock());
        EXPECT_TRUE(test::eventually([&] { return connections() == "1"; }));
    }
}

} // namespace
