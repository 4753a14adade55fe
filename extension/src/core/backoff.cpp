#include "core/backoff.hpp"

#include <algorithm>

namespace idem::core {

Micros backoff(std::int32_t failures) {
    constexpr std::int32_t kMaxDoublings = 20; // more than kMaxBackoff takes
    const std::int32_t doublings = std::clamp(failures - 1, 0, kMaxDoublings);
    return std::min(kFirstBackoff << doublings, kMaxBackoff);
}

} // namespace idem::core
