#include "high_water.hpp"

#include <algorithm>

namespace idem::core {

HighWaterStep next_value(HighWater mark, std::int64_t clock, std::int64_t floor, std::int64_t ahead, bool restarted) {
    const std::int64_t last = restarted ? std::max(mark.last, mark.reserved) : mark.last;
    const std::int64_t value = std::max({last + 1, floor + 1, clock});
    const bool reserve = restarted || value > mark.reserved;
    return {value, {value, reserve ? value + ahead : mark.reserved}, reserve};
}

} // namespace idem::core
