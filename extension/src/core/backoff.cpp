#include "backoff.hpp"

#include <algorithm>

namespace idem::core {

Micros backoff(std::int32_t failures) {
    constexpr std::int32_t kMostDoublings = 20; // more than it takes to the longest
    const std::int32_t doublings = std::clamp(failures - 1, 0, kMostDoublings);
    return std::min(kFirstBackoff << doublings, kLongestBackoff);
}

} // namespace idem::core
