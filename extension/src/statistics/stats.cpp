#include "statistics/stats.hpp"

#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "statistics/stats_file.hpp"

namespace idem::stats {

namespace {

constexpr const char *kName = "idem_stats";

constexpr int kStripes = 8;
static_assert((kStripes & (kStripes - 1)) == 0);

// Buckets: one for each database that needs one, and the last for all others.
constexpr int kBuckets = 33;

// The least time between two searches for dropped databases.
constexpr int kReclaimIntervalMs = 1000;

struct alignas(PG_CACHE_LINE_SIZE) Stripe {
    pg_atomic_uint64 counters[kCounters];
};

struct Slot {
    Stripe stripes[kStripes];
};

struct Key {
    Oid database;
    uint8 length;
    char name[kMaxScopeBytes];
};

struct Entry {
    Key key;
    int slot;
};

struct Shared {
    LWLock *lock;
    pg_atomic_uint64 reclaimed_at;  // a TimestampTz
    Oid bucket_databases[kBuckets]; // InvalidOid: free; the last one is always InvalidOid
    int free_slots;
    int free[FLEXIBLE_ARRAY_MEMBER];
};

constinit int max_scopes = 1000;
constinit bool track_stats = true;

constinit Shared *shared = nullptr;
constinit HTAB *entries = nullptr;
constinit Slot *slots = nullptr; // max_scopes slots, then kBuckets buckets

constinit shmem_request_hook_type next_shmem_request_hook = nullptr;
constinit shmem_startup_hook_type next_shmem_startup_hook = nullptr;

// --- Memory --------------------------------------------------------------------------------------------------------------

Size shared_size() { return add_size(offsetof(Shared, free), mul_size(sizeof(int), max_scopes)); }

Size slots_size() { return mul_size(sizeof(Slot), max_scopes + kBuckets) + PG_CACHE_LINE_SIZE; }

uint32 hash_key(const void *key, Size) {
    const auto *wanted = static_cast<const Key *>(key);
    return hash_combine(static_cast<uint32>(hash_of_bytes(wanted->name, wanted->length)), wanted->database);
}

int compare_keys(const void *left, const void *right, Size) {
    const auto *a = static_cast<const Key *>(left);
    const auto *b = static_cast<const Key *>(right);
    return a->database == b->database && a->length == b->length && memcmp(a->name, b->name, a->length) == 0 ? 0 : 1;
}

void request_memory() {
    if (next_shmem_request_hook != nullptr)
        next_shmem_request_hook();
    RequestAddinShmemSpace(
        add_size(add_size(shared_size(), slots_size()), hash_estimate_size(Max(max_scopes, 1), sizeof(Entry))));
    RequestNamedLWLockTranche(kName, 1);
}

void zero(Slot *slot) {
    for (Stripe &stripe : slot->stripes)
        for (pg_atomic_uint64 &counter : stripe.counters)
            pg_atomic_write_u64(&counter, 0);
}

void prepare_slots() {
    for (int i = 0; i < max_scopes + kBuckets; i++)
        for (Stripe &stripe : slots[i].stripes)
            for (pg_atomic_uint64 &counter : stripe.counters)
                pg_atomic_init_u64(&counter, 0);
    for (Oid &database : shared->bucket_databases)
        database = InvalidOid;
    pg_atomic_init_u64(&shared->reclaimed_at, 0);
    shared->free_slots = max_scopes;
    for (int i = 0; i < max_scopes; i++)
        shared->free[i] = max_scopes - 1 - i; // slot 0 is assigned first
}

ScopeCountsList all_counts();
void restore(const ScopeCounts &counted);

void save_at_exit(int code, Datum) {
    if (code == 0 && shared != nullptr)
        save(all_counts);
}

void start_up() {
    if (next_shmem_startup_hook != nullptr)
        next_shmem_startup_hook();
    shared = nullptr; // after a crash, the postmaster runs this again
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    bool found;
    auto *header = static_cast<Shared *>(ShmemInitStruct(kName, shared_size(), &found));
    bool slots_found;
    slots = reinterpret_cast<Slot *>(CACHELINEALIGN(ShmemInitStruct("idem_stats slots", slots_size(), &slots_found)));
    HASHCTL layout{};
    layout.keysize = sizeof(Key);
    layout.entrysize = sizeof(Entry);
    layout.hash = hash_key;
    layout.match = compare_keys;
    entries = compat_shmem_init_hash("idem_stats scopes", Max(max_scopes, 1), &layout,
                                     HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_FIXED_SIZE);
    shared = header;
    if (!found) {
        shared->lock = &GetNamedLWLockTranche(kName)->lock;
        prepare_slots();
    }
    LWLockRelease(AddinShmemInitLock);
    if (IsUnderPostmaster)
        return;
    on_shmem_exit(save_at_exit, Datum{0});
    if (!found)
        load(restore);
}

// --- Slots ---------------------------------------------------------------------------------------------------------------

Key key_of(Oid database, const char *name, Size length) {
    Key key;
    memset(&key, 0, sizeof key);
    key.database = database;
    key.length = static_cast<uint8>(length);
    memcpy(key.name, name, length);
    return key;
}

// Returns nullptr when no slot is free. REQUIRES: the lock, exclusively.
Entry *assign_slot(const Key &key) {
    auto *entry = static_cast<Entry *>(hash_search(entries, &key, HASH_FIND, nullptr));
    if (entry != nullptr || shared->free_slots == 0)
        return entry;
    entry = static_cast<Entry *>(hash_search(entries, &key, HASH_ENTER_NULL, nullptr));
    if (entry != nullptr)
        entry->slot = shared->free[--shared->free_slots];
    return entry;
}

Slot *bucket(int number) { return &slots[max_scopes + number]; }

// REQUIRES: the lock, exclusively.
Slot *assign_bucket(Oid database) {
    int free = kBuckets - 1;
    for (int i = 0; i < kBuckets - 1; i++) {
        if (shared->bucket_databases[i] == database)
            return bucket(i);
        if (shared->bucket_databases[i] == InvalidOid && free == kBuckets - 1)
            free = i;
    }
    if (free < kBuckets - 1)
        shared->bucket_databases[free] = database;
    return bucket(free);
}

// Acquires the lock in shared mode, and returns memory for an item for each slot in use and each bucket. No memory is allocated
// while the lock is held.
template <typename Item> Item *lock_with_items() {
    Item *items = nullptr;
    for (Size capacity = 0;;) {
        LWLockAcquire(shared->lock, LW_SHARED);
        const Size needed = static_cast<Size>(hash_get_num_entries(entries)) + kBuckets;
        if (items != nullptr && needed <= capacity)
            return items;
        LWLockRelease(shared->lock);
        if (items != nullptr)
            pfree(items);
        capacity = needed + needed / 8;
        items = static_cast<Item *>(MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Item) * capacity));
    }
}

