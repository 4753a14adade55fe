// Sends the load through one half, from many connections at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "half.hpp"
#include "requests.hpp"

namespace demo::payments {

inline constexpr int kConnections = 16;

// What the clients saw.
struct Tally {
    std::int64_t replays = 0;
    std::int64_t foreign_replays = 0; // to requests for another amount than the one that was charged
    std::int64_t unequal_replays = 0; // another response than the one that was made for the key
    std::int64_t in_flight_answers = 0;
    std::int64_t mismatches = 0;
    std::int64_t no_answers = 0;
    std::chrono::microseconds p50{}; // of the requests that were answered, waiting and retrying included
    std::chrono::microseconds p99{};
};

// `show_progress` is called about ten times a second from the calling thread with the number of requests done.
// REQUIRES: the half's tables exist. Throws what went wrong in a connection, unless the load itself broke it.
Tally run_load(const Load &load, const Half &half, const std::function<void(std::size_t)> &show_progress);

} // namespace demo::payments
