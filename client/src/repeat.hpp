// Commands that may run twice, on whatever connection of the pool works.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include <idem/client.hpp>
#include <idem/error.hpp>
#include <idem/request.hpp>
#include <idem/retry.hpp>

#include "client_state.hpp"
#include "session.hpp"

namespace idem::detail {

/// Returns what `run(session &)` returns, and runs it again as the policy says, after a lost connection too.
template <typename F> auto repeat(client_state &db, const retry_policy &policy, F &&run) {
    for (retry_loop loop{policy};;) {
        try {
            const session_lease on = db.take();
            return run(*on);
        } catch (const connection_lost &) {
            db.drop_idle();
            loop.failed(std::current_exception());
        } catch (...) {
            loop.failed(std::current_exception());
        }
    }
}

// Not SET LOCAL, which warns where there is no BEGIN; a pipeline is one transaction all the same.
inline constexpr statement lock_timeout_statement{"idem_lock_timeout", "SELECT pg_catalog.set_config('lock_timeout', $1, true)",
                                                  true};

/// Bounds the waits for locks of the commands that are run together with it.
inline command lock_timeout_command(duration longest) { return {&lock_timeout_statement, {std::to_string(longest.count())}}; }

/// What is left of a wait that began then.
inline patience left_of(const patience &wait, std::chrono::steady_clock::time_point began) {
    if (!wait.bound)
        return wait;
    const auto spent = std::chrono::duration_cast<duration>(std::chrono::steady_clock::now() - began);
    return std::max(duration::zero(), *wait.bound - spent);
}

} // namespace idem::detail
