// The file that keeps the counters between two runs of the server. It is written when the server has shut down, and read and
// removed when it starts.
//
// After a crash the counters start from zero, because they were lost with the shared memory. A file that is damaged, of another
// format, or older than a crash is ignored. A failure to read or write it is logged, and does not stop the server. Out of
// memory, or an unreadable pg_control, ends the postmaster as anywhere else in it.
#pragma once

#include "statistics/scope_counts.hpp"

namespace idem::stats {

// `read_counts` returns all counters, and `restore` adds what an earlier run has counted. REQUIRES: the postmaster, while it
// has no children.
void save(ScopeCountsList (*read_counts)());
void load(void (*restore)(const ScopeCounts &counted));

} // namespace idem::stats
