// The clock of all that is recorded, and what goes to sleep on it.
#pragma once

#include <chrono>
#include <thread>

#include "history.hpp"

namespace chaos {

inline constexpr Nanoseconds kMicrosecond = 1000;
inline constexpr Nanoseconds kMillisecond = 1000 * kMicrosecond;
inline constexpr Nanoseconds kSecond = 1000 * kMillisecond;

inline Nanoseconds now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void sleep_for(Nanoseconds span) { std::this_thread::sleep_for(std::chrono::nanoseconds(span)); }

} // namespace chaos
