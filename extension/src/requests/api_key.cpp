#include "requests/api_key.hpp"

#include "keys/fingerprint.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/writable.hpp"
#include "storage/key_store.hpp"

namespace idem {

namespace {

using core::Micros;

enum ApiKeyColumn : AttrNumber { key_id = 1, created_at, expires_at, secret, columns = secret };

constexpr Column kColumns[] = {
    {"key_id", TEXTOID}, {"created_at", TIMESTAMPTZOID}, {"expires_at", TIMESTAMPTZOID}, {"secret", BYTEAOID}};

} // namespace

constinit Member api_keys = member_of_secrets("idem_api_keys", kColumns);

namespace {

struct StoredKey {
    char id[kMaxKeyIdBytes + 1]; // zero-padded
    Micros created_at;
    Micros expires_at;
    ItemPointerData version;
    ApiSecret secret;
};

struct StoredKeys {
    StoredKey *list; // in order of their ids
    int count;
};

// All of them, as of `generation`.
struct KeyCache {
    StoredKeys keys;
    uint64 generation;
};
constinit KeyCache cache{};

void set_id(StoredKey *key, const text *id) {
    memset(key->id, 0, sizeof key->id);
    memcpy(key->id, VARDATA_ANY(id), Min(VARSIZE_ANY_EXHDR(id), Size{kMaxKeyIdBytes}));
}

[[noreturn]] void raise_damaged(const char *id) {
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("a secret of API key \"%s\" is damaged", id),
                    errhint("Drop it with idem_api_key_drop, and set it anew.")));
    pg_unreachable();
}

StoredKey read_row(HeapTuple row, TupleDesc layout) {
    Datum values[columns];
    bool nulls[columns];
    heap_deform_tuple(row, layout, values, nulls);
    StoredKey stored{};
    set_id(&stored, DatumGetTextPP(values[key_id - 1]));
    stored.created_at = DatumGetTimestampTz(values[created_at - 1]);
    stored.expires_at = DatumGetTimestampTz(values[expires_at - 1]);
    stored.version = row->t_self;
    const bytea *bytes = DatumGetByteaPP(values[secret - 1]);
    if (VARSIZE_ANY_EXHDR(bytes) > kMostHmacKeyBytes)
        raise_damaged(stored.id);
    stored.secret.size = static_cast<int>(VARSIZE_ANY_EXHDR(bytes));
    memcpy(stored.secret.bytes, VARDATA_ANY(bytes), stored.secret.size);
    return stored;
}

int by_id(const void *left, const void *right) {
    return memcmp(static_cast<const StoredKey *>(left)->id, static_cast<const StoredKey *>(right)->id, kMaxKeyIdBytes + 1);
}

// The table as it is now, whatever the transaction's snapshot has: a key that was taken away is so at once.
StoredKeys read_table(Relation table, MemoryContext memory) {
    int room = 8;
    StoredKeys found{static_cast<StoredKey *>(MemoryContextAlloc(memory, sizeof(StoredKey) * room)), 0};
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
    for (HeapTuple row; HeapTupleIsValid(row = systable_getnext(scan));) {
        if (found.count == room) {
            room *= 2;
            found.list = static_cast<StoredKey *>(repalloc_huge(found.list, sizeof(StoredKey) * room));
        }
        found.list[found.count++] = read_row(row, RelationGetDescr(table));
    }
    systable_endscan(scan);
    qsort(found.list, found.count, sizeof(StoredKey), by_id);
    return found;
}

void wipe(StoredKeys *keys) {
    if (keys->list != nullptr) {
        explicit_bzero(keys->list, sizeof(StoredKey) * keys->count);
        pfree(keys->list);
    }
    *keys = {};
}

void load() {
    // A change that arrives while the table is read makes the next call read it again.
    const uint64 generation = generation_of(api_keys);
    if (cache.keys.list != nullptr && cache.generation == generation)
        return;
    Relation table = open_member(api_keys, AccessShareLock);
    const StoredKeys keys = read_table(table, CacheMemoryContext);
    table_close(table, AccessShareLock);
    wipe(&cache.keys);
    cache = {keys, generation};
}

