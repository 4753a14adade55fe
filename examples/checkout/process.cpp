#include "process.hpp"

#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <stop_token>
#include <utility>

namespace checkout {

OnEnd::OnEnd(std::function<void()> stop) {
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    waiter_ = std::jthread{[ends, stop = std::move(stop)](const std::stop_token &over) {
        int signal = 0;
        sigwait(&ends, &signal);
        // Again and again: a server that has not begun to listen does not hear it.
        for (; !over.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds{50}))
            stop();
    }};
}

OnEnd::~OnEnd() {
    waiter_.request_stop();
    pthread_kill(waiter_.native_handle(), SIGTERM);
}

} // namespace checkout
