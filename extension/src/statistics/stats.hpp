// Counters of outcomes for each scope, in shared memory. They exist when the library is preloaded.
//
// An outcome is counted when it is returned. A claim that is rolled back stays counted, as the rows of a rolled-back INSERT do
// in the server's own statistics. A stale fence could not be counted otherwise, because it aborts its transaction.
//
// Memory is bounded. Each of idem.stats_max_scopes slots belongs to one (database, scope), and is assigned at its first event.
// Scopes that find no free slot share a bucket of their database. A slot keeps its scope while the server runs, even after a
// reset, until its database has been dropped. No backend is connected to a dropped database, so a backend's cache of its own
// database's slots is never stale, and the hot path acquires no lock.
//
// The counters of a slot are spread over a few cache lines, by process. An event is one atomic addition to a line that few
// other processes write. A reader adds the lines up. It may see one event of a call and not yet the next, but no event is lost.
//
// Locks: `lock` guards the assignment of slots: shared to look up a slot or to walk over them, exclusive to assign or free one.
// Counters are atomic and need no lock. `lock` is always acquired last: its holder acquires no other lock, reads no catalog,
// and never waits. start_up, save and load run in the postmaster, while there are no other processes.
#pragma once

#include "statistics/scope_counts.hpp"

namespace idem::stats {

// Adds `n` to a counter of the scope in this database. Does nothing without preload, or when idem.track_stats is off. REQUIRES:
// a scope that scope_argument accepted, or the scope of a row.
void count(const text *scope, Counter counter, uint64 n = 1);

// Whether counters exist: the library was preloaded.
bool is_available();

// The counters of one database and of the bucket that databases share. Slots without any event are left out. The list is
// allocated in the current memory context.
ScopeCountsList counts_of(Oid database);

// Sets the counters of the slot or bucket that `which` names to zero.
void reset(const ScopeCounts &which);

// Defines the settings and, while libraries are preloaded, requests shared memory. Called once per process, from _PG_init.
void initialize();

} // namespace idem::stats
