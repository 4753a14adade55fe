// The prepared statements of a backend, in bounded memory: above the limit, the least recently used entries are freed. Each
// kind of entry has keys of its own.
#pragma once

#include "server/pg.hpp"

namespace idem {

inline constexpr int kMaxPlans = 4;

enum class PlanKind { execute, row_flow };

// The cached entry of a key. A caller's own struct derives from it.
struct PlanEntry {
    MemoryContext memory; // contains the entry
    SPIPlanPtr plan[kMaxPlans];
    bool is_valid; // find_plans returns only valid entries; an invalid one is freed after its last use has ended
    char *key;     // followed by a zero byte
    Size key_length;

    // Used only by the cache.
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

// The valid entry of the key, or nullptr.
PlanEntry *find_plans(const PlanKey &key);

// Makes a valid entry of `size` bytes, zero beyond PlanEntry. Until it is added, the entry belongs to the current memory
// context and its plans to SPI, so an error frees them.
PlanEntry *new_plans(const PlanKey &key, Size size);

// Passes the entry to the cache. Raises no error.
void add_plans(PlanEntry *entry);

// Keeps the entry from being freed until the current memory context is deleted, also by an error. REQUIRES: SPI's context.
void use_plans(PlanEntry *entry);

// Invalidates the entries of a kind that depend on `changed`, an OID or a hash, according to `is_affected`.
void invalidate_plans(PlanKind kind, bool (*is_affected)(const PlanEntry &entry, uint32 changed), uint32 changed);

} // namespace idem
