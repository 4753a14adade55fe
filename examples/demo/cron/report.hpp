// What this part prints: the load, the table, what a zombie is told, and the verdict.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "bank.hpp"

namespace demo::cron {

struct Result {
    Ledger ledger;
    std::string refusal;
    std::chrono::duration<double> time{};
};

void print_head(std::uint64_t seed);
void print_table(const Result &naive, const Result &guarded);

// True when the job ran once a night with idem and more often the usual way. Prints what is missing otherwise.
bool print_verdict(const Result &naive, const Result &guarded);

} // namespace demo::cron
