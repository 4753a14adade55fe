// Filling a ring's filter with the keys of a sealed window.
#pragma once

#include "core/key_state.hpp"
#include "storage/ring.hpp"

namespace idem {

enum class Filling {
    done,
    blocked, // a transaction that may have written to the window is open
    damaged  // the filter must be emptied first (REINDEX)
};

struct Filled {
    Filling result;
    core::Micros until; // the end of the last key's retention
};

// Whether the window belongs into the filter: there is one, and a row that comes other than by a claim would take it out.
bool may_be_in_filter(const Ring &ring, int window);

// Reads the window's keys, and puts them into the filter, or takes the window out if it may not be there. REQUIRES: no other
// session fills the ring's filter.
Filled fill_filter(const Ring &ring, int window);

} // namespace idem
