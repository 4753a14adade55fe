#include "process.hpp"

#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

namespace checkout {

void on_end(std::function<void()> stop) {
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    std::thread{[ends, stop = std::move(stop)] {
        int signal = 0;
        sigwait(&ends, &signal);
        // Until main() returns: a server that has not begun to listen does not hear it.
        for (;; std::this_thread::sleep_for(std::chrono::milliseconds{50}))
            stop();
    }}.detach();
}

} // namespace checkout
