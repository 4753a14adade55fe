// Prepared statements that a backend keeps, in memory that is bounded: once the entries take more than that, the least recently
// used ones are freed. Each kind of entry has keys of its own.
#pragma once

#include "server/pg.hpp"

namespace idem {

inline constexpr int kMostPlans = 4;

enum class PlanKind { execute, row_flow };

// What a caller keeps under a key. Its own struct derives from this one.
struct PlanEntry {
    MemoryContext memory; // lives as long as the entry, which is in it
    SPIPlanPtr plan[kMostPlans];
    bool is_valid; // find_plans returns no other entry; one that is not valid is freed when its last use has ended
    // The bytes of the key, and a zero byte.
    char *key;
    Size key_length;

    // The cache's own.
    PlanKind kind;
    uint64 hash;
    int users; // uses that have not ended
    uint64 last_used;
    Size bytes; // when its last use ended
    PlanEntry *next;
};

// The key of an entry. The bytes are the caller's.
struct PlanKey {
    PlanKind kind;
    const char *bytes;
    Size length;
    uint64 hash;
};
PlanKey plan_key(PlanKind kind, const char *bytes, Size length);

// nullptr: there is none.
PlanEntry *find_plans(const PlanKey &key);

// A valid entry of `size` bytes, zero beyond PlanEntry. It belongs to the current memory context, as do its plans to SPI, until
// it is added: an error before that leaves nothing behind.
PlanEntry *new_plans(const PlanKey &key, Size size);

// From here on the entry belongs to the cache. Raises nothing.
void add_plans(PlanEntry *entry);

// Keeps the entry from being freed until the current memory context goes, be it by an error. REQUIRES: that is SPI's.
void use_plans(PlanEntry *entry);

// Makes entries of a kind invalid: those that `is_affected` says depend on `changed`, an OID or a hash.
void invalidate_plans(PlanKind kind, bool (*is_affected)(const PlanEntry &entry, uint32 changed), uint32 changed);

} // namespace idem
