#include "server/plan_cache.hpp"

#include "server/bytes.hpp"

namespace idem {

namespace {

// A row flow's statement on a narrow table takes about 60 kB, and on one with a hundred partitions a megabyte.
constexpr Size kMaxBytes = 16 * 1024 * 1024;
constexpr int kChains = 64;

constinit PlanEntry *chains[kChains] = {}; // by hash
constinit Size bytes_of_all = 0;
constinit uint64 uses = 0;
constinit bool has_invalid = false; // entries that are invalid and not in use

PlanEntry **chain_of(uint64 hash) { return &chains[hash % kChains]; }

template <typename Visit> void for_all_entries(Visit visit) {
    for (PlanEntry *chain : chains)
        for (PlanEntry *entry = chain, *next; entry != nullptr; entry = next) {
            next = entry->next; // the visit may free the entry
            visit(entry);
        }
}

// Plans and their sources have other memory contexts than the entry.
Size bytes_of(const PlanEntry &entry) {
    Size bytes = MemoryContextMemAllocated(entry.memory, true);
    for (SPIPlanPtr plan : entry.plan) {
        if (plan == nullptr)
            continue;
        bytes += MemoryContextMemAllocated(GetMemoryChunkContext(plan), true);
        const ListCell *cell;
        foreach (cell, SPI_plan_get_plan_sources(plan)) {
            const auto *source = static_cast<const CachedPlanSource *>(lfirst(cell));
            bytes += MemoryContextMemAllocated(source->context, true);
            if (source->gplan != nullptr)
                bytes += MemoryContextMemAllocated(source->gplan->context, true);
        }
    }
    return bytes;
}

void measure(PlanEntry *entry) {
    bytes_of_all -= entry->bytes;
    entry->bytes = bytes_of(*entry);
    bytes_of_all += entry->bytes;
}

void free_entry(PlanEntry *entry) {
    PlanEntry **place = chain_of(entry->hash);
    while (*place != entry)
        place = &(*place)->next;
    *place = entry->next;
    bytes_of_all -= entry->bytes;
    for (SPIPlanPtr plan : entry->plan)
        if (plan != nullptr)
            SPI_freeplan(plan);
    MemoryContextDelete(entry->memory);
}

PlanEntry *least_recently_used() {
    PlanEntry *oldest = nullptr;
    for_all_entries([&](PlanEntry *entry) {
        if (entry->users == 0 && (oldest == nullptr || entry->last_used < oldest->last_used))
            oldest = entry;
    });
    return oldest;
}

void evict() {
    if (has_invalid)
        for_all_entries([](PlanEntry *entry) {
            if (!entry->is_valid && entry->users == 0)
                free_entry(entry);
        });
    has_invalid = false;
    while (bytes_of_all > kMaxBytes) {
        PlanEntry *oldest = least_recently_used();
        if (oldest == nullptr)
            return;
        free_entry(oldest);
    }
}

// Frees nothing, because it also runs while a transaction aborts.
void end_use(void *used) {
    auto *entry = static_cast<PlanEntry *>(used);
    if (--entry->users > 0)
        return;
    measure(entry);
    has_invalid = has_invalid || !entry->is_valid;
}

} // namespace

PlanKey plan_key(PlanKind kind, const char *bytes, Size length) {
    return {kind, bytes, length, hash_of_bytes(bytes, length, static_cast<uint64>(kind))};
}

PlanEntry *find_plans(const PlanKey &key) {
    PlanEntry *entry = *chain_of(key.hash);
    while (entry != nullptr && !(entry->is_valid && entry->hash == key.hash && entry->kind == key.kind &&
                                 entry->key_length == key.length && memcmp(entry->key, key.bytes, key.length) == 0))
        entry = entry->next;
    return entry;
}

PlanEntry *new_plans(const PlanKey &key, Size size) {
    MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "idem plans", ALLOCSET_SMALL_SIZES);
    auto *entry = static_cast<PlanEntry *>(MemoryContextAllocZero(memory, size));
    entry->memory = memory;
    entry->is_valid = true;
    entry->kind = key.kind;
    entry->hash = key.hash;
    entry->key_length = key.length;
    entry->key = static_cast<char *>(MemoryContextAlloc(memory, key.length + 1));
    memcpy(entry->key, key.bytes, key.length);
    entry->key[key.length] = '\0';
    return entry;
}

void add_plans(PlanEntry *entry) {
    for (SPIPlanPtr plan : entry->plan)
        if (plan != nullptr)
            SPI_keepplan(plan);
    MemoryContextSetParent(entry->memory, CacheMemoryContext);
    PlanEntry **chain = chain_of(entry->hash);
    entry->next = *chain;
    *chain = entry;
    measure(entry);
}

void use_plans(PlanEntry *entry) {
    auto *end = static_cast<MemoryContextCallback *>(palloc0(sizeof(MemoryContextCallback)));
    end->func = end_use;
    end->arg = entry;
    MemoryContextRegisterResetCallback(CurrentMemoryContext, end);
    entry->users++;
    entry->last_used = ++uses;
    if (has_invalid || bytes_of_all > kMaxBytes)
        evict();
}

void invalidate_plans(PlanKind kind, bool (*is_affected)(const PlanEntry &entry, uint32 changed), uint32 changed) {
    for_all_entries([&](PlanEntry *entry) {
        if (entry->kind == kind && entry->is_valid && is_affected(*entry, changed)) {
            entry->is_valid = false;
            has_invalid = true;
        }
    });
}

} // namespace idem
