// Commands that may run twice, on any connection of the pool.
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

} // namespace idem::detail