// The databases that have counters, each once.
List *counted_databases() {
    Oid *counted = lock_with_items<Oid>();
    Size number = 0;
    HASH_SEQ_STATUS walk;
    hash_seq_init(&walk, entries);
    while (auto *entry = static_cast<Entry *>(hash_seq_search(&walk)))
        counted[number++] = entry->key.database;
    for (const Oid database : shared->bucket_databases)
        if (database != InvalidOid)
            counted[number++] = database;
    LWLockRelease(shared->lock);
    List *databases = NIL;
    for (Size i = 0; i < number; i++)
        databases = list_append_unique_oid(databases, counted[i]);
    pfree(counted);
    return databases;
}

void free_slots_of(const List *databases) {
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    HASH_SEQ_STATUS walk;
    hash_seq_init(&walk, entries);
    while (auto *entry = static_cast<Entry *>(hash_seq_search(&walk))) {
        if (!list_member_oid(databases, entry->key.database))
            continue;
        zero(&slots[entry->slot]);
        shared->free[shared->free_slots++] = entry->slot;
        (void)hash_search(entries, &entry->key, HASH_REMOVE, nullptr);
    }
    for (int i = 0; i < kBuckets - 1; i++)
        if (list_member_oid(databases, shared->bucket_databases[i])) {
            zero(bucket(i));
            shared->bucket_databases[i] = InvalidOid;
        }
    LWLockRelease(shared->lock);
}

