#include "holding.hpp"

#include <cstring>

#include "exit_code.hpp"

namespace idem::cli {

child_end run_while_held(const child_options &options, signal_gate &gate, const stop_token &stop) {
    bell lost;
    const stop_callback ring(stop, [&lost] { lost.ring(); });
    child_end end = run_child(options, gate, lost);
    if (end.what == child_end::how::never_attempted)
        throw interrupted{end.value};
    if (end.what == child_end::how::not_started)
        throw exit_error(end.exit_code(), "could not run \"" + options.command.front() + "\": " + std::strerror(end.value));
    return end;
}

retry_policy patient_retry(signal_gate &gate, std::function<bool()> is_started) {
    retry_policy policy;
    policy.attempts = 1000;
    policy.first_pause = std::chrono::milliseconds(100);
    policy.deadline = std::chrono::seconds(60);
    policy.on_retry = [&gate, is_started = std::move(is_started)](const retry_event &) {
        if (is_started())
            return;
        if (const int signal = gate.take())
            throw interrupted{signal};
    };
    return policy;
}

} // namespace idem::cli