// The first key with this id, or where it would be.
int lower_bound(const StoredKeys &keys, const StoredKey &wanted) {
    int low = 0;
    for (int high = keys.count; low < high;) {
        const int middle = low + (high - low) / 2;
        if (by_id(&keys.list[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void insert_row(Relation table, const StoredKey &key) {
    struct {
        alignas(int32) char header[VARHDRSZ];
        uint8 bytes[kMostHmacKeyBytes];
    } stored;
    SET_VARSIZE(&stored, VARHDRSZ + key.secret.size);
    memcpy(stored.bytes, key.secret.bytes, key.secret.size);
    Datum values[columns];
    bool nulls[columns] = {};
    values[key_id - 1] = CStringGetTextDatum(key.id);
    values[created_at - 1] = TimestampTzGetDatum(key.created_at);
    values[expires_at - 1] = TimestampTzGetDatum(key.expires_at);
    values[secret - 1] = PointerGetDatum(&stored);
    HeapTuple row = heap_form_tuple(RelationGetDescr(table), values, nulls);
    heap_insert(table, row, GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL, nullptr);
    explicit_bzero(&stored, sizeof stored);
    explicit_bzero(row->t_data, row->t_len);
    heap_freetuple(row);
}

void delete_row(Relation table, StoredKey *key) {
    TM_FailureData failure{};
    if (compat_heap_delete(table, &key->version, GetCurrentCommandId(true), &failure) != TM_Ok)
        elog(ERROR, "could not delete a secret of API key \"%s\"", key->id);
}

// A longer one is kept as its SHA-256, which signs the same.
ApiSecret stored_form(const bytea *given) {
    ApiSecret stored{};
    const Size size = VARSIZE_ANY_EXHDR(given);
    stored.size = static_cast<int>(size);
    if (size <= kMostHmacKeyBytes) {
        memcpy(stored.bytes, VARDATA_ANY(given), size);
        return stored;
    }
    stored.size = PG_SHA256_DIGEST_LENGTH;
    sha256_of(VARDATA_ANY(given), size, stored.bytes);
    return stored;
}

bool is_same(const ApiSecret &left, const ApiSecret &right) {
    return left.size == right.size && memcmp(left.bytes, right.bytes, left.size) == 0;
}

// Runs `work(table, keys, first key of this id)`, with nobody else changing the table. What it writes holds at its commit.
template <typename Work> void change_table(const StoredKey &wanted, const char *function, Work work) {
    prevent_unless_writable(function);
    Relation table = open_member(api_keys, ShareRowExclusiveLock);
    StoredKeys keys = read_table(table, CurrentMemoryContext);
    work(table, keys, lower_bound(keys, wanted));
    wipe(&keys);
    CacheInvalidateRelcache(table);
    CommandCounterIncrement();
    table_close(table, NoLock);
}

bool has_id(const StoredKeys &keys, int i, const StoredKey &wanted) {
    return i < keys.count && by_id(&keys.list[i], &wanted) == 0;
}

} // namespace

bool find_api_secret(const text *id, int n, Micros now, ApiSecret *found) {
    if (VARSIZE_ANY_EXHDR(id) > kMaxKeyIdBytes)
        return false;
    load();
    StoredKey wanted{};
    set_id(&wanted, id);
    for (int i = lower_bound(cache.keys, wanted); has_id(cache.keys, i, wanted); i++)
        if (cache.keys.list[i].expires_at > now && n-- == 0) {
            *found = cache.keys.list[i].secret;
            return true;
        }
    return false;
}

void set_api_secret(const text *id, const bytea *given, Micros now, Micros old_until, const char *function) {
    StoredKey made{};
    set_id(&made, id);
    made.created_at = now;
    made.expires_at = core::kForever;
    made.secret = stored_form(given);
    change_table(made, function, [&](Relation table, const StoredKeys &keys, int i) {
        for (; has_id(keys, i, made); i++) {
            StoredKey old = keys.list[i];
            if (old.expires_at <= old_until && old.expires_at > now && !is_same(old.secret, made.secret))
                continue;
            delete_row(table, &old);
            if (old.expires_at > now && old_until > now && !is_same(old.secret, made.secret)) {
                old.expires_at = old_until;
                insert_row(table, old);
            }
        }
        insert_row(table, made);
    });
    explicit_bzero(&made, sizeof made);
}

bool drop_api_key(const text *id, const char *function) {
    StoredKey wanted{};
    set_id(&wanted, id);
    bool dropped = false;
    change_table(wanted, function, [&](Relation table, const StoredKeys &keys, int i) {
        for (; has_id(keys, i, wanted); i++) {
            delete_row(table, &keys.list[i]);
            dropped = true;
        }
    });
    return dropped;
}

} // namespace idem
