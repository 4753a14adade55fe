// Where the counters are between two runs of the server: written when it has shut down, read and removed when it starts.
//
// After a crash they start from zero: what was counted went with the shared memory. A file that is damaged, of another format,
// or older than a crash is ignored. Neither function raises; what goes wrong is logged.
#pragma once

namespace idem::stats {

// REQUIRES: the postmaster, while it has no children.
void save();
void load();

} // namespace idem::stats
