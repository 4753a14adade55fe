#include "tokens/token_secret.hpp"

#include "server/arguments.hpp"
#include "server/compat.hpp"
#include "server/random.hpp"
#include "server/writable.hpp"
#include "storage/key_store.hpp"

namespace idem {

namespace {

enum SecretColumn : AttrNumber { key_id = 1, database, created_at, secret, columns = secret };

constexpr Column kColumns[] = {{"key_id", INT4OID}, {"database", OIDOID}, {"created_at", TIMESTAMPTZOID}, {"secret", BYTEAOID}};

} // namespace

constinit Member token_secrets = member_of_secrets("idem_token_secrets", kColumns);

namespace {

// A rotation that is not committed yet leaves everybody else signing with the old secret. It has a day to do so.
constexpr core::Micros kRotationMayTake = USECS_PER_DAY;

struct StoredSecret {
    int32 key_id;
    Oid database;
    core::Micros created_at;
    ItemPointerData version;
    uint8 bytes[kSecretBytes];
};

// The rows, newest first. Freeing it wipes it.
struct StoredSecrets {
    StoredSecret *list;
    int count;
};

// This database's, newest first, as of `generation`.
struct SecretCache {
    TokenSecret *list;
    int count;
    uint64 generation;
};
constinit SecretCache cache{};

StoredSecret read_row(HeapTuple row, TupleDesc layout) {
    Datum values[columns];
    bool nulls[columns];
    heap_deform_tuple(row, layout, values, nulls);
    StoredSecret stored{};
    stored.key_id = DatumGetInt32(values[key_id - 1]);
    stored.database = DatumGetObjectId(values[database - 1]);
    stored.created_at = DatumGetTimestampTz(values[created_at - 1]);
    stored.version = row->t_self;
    const bytea *bytes = DatumGetByteaPP(values[secret - 1]);
    if (VARSIZE_ANY_EXHDR(bytes) != kSecretBytes)
        ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("secret %d of idem_token_secrets is damaged", stored.key_id),
                        errhint("Delete the row; its tokens are lost.")));
    memcpy(stored.bytes, VARDATA_ANY(bytes), kSecretBytes);
    return stored;
}

int newest_first(const void *left, const void *right) {
    const auto *a = static_cast<const StoredSecret *>(left);
    const auto *b = static_cast<const StoredSecret *>(right);
    if (a->key_id != b->key_id)
        return a->key_id < b->key_id ? 1 : -1;
    return (a->created_at < b->created_at) - (a->created_at > b->created_at);
}

// The table as it is now, whatever the transaction's snapshot has: what was revoked is so at once.
StoredSecrets read_table(Relation table) {
    int room = 8;
    StoredSecrets found{static_cast<StoredSecret *>(palloc(sizeof(StoredSecret) * room)), 0};
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
    for (HeapTuple row; HeapTupleIsValid(row = systable_getnext(scan));) {
        if (found.count == room) {
            room *= 2;
            found.list = static_cast<StoredSecret *>(repalloc(found.list, sizeof(StoredSecret) * room));
        }
        found.list[found.count++] = read_row(row, RelationGetDescr(table));
    }
    systable_endscan(scan);
    qsort(found.list, found.count, sizeof(StoredSecret), newest_first);
    return found;
}

void wipe(StoredSecrets *secrets) {
    explicit_bzero(secrets->list, sizeof(StoredSecret) * secrets->count);
    pfree(secrets->list);
    *secrets = {};
}

void forget_cache() {
    if (cache.list != nullptr) {
        explicit_bzero(cache.list, sizeof(TokenSecret) * cache.count);
        pfree(cache.list);
    }
    cache = {};
}

// When the last token can expire that was signed before the successor was known to all.
core::Micros last_expiry(const StoredSecret &successor) { return successor.created_at + kLongestTokenLife + kRotationMayTake; }

void fill_cache(const StoredSecrets &stored) {
    cache.list = static_cast<TokenSecret *>(MemoryContextAlloc(CacheMemoryContext, sizeof(TokenSecret) * Max(stored.count, 1)));
    core::Micros signs_no_later = core::kForever;
    for (int i = 0; i < stored.count; i++) {
        const StoredSecret &row = stored.list[i];
        if (row.database != MyDatabaseId)
            continue;
        TokenSecret *entry = &cache.list[cache.count++];
        entry->key_id = row.key_id;
        entry->signs_no_later = signs_no_later;
        memcpy(entry->bytes, row.bytes, kSecretBytes);
        signs_no_later = last_expiry(row);
    }
}

