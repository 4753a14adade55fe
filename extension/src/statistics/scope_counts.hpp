// The counters of a scope, as they are read, written to a file and restored.
#pragma once

#include "server/arguments.hpp"
#include "server/pg.hpp"

namespace idem::stats {

enum class Counter { acquired, duplicates, in_flight, in_doubt, mismatches, takeovers, stale_fences, swept };
inline constexpr int kCounters = 8;

// The counters of one slot, or of a bucket of many scopes.
struct ScopeCounts {
    Oid database;  // InvalidOid: the bucket of the databases that have none of their own
    bool is_other; // a bucket: `name` is empty
    uint8 length;
    char name[kMaxScopeBytes];
    uint64 counts[kCounters];
};

struct ScopeCountsList {
    ScopeCounts *items;
    int count;
};

} // namespace idem::stats
