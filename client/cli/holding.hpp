// What `run` and `lock` have in common: waiting for the right to run the command, and running it as long as the right lasts.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include <idem/error.hpp>
#include <idem/stop_token.hpp>

#include "options.hpp"
#include "process.hpp"
#include "usage.hpp"

namespace idem::cli {

/// A signal came before the command was started: ends with 128 + n, and says nothing, as if the signal had ended the program.
struct interrupted {
    int signal;
};

/// Calls `attempt(patience)` with slices of the wait, so that a signal is noticed between two of them, until it no longer
/// throws in_flight or busy or the time is up. Throws interrupted.
template <typename F> auto wait_in_slices(const patience &wait, signal_gate &gate, F &&attempt) {
    using clock = std::chrono::steady_clock;
    constexpr duration kSlice{500};
    const clock::time_point start = clock::now();
    for (;;) {
        const duration spent = std::chrono::duration_cast<duration>(clock::now() - start);
        const duration left = wait.bound ? std::max(*wait.bound - spent, duration::zero()) : duration::max();
        if (const int signal = gate.take())
            throw interrupted{signal};
        try {
            return attempt(patience(std::min(left, kSlice)));
        } catch (const in_flight &) {
            if (left <= kSlice)
                throw;
        } catch (const busy &) {
            if (left <= kSlice)
                throw;
        }
    }
}

/// Runs the command until it ends or the token says stop.
child_end run_while_held(const child_options &options, signal_gate &gate, const stop_token &stop);

/// Statements around the command are tried again for a minute while the server cannot be reached. Before the command was
/// started
/// (`is_started`) a signal ends that, by interrupted.
retry_policy patient_retry(signal_gate &gate, std::function<bool()> is_started);

} // namespace idem::cli