void load() {
    // A change that arrives while the table is read makes the next call read it again.
    const uint64 generation = generation_of(token_secrets);
    if (cache.list != nullptr && cache.generation == generation)
        return;
    Relation table = open_member(token_secrets, AccessShareLock);
    StoredSecrets stored = read_table(table);
    table_close(table, AccessShareLock);
    forget_cache();
    fill_cache(stored);
    cache.generation = generation;
    wipe(&stored);
}

void insert_secret(Relation table, int32 id) {
    struct {
        alignas(int32) char header[VARHDRSZ];
        uint8 bytes[kSecretBytes];
    } made;
    SET_VARSIZE(&made, sizeof made);
    fill_random(made.bytes, sizeof made.bytes);
    Datum values[columns];
    bool nulls[columns] = {};
    values[key_id - 1] = Int32GetDatum(id);
    values[database - 1] = ObjectIdGetDatum(MyDatabaseId);
    values[created_at - 1] = TimestampTzGetDatum(clock_now());
    values[secret - 1] = PointerGetDatum(&made);
    HeapTuple row = heap_form_tuple(RelationGetDescr(table), values, nulls);
    heap_insert(table, row, GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL, nullptr);
    explicit_bzero(&made, sizeof made);
    explicit_bzero(row->t_data, row->t_len);
    heap_freetuple(row);
}

void delete_secret(Relation table, StoredSecret *stored) {
    TM_FailureData failure{};
    if (compat_heap_delete(table, &stored->version, GetCurrentCommandId(true), &failure) != TM_Ok)
        elog(ERROR, "could not delete secret %d", stored->key_id);
}

// Those that verify nothing any more, or all. REQUIRES: newest first, and a newer one than these was inserted at `now`.
void delete_secrets(Relation table, const StoredSecrets &stored, bool all, core::Micros now) {
    core::Micros until = core::kForever;
    for (int i = 0; i < stored.count; i++) {
        if (all || stored.list[i].database != MyDatabaseId || until < now)
            delete_secret(table, &stored.list[i]);
        if (stored.list[i].database == MyDatabaseId)
            until = last_expiry(stored.list[i]);
    }
}

int32 next_key_id(const StoredSecrets &stored) {
    const int32 newest = stored.count > 0 ? stored.list[0].key_id : 0;
    if (newest == PG_INT32_MAX)
        ereport(ERROR,
                (errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED), errmsg("the key ids of idem_token_secrets are used up")));
    return newest + 1;
}

bool has_own(const StoredSecrets &stored) {
    for (int i = 0; i < stored.count; i++)
        if (stored.list[i].database == MyDatabaseId)
            return true;
    return false;
}

enum class Make { always, if_none };

void make_secret(Make when, bool revoke, const char *function) {
    prevent_unless_writable(function);
    // One at a time; whoever only reads is not in the way.
    Relation table = open_member(token_secrets, ShareRowExclusiveLock);
    StoredSecrets stored = read_table(table);
    if (when == Make::always || !has_own(stored)) {
        insert_secret(table, next_key_id(stored));
        delete_secrets(table, stored, revoke, clock_now());
        CacheInvalidateRelcache(table);
        CommandCounterIncrement();
    }
    wipe(&stored);
    table_close(table, NoLock);
}

} // namespace

TokenSecret signing_secret(const char *function) {
    load();
    if (cache.count == 0) {
        make_secret(Make::if_none, false, function);
        load();
    }
    if (cache.count == 0)
        elog(ERROR, "there is no secret to sign tokens with");
    return cache.list[0];
}

bool find_secret(uint32 id, int n, TokenSecret *found) {
    load();
    for (int i = 0; i < cache.count; i++)
        if (static_cast<uint32>(cache.list[i].key_id) == id && n-- == 0) {
            *found = cache.list[i];
            return true;
        }
    return false;
}

void rotate_secret(bool revoke, const char *function) { make_secret(Make::always, revoke, function); }

} // namespace idem
