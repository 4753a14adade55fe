// Several clients at work at once.
#pragma once

#include <barrier>
#include <cstddef>
#include <functional>
#include <stop_token>

namespace demo {

// Calls work(0, ...) to work(size - 1, ...) at the same time and returns when all have returned. When one of them throws,
// the others are asked to stop, and the first exception is thrown here.
void run_together(std::size_t size, const std::function<void(std::size_t place, std::stop_token stop)> &work);

// One client's place at a barrier, where some of a crew wait for each other. Whoever leaves, and be it with an exception, is
// no longer waited for.
class BarrierPlace {
  public:
    explicit BarrierPlace(std::barrier<> &barrier) : barrier_{barrier} {}
    BarrierPlace(const BarrierPlace &) = delete;
    BarrierPlace &operator=(const BarrierPlace &) = delete;
    ~BarrierPlace() { barrier_.arrive_and_drop(); }

    void wait() { barrier_.arrive_and_wait(); }

  private:
    std::barrier<> &barrier_;
};

} // namespace demo
