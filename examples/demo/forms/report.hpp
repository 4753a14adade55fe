// What this part prints: the load, the table and the verdict.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "shop.hpp"
#include "way.hpp"

namespace demo::forms {

struct Result {
    const Way *way;
    Mark written; // while the forms were handed out
    std::chrono::duration<double> handing_out{};
    Ledger ledger;
    std::chrono::duration<double> sending{};
};

void print_head(std::uint64_t seed);

// `results` are in the order of kWays.
void print_table(const std::vector<Result> &results);

// True when idem made each order once and wrote nothing before, and the usual ways did not. Prints what is missing otherwise.
bool print_verdict(const std::vector<Result> &results);

} // namespace demo::forms
