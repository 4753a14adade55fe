#include "nights.hpp"

#include <algorithm>
#include <random>

namespace demo::cron {
namespace {

using Random = std::mt19937_64;

static_assert(kDeaths + kPauses + kLongNights < kNights);

std::chrono::milliseconds between(Random &random, int low, int high) {
    return std::chrono::milliseconds{std::uniform_int_distribution{low, high}(random)};
}

} // namespace

Load make_load(std::uint64_t seed) {
    Random random{seed};
    Load load;
    for (std::size_t night = 0; night < kNights; ++night) {
        load.push_back({.mishap = Mishap::none, .work_time = between(random, 5, 10), .late_by = {}});
        for (auto &late_by : load.back().late_by)
            late_by = between(random, 0, 40);
    }
    for (std::size_t night = 0; night < kDeaths + kPauses; ++night)
        load[night].mishap = night < kDeaths ? Mishap::dies : Mishap::paused;
    for (std::size_t night = kNights - kLongNights; night < kNights; ++night)
        load[night].work_time = 2 * kLease;
    std::shuffle(load.begin(), load.end(), random);
    return load;
}

} // namespace demo::cron
