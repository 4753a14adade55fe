// What the two programs do to end when they are told to, and when the script that started them does.
#pragma once

#include <functional>

namespace checkout {

// From now on SIGINT and SIGTERM, also sent when the parent ends, call `stop`, in a thread of its own. REQUIRES: no other
// thread was started yet.
void on_end(std::function<void()> stop);

} // namespace checkout
