// Lets the hosts start the job night after night, in one half.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bank.hpp"
#include "half.hpp"
#include "nights.hpp"

namespace demo::cron {

struct Course {
    std::vector<Part> parts;
    std::string refusal{}; // what the first host whose fence was stale was told
    std::chrono::duration<double> time{};
};

// REQUIRES: the half's tables exist. Throws what went wrong in a connection, unless the load itself broke it.
Course run_load(const Load &load, const Half &half);

} // namespace demo::cron
