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

// Reads the window's keys, and puts them into the filter if there is one. REQUIRES: no other session fills the ring's filter.
Filled fill_filter(const Ring &ring, int window);

} // namespace idem
