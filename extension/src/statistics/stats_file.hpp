// Where the counters are between two runs of the server: written when it has shut down, read and removed when it starts.
//
// After a crash they start from zero: what was counted went with the shared memory. A file that is damaged, of another format,
// or older than a crash is ignored. What goes wrong with the file is logged, and no reason to stop; running out of memory, or a
// pg_control that cannot be read, ends the postmaster as it would anywhere else in it.
#pragma once

namespace idem::stats {

// REQUIRES: the postmaster, while it has no children.
void save();
void load();

} // namespace idem::stats
