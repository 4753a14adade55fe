#ifndef IDEM_CHAOS_CHECK_HPP
#define IDEM_CHAOS_CHECK_HPP
// Judges a history by the contract alone. Whoever writes here reads the contract and not the extension's sources, so that a
// misunderstanding is not made twice. Where the contract leaves an answer open, every answer is accepted: a violation that is
// reported is one.

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "history.hpp"

namespace chaos {

struct Violation {
    std::string guarantee;   // a short name, the same for each violation of that guarantee
    std::string key;         // the key, lock, token, order or article; empty when it is about more than one
    std::string explanation; // one sentence
    History history;         // the few transactions that show it, with the setup and the final state of that key alone
};

struct Limits {
    // For the search of one key. A key whose search is given up counts as undecided, which is not a violation.
    std::chrono::milliseconds search{2000};
    // Configurations that one search may remember; it is what bounds the memory, at about 200 bytes each.
    std::size_t configurations = 2'000'000;
    // For making one violation small.
    std::chrono::milliseconds shrink{3000};
    // Violations of one guarantee that are reported in full; the others are counted.
    std::size_t violations_per_guarantee = 5;
};

struct Report {
    std::vector<Violation> violations;
    std::size_t left_out = 0;     // further violations
    std::size_t transactions = 0; // looked at
    std::size_t calls = 0;
    std::size_t searched = 0;  // keys and locks whose history was searched for an order that explains it
    std::size_t undecided = 0; // of these, given up
    std::vector<std::string> undecided_keys;

    bool clean() const { return violations.empty(); }
};

// Complete histories only: every call of a key that was ever made is there, from the key's first use on. Does not throw but
// for want of memory. Several calls may run at a time.
Report check(const History &history, const Limits &limits = {});

// One line of figures, then each violation with its history: one line per call, times in milliseconds from the start.
void print(std::ostream &out, const Report &report);
void print(std::ostream &out, const Violation &violation);

} // namespace chaos
#endif