// Frees the slots of dropped databases. Does so at most once per kReclaimIntervalMs, as each call that finds no slot calls it.
bool reclaim_dropped() {
    if (!IsTransactionState())
        return false;
    const TimestampTz now = GetCurrentTimestamp();
    uint64 last = pg_atomic_read_u64(&shared->reclaimed_at);
    const auto reclaimed_at = static_cast<TimestampTz>(last);
    const bool is_due = TimestampDifferenceExceeds(reclaimed_at, now, kReclaimIntervalMs) || reclaimed_at > now;
    if (!is_due || !pg_atomic_compare_exchange_u64(&shared->reclaimed_at, &last, static_cast<uint64>(now)))
        return false;
    AcceptInvalidationMessages(); // a dropped database must not seem to exist
    List *dropped = NIL;
    List *databases = counted_databases();
    ListCell *cell;
    foreach (cell, databases)
        if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(lfirst_oid(cell))))
            dropped = lappend_oid(dropped, lfirst_oid(cell));
    if (dropped != NIL)
        free_slots_of(dropped);
    list_free(databases);
    const bool found_some = dropped != NIL;
    list_free(dropped);
    return found_some;
}

// This backend's cache of its database's slots, by the hash of the scope's name.
constexpr uint32 kCachedEntries = 256;
constinit const Entry *cached_entries[kCachedEntries] = {};

Slot *cache_entry(const Entry *entry, uint32 index) {
    cached_entries[index] = entry;
    return &slots[entry->slot];
}

Slot *find_slot(const text *scope, uint32 index) {
    const Key key = key_of(MyDatabaseId, VARDATA_ANY(scope), VARSIZE_ANY_EXHDR(scope));
    LWLockAcquire(shared->lock, LW_SHARED);
    const auto *entry = static_cast<const Entry *>(hash_search(entries, &key, HASH_FIND, nullptr));
    bool is_full = shared->free_slots == 0;
    LWLockRelease(shared->lock);
    if (entry == nullptr && is_full)
        is_full = !reclaim_dropped();
    if (entry == nullptr && !is_full) {
        LWLockAcquire(shared->lock, LW_EXCLUSIVE);
        entry = assign_slot(key);
        LWLockRelease(shared->lock);
    }
    if (entry != nullptr)
        return cache_entry(entry, index);
    static constinit Slot *own_bucket = nullptr;
    if (own_bucket == nullptr) {
        LWLockAcquire(shared->lock, LW_EXCLUSIVE);
        own_bucket = assign_bucket(MyDatabaseId);
        LWLockRelease(shared->lock);
    }
    return own_bucket;
}

Slot *slot_of(const text *scope) {
    const char *name = VARDATA_ANY(scope);
    const Size length = VARSIZE_ANY_EXHDR(scope);
    const uint32 index = static_cast<uint32>(hash_of_bytes(scope)) % kCachedEntries;
    const Entry *cached = cached_entries[index];
    if (likely(cached != nullptr && cached->key.length == length && memcmp(cached->key.name, name, length) == 0))
        return &slots[cached->slot];
    return find_slot(scope, index);
}

// --- Reading -------------------------------------------------------------------------------------------------------------

bool add_up(Slot *slot, uint64 *counts) {
    bool is_counted = false;
    for (int i = 0; i < kCounters; i++) {
        counts[i] = 0;
        for (Stripe &stripe : slot->stripes)
            counts[i] += pg_atomic_read_u64(&stripe.counters[i]);
        is_counted |= counts[i] != 0;
    }
    return is_counted;
}

void add_entry(ScopeCountsList *list, Slot *slot, Oid database, bool is_other, const char *name, uint8 length) {
    ScopeCounts *item = &list->items[list->count];
    memset(item, 0, sizeof *item);
    item->database = database;
    item->is_other = is_other;
    item->length = length;
    memcpy(item->name, name, length);
    if (add_up(slot, item->counts))
        list->count++;
}

