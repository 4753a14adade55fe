// How often, how fast and for how long a flow is retried. No server is needed.
#include <gtest/gtest.h>

#include <stdexcept>

#include <idem/error.hpp>
#include <idem/retry.hpp>

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

const std::exception_ptr kTransient = std::make_exception_ptr(idem::transient("40001", "again"));
const std::exception_ptr kLost = std::make_exception_ptr(idem::connection_lost("08006", "lost"));
const std::exception_ptr kUnknown = std::make_exception_ptr(idem::outcome_unknown("08007", "unknown"));
const std::exception_ptr kFinal = std::make_exception_ptr(idem::mismatch("ID002", "another request"));

idem::retry_policy quick(int attempts) {
    idem::retry_policy policy;
    policy.attempts = attempts;
    policy.first_pause = 0ms;
    policy.longest_pause = 0ms;
    return policy;
}

TEST(Retry, GivesTheErrorBackWhenTheAttemptsAreUsedUp) {
    for (const int attempts : {1, 2, 5}) {
        const idem::retry_policy policy = quick(attempts);
        idem::retry_loop loop(policy);
        for (int i = 1; i < attempts; ++i) {
            EXPECT_EQ(loop.attempt(), i);
            EXPECT_NO_THROW(loop.failed(kTransient));
        }
        EXPECT_THROW(loop.failed(kTransient), idem::transient);
    }
}

TEST(Retry, AtLeastOneAttempt) {
    for (const int attempts : {0, -1}) {
        const idem::retry_policy policy = quick(attempts);
        EXPECT_THROW(idem::retry_loop{policy}, idem::bad_input);
    }
}

TEST(Retry, FinalErrorsAreThrownAtOnce) {
    const idem::retry_policy policy = quick(9);
    idem::retry_loop loop(policy);
    EXPECT_THROW(loop.failed(kFinal), idem::mismatch);
    EXPECT_THROW(loop.failed(std::make_exception_ptr(std::logic_error("no"))), std::logic_error);
    EXPECT_THROW(loop.failed(std::make_exception_ptr(7)), int);
    EXPECT_NO_THROW(loop.failed(kLost));
    EXPECT_EQ(loop.attempt(), 2);
}

TEST(Retry, AnUnknownCommitOnlyIfItCanBeVerified) {
    const idem::retry_policy policy = quick(9);
    idem::retry_loop loop(policy);
    EXPECT_THROW(loop.failed(kUnknown), idem::outcome_unknown);
    EXPECT_NO_THROW(loop.failed(kUnknown, true));
}

TEST(Retry, AConflictIsNoException) {
    const idem::retry_policy policy = quick(2);
    idem::retry_loop loop(policy);
    EXPECT_NO_THROW(loop.conflicted("ID004", "another version", kFinal));
    EXPECT_THROW(loop.conflicted("ID004", "another version", kFinal), idem::mismatch);
}

TEST(Retry, TheHookSeesEachRetry) {
    idem::retry_policy policy = quick(4);
    std::vector<idem::retry_event> seen;
    policy.on_retry = [&](const idem::retry_event &event) { seen.push_back(event); };
    idem::retry_loop loop(policy);
    loop.failed(kTransient);
    loop.failed(kLost);
    loop.conflicted("ID004", "another version", kFinal);
    EXPECT_THROW(loop.failed(kTransient), idem::transient);
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[0].attempt, 1);
    EXPECT_EQ(seen[0].sqlstate, "40001");
    EXPECT_EQ(seen[0].message, "again");
    EXPECT_EQ(seen[1].attempt, 2);
    EXPECT_EQ(seen[1].sqlstate, "08006");
    EXPECT_EQ(seen[2].sqlstate, "ID004");
}

TEST(Retry, WhatTheHookThrowsEndsTheFlow) {
    idem::retry_policy policy = quick(4);
    policy.on_retry = [](const idem::retry_event &) { throw std::runtime_error("enough"); };
    idem::retry_loop loop(policy);
    EXPECT_THROW(loop.failed(kTransient), std::runtime_error);
}

