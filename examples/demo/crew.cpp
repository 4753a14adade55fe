#include "crew.hpp"

#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace demo {

void run_together(std::size_t size, const std::function<void(std::size_t place, std::stop_token stop)> &work) {
    std::stop_source stop;
    std::mutex failure_lock;
    std::exception_ptr failure;

    const auto work_at = [&](std::size_t place) {
        try {
            work(place, stop.get_token());
        } catch (...) {
            stop.request_stop();
            const std::lock_guard guard{failure_lock};
            if (!failure)
                failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> crew;
        for (std::size_t place = 0; place < size; ++place)
            crew.emplace_back(work_at, place);
    }
    if (failure)
        std::rethrow_exception(failure);
}

} // namespace demo
