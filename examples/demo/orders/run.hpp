// Sends the events through one half, with both workers at work at once.
#pragma once

#include <chrono>
#include <vector>

#include "events.hpp"
#include "half.hpp"
#include "shop.hpp"

namespace demo::orders {

struct Course {
    std::vector<Handled> handled;
    std::chrono::duration<double> time{};
};

// REQUIRES: the half's tables exist. Throws what went wrong in a connection.
Course run_load(const Load &load, const Half &half);

} // namespace demo::orders