template <typename Includes> ScopeCountsList list_counts(Includes includes) {
    ScopeCountsList list{lock_with_items<ScopeCounts>(), 0};
    HASH_SEQ_STATUS walk;
    hash_seq_init(&walk, entries);
    while (auto *entry = static_cast<Entry *>(hash_seq_search(&walk)))
        if (includes(entry->key.database))
            add_entry(&list, &slots[entry->slot], entry->key.database, false, entry->key.name, entry->key.length);
    for (int i = 0; i < kBuckets; i++)
        if (includes(shared->bucket_databases[i]))
            add_entry(&list, bucket(i), shared->bucket_databases[i], true, "", 0);
    LWLockRelease(shared->lock);
    return list;
}

// The slot or bucket that `which` names, or nullptr. REQUIRES: the lock.
Slot *existing_slot(const ScopeCounts &which) {
    if (!which.is_other) {
        const Key key = key_of(which.database, which.name, which.length);
        auto *entry = static_cast<Entry *>(hash_search(entries, &key, HASH_FIND, nullptr));
        return entry != nullptr ? &slots[entry->slot] : nullptr;
    }
    if (which.database == InvalidOid)
        return bucket(kBuckets - 1);
    for (int i = 0; i < kBuckets - 1; i++)
        if (shared->bucket_databases[i] == which.database)
            return bucket(i);
    return nullptr;
}

ScopeCountsList all_counts() {
    return list_counts([](Oid) { return true; });
}

void restore(const ScopeCounts &counted) {
    Slot *slot = nullptr;
    if (!counted.is_other)
        if (const Entry *entry = assign_slot(key_of(counted.database, counted.name, counted.length)))
            slot = &slots[entry->slot];
    if (slot == nullptr)
        slot = counted.database == InvalidOid ? bucket(kBuckets - 1) : assign_bucket(counted.database);
    for (int i = 0; i < kCounters; i++)
        pg_atomic_fetch_add_u64(&slot->stripes[0].counters[i], static_cast<int64>(counted.counts[i]));
}

} // namespace

void count(const text *scope, Counter counter, uint64 n) {
    if (shared == nullptr || !track_stats || n == 0)
        return;
    // No function accepts a longer scope, but a row that was written by hand may have one.
    if (unlikely(VARSIZE_ANY_EXHDR(scope) > kMaxScopeBytes))
        return;
    Slot *slot = slot_of(scope);
    Stripe *stripe = &slot->stripes[static_cast<uint32>(compat_process_number()) % kStripes];
    pg_atomic_fetch_add_u64(&stripe->counters[static_cast<int>(counter)], static_cast<int64>(n));
}

bool is_available() { return shared != nullptr; }

ScopeCountsList counts_of(Oid database) {
    return list_counts([database](Oid counted) { return counted == database || counted == InvalidOid; });
}

void reset(const ScopeCounts &which) {
    LWLockAcquire(shared->lock, LW_SHARED);
    if (Slot *slot = existing_slot(which))
        zero(slot);
    LWLockRelease(shared->lock);
}

void initialize() {
    const bool preloading = process_shared_preload_libraries_in_progress;
    DefineCustomBoolVariable("idem.track_stats", "Count what is answered in each scope, for idem_stats.",
                             "Needs idem in shared_preload_libraries.", &track_stats, track_stats, PGC_SUSET, 0, nullptr,
                             nullptr, nullptr);
    // Without preload the setting has no effect, but it must not be reported as unknown.
    DefineCustomIntVariable("idem.stats_max_scopes", "How many scopes, of all databases together, idem_stats tells apart.",
                            "Others are counted in one bucket per database. Takes about 1300 bytes of shared memory each.",
                            &max_scopes, max_scopes, 0, 1000000, preloading ? PGC_POSTMASTER : PGC_SIGHUP, 0, nullptr, nullptr,
                            nullptr);
    if (!preloading)
        return;
    next_shmem_request_hook = shmem_request_hook;
    shmem_request_hook = request_memory;
    next_shmem_startup_hook = shmem_startup_hook;
    shmem_startup_hook = start_up;
}

} // namespace idem::stats
