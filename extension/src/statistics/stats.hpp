// How often what was answered, scope by scope: counters in shared memory, there when the library is preloaded.
//
// What is counted is the answer, when it is given: a claim that is rolled back stays counted, as the rows that a rolled-back
// INSERT wrote do in the server's own statistics. A stale fence could not be counted otherwise, for it ends its transaction.
//
// Memory is bounded. Each of idem.stats_max_scopes slots is one (database, scope), assigned at its first event; scopes that
// find no free slot share a bucket of their database's. A slot stays its scope's as long as the server runs, resets included,
// and is given to another only when its database has been dropped. Nobody is connected to such a database, so what a backend
// remembers of its own database's slots cannot go stale, and the hot path takes no lock.
//
// The counters of a slot are spread over a few cache lines, by process: an event is one atomic addition to a line that few
// others write. A reader adds the lines up; it may see one event of a call and not yet the next, but loses none.
//
// Locks: `lock` guards which slots there are: shared to look one up or to walk over them, exclusive to assign or take back one.
// Counters are atomic and need no lock. It is taken last: while it is held, nothing is called that takes another, reads a
// catalog, or waits. start_up, save and load run in the postmaster, while there is nobody else.
#pragma once

#include "server/arguments.hpp"
#include "server/pg.hpp"

namespace idem::stats {

enum class Counter { acquired, duplicates, in_flight, in_doubt, mismatches, takeovers, stale_fences, swept };
inline constexpr int kCounters = 8;

// Adds `n` to a counter of the scope in this database. Without preload, or with idem.track_stats off, does nothing.
// REQUIRES: a scope that scope_argument let through, or that a row has.
void count(const text *scope, Counter counter, uint64 n = 1);

// What one slot holds, or a bucket of many scopes.
struct ScopeCounts {
    Oid database;  // InvalidOid: the bucket of databases that found no room for one of their own
    bool is_other; // a bucket: `name` is empty
    uint8 length;
    char name[kMaxScopeBytes];
    uint64 counts[kCounters];
};

// Whether there are counters: the library was preloaded.
bool is_available();

// Everything that was counted, or what concerns one database (with the bucket of the rest, if there is one). Slots without any
// event are left out. The list is allocated in the current memory context.
struct ScopeCountsList {
    ScopeCounts *items;
    int count;
};
ScopeCountsList all_counts();
ScopeCountsList counts_of(Oid database);

// Sets the counters of a slot or bucket, as ScopeCounts names it, back to zero.
void reset(const ScopeCounts &which);

// Adds what another run of the server counted. REQUIRES: the postmaster, before there are backends.
void restore(const ScopeCounts &counted);

// Defines the settings and, while libraries are preloaded, asks for shared memory. Once per process, from _PG_init.
void initialize();

} // namespace idem::stats