TEST(Retry, NoAttemptBeginsAfterTheDeadline) {
    idem::retry_policy policy = quick(1'000'000);
    policy.first_pause = policy.longest_pause = 5ms;
    policy.deadline = 1s;
    const auto start = steady_clock::now();
    idem::retry_loop loop(policy);
    steady_clock::time_point last = start;
    try {
        for (;;) {
            loop.failed(kTransient);
            last = steady_clock::now();
        }
    } catch (const idem::transient &) {
    }
    EXPECT_GT(loop.attempt(), 2);
    EXPECT_LE(last - start, 1s + 2s); // and the delay of the scheduler
    EXPECT_LE(*loop.time_left(), 1s);
    policy.deadline.reset();
    EXPECT_FALSE(idem::retry_loop(policy).time_left());
}

TEST(Retry, TheLongestTimesAreLong) {
    idem::retry_policy policy;
    policy.deadline = std::chrono::milliseconds::max();
    idem::retry_loop loop(policy);
    EXPECT_NO_THROW(loop.failed(std::make_exception_ptr(idem::transient("40001", "again"))));
    EXPECT_GT(*loop.time_left(), std::chrono::hours(24 * 365));
}

TEST(Retry, NegativePausesAreRefused) {
    idem::retry_policy policy;
    policy.first_pause = std::chrono::milliseconds(-1);
    EXPECT_THROW(idem::retry_loop{policy}, idem::bad_input);
    policy.first_pause = std::chrono::milliseconds(1);
    policy.longest_pause = std::chrono::milliseconds(-1);
    EXPECT_THROW(idem::retry_loop{policy}, idem::bad_input);
}

TEST(Retry, NoTimeNoRetry) {
    idem::retry_policy policy = quick(9);
    policy.first_pause = policy.longest_pause = 1ms;
    policy.deadline = 0ms;
    idem::retry_loop loop(policy);
    EXPECT_EQ(*loop.time_left(), 0ms);
    EXPECT_THROW(loop.failed(kTransient), idem::transient);
}

// Full jitter: each pause is between zero and its bound, and some are in each half of that range.
TEST(Retry, PausesAreRandomUpToTheBound) {
    constexpr int kAttempts = 6, kRounds = 60;
    idem::retry_policy policy;
    policy.attempts = kAttempts + 1;
    policy.first_pause = 200ms;
    policy.longest_pause = 1500ms;
    std::vector<std::vector<std::chrono::milliseconds>> pauses(kAttempts);
    // Throws before the pause begins.
    struct stop {};
    for (int round = 0; round < kRounds; ++round)
        for (int attempt = 0; attempt < kAttempts; ++attempt) {
            idem::retry_policy counting = policy;
            bool armed = false;
            counting.on_retry = [&](const idem::retry_event &event) {
                if (armed) {
                    pauses[static_cast<std::size_t>(attempt)].push_back(event.pause);
                    throw stop();
                }
            };
            counting.first_pause = counting.longest_pause = 0ms;
            idem::retry_loop loop(counting);
            for (int i = 0; i < attempt; ++i)
                loop.failed(kTransient);
            counting.first_pause = policy.first_pause; // the loop reads its policy each time
            counting.longest_pause = policy.longest_pause;
            armed = true;
            EXPECT_THROW(loop.failed(kTransient), stop);
        }
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const auto bound = std::min<std::chrono::milliseconds>(200ms * (1 << attempt), 1500ms);
        int lower = 0, upper = 0;
        for (const auto pause : pauses[static_cast<std::size_t>(attempt)]) {
            EXPECT_GE(pause, 0ms);
            EXPECT_LE(pause, bound);
            (pause < bound / 2 ? lower : upper) += 1;
        }
        // Each is empty with a probability of 2^-60.
        EXPECT_GT(lower, 0) << attempt;
        EXPECT_GT(upper, 0) << attempt;
    }
}

TEST(Retry, ManyAttemptsDoNotOverflowThePause) {
    idem::retry_policy policy = quick(200);
    policy.first_pause = 1ms;
    policy.longest_pause = 1ms;
    policy.on_retry = [](const idem::retry_event &event) { EXPECT_LE(event.pause, 1ms); };
    idem::retry_loop loop(policy);
    for (int i = 1; i < 200; ++i)
        loop.failed(kTransient);
    EXPECT_EQ(loop.attempt(), 200);
}

} // namespace
