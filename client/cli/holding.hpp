// Shared by `run` and `lock`: waiting for the lease, and running the command while it is held.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <idem/error.hpp>
#include <idem/stop_token.hpp>

#include "options.hpp"
#include "process.hpp"
#include "usage.hpp"

namespace idem::cli {

/// Thrown when a signal arrives before the command is started. The exit code is 128 + n without a message, as if the signal
/// had ended the program.
struct interrupted {
    int signal;
};

/// Calls `attempt(wait_limit)` with slices of the wait, and checks for signals in between, until it no longer throws in_flight
/// or busy, or the wait is over. Throws interrupted.
template <typename F> auto wait_in_slices(const wait_limit &wait, signal_queue &signals, F &&attempt) {
    using clock = std::chrono::steady_clock;
    constexpr duration kSlice{500};
    const clock::time_point start = clock::now();
    for (;;) {
        const duration spent = std::chrono::duration_cast<duration>(clock::now() - start);
        const duration left = wait.bound ? std::max(*wait.bound - spent, duration::zero()) : duration::max();
        if (const int signal = signals.take_request())
            throw interrupted{signal};
        try {
            return attempt(wait_limit(std::min(left, kSlice)));
        } catch (const in_flight &) {
            if (left <= kSlice)
                throw;
        } catch (const busy &) {
            if (left <= kSlice)
                throw;
        }
    }
}

/// Runs the command until it ends or stop is requested.
child_end run_while_held(const child_options &options, signal_queue &signals, const stop_token &stop);

/// "had ended", "was stopped", or why it was not.
std::string fate_of(const child_end &end);

/// Throws exit_error if the command's output could not be written, for another reason than that its reader is gone.
void throw_if_not_passed_on(const child_end &end);

/// For the statements before and after the command: retries for a minute while the server cannot be reached. Until the command
/// is started (`is_started`) a signal ends the retries: interrupted is thrown.
retry_policy minute_of_retries(signal_queue &signals, std::function<bool()> is_started);

} // namespace idem::cli
