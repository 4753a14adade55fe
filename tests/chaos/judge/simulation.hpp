#ifndef IDEM_CHAOS_SIMULATION_HPP
#define IDEM_CHAOS_SIMULATION_HPP
// Histories of a store that keeps the contract: clients run transactions against it at the same time, each call takes effect at
// one moment between its sending and its answer. It is written from the contract as well, and shares nothing with the models.
#include <cstdint>

#include "history.hpp"

namespace chaos {

struct Simulation {
    std::uint64_t seed = 1;
    int clients = 8;
    int transactions = 300; // in all
    int names = 2;          // of each kind
    Nanoseconds lease = 20'000'000;
    Nanoseconds retention = 0; // 0: a day, which nothing survives here
    bool forgets = true;
    bool only_keys = false;
};

History simulate(const Simulation &simulation);

} // namespace chaos
#endif
