// Several clients at work at once.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

namespace demo {

// Calls work(0, ...) to work(size - 1, ...) at the same time and returns when all have returned. When one of them throws,
// the others are asked to stop, and the first exception is thrown here.
void run_together(std::size_t size, const std::function<void(std::size_t place, std::stop_token stop)> &work);

} // namespace demo
