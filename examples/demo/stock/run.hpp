// Lets the buyers at one flow, from many connections at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flow.hpp"

namespace demo::stock {

inline constexpr std::size_t kConnections = 32;
inline constexpr std::size_t kAttempts = 1600;

// How long the shop's own work takes, by attempt. Made from a seed alone, so that it is the same for all flows.
using Load = std::vector<std::chrono::microseconds>;
Load make_load(std::uint64_t seed);

struct Course {
    std::vector<Answer> answers; // by attempt
    std::chrono::duration<double> time{};
};

// REQUIRES: the flow's tables exist. Throws what went wrong in a connection.
Course run_flow(const Flow &flow, const Load &load);

} // namespace demo::stock
