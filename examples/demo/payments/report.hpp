// What the demo prints: the load, a counter while it runs, the table and the verdict.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "requests.hpp"
#include "run.hpp"
#include "shop.hpp"

namespace demo::payments {

struct Result {
    Tally tally;
    Ledger ledger;
};

void print_load(const Load &load, std::uint64_t seed);

// One line that counts up on a terminal; a line per quarter elsewhere.
std::function<void(std::size_t)> progress_of(const std::string &name, std::size_t total);

void print_table(const Load &load, const Result &naive, const Result &guarded);

// True when idem kept its promises and the naive half shows what they are worth. Prints what is missing otherwise.
bool print_verdict(const Result &naive, const Result &guarded);

} // namespace demo::payments
