#include "core/high_water.hpp"

namespace idem::core {

HighWaterStep advance(HighWater mark, std::int64_t value, std::int64_t ahead, bool restarted) {
    const bool reserve = restarted || value > mark.reserved;
    std::int64_t reserved = mark.reserved;
    if (reserve && __builtin_add_overflow(value, ahead, &reserved))
        reserved = INT64_MAX;
    return {{value, reserved}, reserve};
}

} // namespace idem::core
