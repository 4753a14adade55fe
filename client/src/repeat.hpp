// Commands that may run twice, on any connection of the pool.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <idem/client.hpp>
#include <idem/error.hpp>
#include <idem/request.hpp>
#include <idem/retry.hpp>

#include "client_state.hpp"
#include "session.hpp"

namespace idem::detail {

/// Returns the result of `run(session &)`, which is retried as the policy says, also after a lost connection.
template <typename F> auto repeat(client_state &db, const retry_policy &policy, F &&run) {
    for (retry_loop loop{policy};;) {
        try {
            const pooled_session on = db.take();
            return run(*on);
        } catch (const connection_lost &) {
            db.drop_idle();
            loop.failed(std::current_exception());
        } catch (...) {
            loop.failed(std::current_exception());
        }
    }
}

// SET LOCAL would warn that there is no BEGIN, although a pipeline is one transaction.
inline constexpr statement lock_timeout_statement{"idem_lock_timeout", "SELECT pg_catalog.set_config('lock_timeout', $1, true)",
                                                  true};

/// Sets lock_timeout for the commands that run in the same pipeline.
inline command lock_timeout_command(duration timeout) { return {&lock_timeout_statement, {std::to_string(timeout.count())}}; }

/// The rest of a wait that began at `began`.
inline wait_limit left_of(const wait_limit &wait, std::chrono::steady_clock::time_point began) {
    if (!wait.bound)
        return wait;
    const auto spent = std::chrono::duration_cast<duration>(std::chrono::steady_clock::now() - began);
    return std::max(duration::zero(), *wait.bound - spent);
}

/// Waits for another holder: returns the first answer of ask(wait_limit) that is not `busy`, or the last one. The server waits
/// if begin_wait() permits it. Else it is asked after growing, random pauses, and no connection is held meanwhile.
template <typename Ask, typename Busy> auto wait_for_holder(client_state &db, const wait_limit &wait, Ask &&ask, Busy &&busy) {
    static constexpr duration kFirstPause{20}, kLongestPause{250};
    const auto began = std::chrono::steady_clock::now();
    std::random_device random;
    for (duration longest = kFirstPause;; longest = std::min(2 * longest, kLongestPause)) {
        const wait_limit left = left_of(wait, began);
        const bool may_end = left.bound && *left.bound == duration::zero();
        const bool waits = !may_end && db.begin_wait();
        auto answer = [&] {
            const std::unique_ptr<client_state, void (*)(client_state *)> end(waits ? &db : nullptr,
                                                                              [](client_state *waited) { waited->end_wait(); });
            return ask(waits ? left : wait_limit());
        }();
        if (may_end || waits || !busy(answer))
            return answer;
        const duration pause(std::uniform_int_distribution<duration::rep>(longest.count() / 2, longest.count())(random));
        std::this_thread::sleep_for(left.bound ? std::min(pause, *left.bound) : pause);
    }
}

} // namespace idem::detail
