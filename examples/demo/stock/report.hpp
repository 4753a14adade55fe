// What this part prints: the load, a line per flow as soon as it is over, and the verdict.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "flow.hpp"
#include "shop.hpp"

namespace demo::stock {

struct Result {
    const Flow *flow;
    Ledger ledger;
    std::chrono::duration<double> time{};
};

void print_head(std::uint64_t seed);
void print_result(const Result &result);

// True when every flow of idem's sold every unit once and the usual way did not. Prints what is missing otherwise.
bool print_verdict(const std::vector<Result> &results);

} // namespace demo::stock
