// What the two programs do to end when they are told to, and when the script that started them does.
#pragma once

#include <functional>
#include <thread>

namespace checkout {

// While it lives, SIGINT and SIGTERM, also sent when the parent ends, call `stop` in a thread of its own. REQUIRES: no other
// thread was started yet.
class OnEnd {
  public:
    explicit OnEnd(std::function<void()> stop);
    ~OnEnd();
    OnEnd(const OnEnd &) = delete;
    OnEnd &operator=(const OnEnd &) = delete;

  private:
    std::jthread waiter_;
};

} // namespace checkout
