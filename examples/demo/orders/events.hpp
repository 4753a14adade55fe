// The load: which events the workers get, and when. It is made from a seed alone, so that both halves get the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "half.hpp"

namespace demo::orders {

inline constexpr int kOrders = 300;
inline constexpr int kCancelled = 60; // so many customers change their minds while their order is being shipped
inline constexpr std::size_t kWorkers = 2;

// Both workers get every event of a round, as from a queue that delivers at least once. A round begins when the one before
// it is over for both, so that a repeated event finds the order where the first one has left it.
using Round = std::array<std::vector<Event>, kWorkers>;

// Paid; shipped or cancelled; delivered. One worker hears first that an order is to be shipped, the other one that it is
// to be cancelled.
using Load = std::array<Round, 3>;
Load make_load(std::uint64_t seed);

} // namespace demo::orders
