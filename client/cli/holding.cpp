#include "holding.hpp"

#include <cstring>
#include <utility>

#include "exit_code.hpp"

namespace idem::cli {

child_end run_while_held(const child_options &options, signal_queue &signals, const stop_token &stop) {
    stop_event lost;
    const stop_callback set_lost(stop, [&lost] { lost.set(); });
    child_end end = run_child(options, signals, lost);
    if (end.what == child_end::how::never_attempted)
        throw interrupted{end.value};
    if (end.what == child_end::how::not_started)
        throw exit_error(end.exit_code(), "could not run \"" + options.command.front() + "\": " + std::strerror(end.value));
    return end;
}

std::string fate_of(const child_end &end) {
    if (end.out_of_reach)
        return "could not be stopped, because it runs as another user: it had ended by itself";
    return end.stopped ? "was stopped" : "had ended";
}

void throw_if_not_passed_on(const child_end &end) {
    for (const auto &[output, name] : {std::pair{&end.out, "stdout"}, std::pair{&end.err, "stderr"}})
        if (output->problem != 0)
            throw exit_error(kOutput, "could not write what the command wrote to " + std::string(name) + ": " +
                                          std::strerror(output->problem) + "; the command ended with exit code " +
                                          std::to_string(end.exit_code()) + ", and that is recorded");
}

retry_policy minute_of_retries(signal_queue &signals, std::function<bool()> is_started) {
    retry_policy policy;
    policy.attempts = 1000;
    policy.first_pause = std::chrono::milliseconds(100);
    policy.deadline = std::chrono::seconds(60);
    policy.on_retry = [&signals, is_started = std::move(is_started)](const retry_event &) {
        if (is_started())
            return;
        if (const int signal = signals.take_request())
            throw interrupted{signal};
    };
    return policy;
}

} // namespace idem::cli
