// Runs one thing in many threads.
#pragma once

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace bench {

// body(0), body(1), ... at once, each in a thread of its own; returns when all have ended. Throws what the first of them threw.
template <class Body> void in_threads(std::size_t count, Body body) {
    std::vector<std::exception_ptr> failures(count);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; i++)
        threads.emplace_back([&, i] {
            try {
                body(i);
            } catch (...) {
                failures[i] = std::current_exception();
            }
        });
    for (auto &thread : threads)
        thread.join();
    for (const auto &failure : failures)
        if (failure)
            std::rethrow_exception(failure);
}

} // namespace bench
