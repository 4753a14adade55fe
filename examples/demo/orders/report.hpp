// What this part prints: the load, the table, the stray script and the verdict.
#pragma once

#include <chrono>
#include <cstdint>

#include "shop.hpp"

namespace demo::orders {

struct Result {
    Ledger ledger;
    Stray stray;
    std::chrono::duration<double> time{};
};

void print_head(std::uint64_t seed);
void print_table(const Result &naive, const Result &guarded, const Log &log);
void print_stray_scripts(const Result &naive, const Result &guarded);

// True when idem kept its promises and the naive half shows what they are worth. Prints what is missing otherwise.
bool print_verdict(const Result &naive, const Result &guarded, const Log &log);

} // namespace demo::orders
