#include "storage/secret_store.hpp"

#include "server/compat.hpp"
#include "server/writable.hpp"

namespace idem {

namespace {

void overwrite(void *argument) {
    const auto *rows = static_cast<SecretRows *>(argument);
    explicit_bzero(rows->list, sizeof(StoredSecret) * rows->capacity);
}

StoredSecret *allocate(MemoryContext memory, int count) {
    return static_cast<StoredSecret *>(MemoryContextAllocHuge(memory, sizeof(StoredSecret) * count));
}

SecretRows *make_rows() {
    MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "idem secrets", ALLOCSET_SMALL_SIZES);
    auto *rows = static_cast<SecretRows *>(MemoryContextAllocZero(memory, sizeof(SecretRows)));
    rows->memory = memory;
    rows->list = allocate(memory, 8);
    rows->capacity = 8;
    rows->overwrite.func = overwrite;
    rows->overwrite.arg = rows;
    MemoryContextRegisterResetCallback(memory, &rows->overwrite);
    return rows;
}

// Does not use repalloc, which would free the old list without overwriting it.
void grow(SecretRows *rows) {
    StoredSecret *larger = allocate(rows->memory, rows->capacity * 2);
    memcpy(larger, rows->list, sizeof(StoredSecret) * rows->count);
    overwrite(rows);
    pfree(rows->list);
    rows->list = larger;
    rows->capacity *= 2;
}

void read_row(HeapTuple tuple, TupleDesc layout, StoredSecret *row) {
    const int others = layout->natts - 1;
    Datum values[StoredSecret::kMaxValues + 1];
    bool nulls[StoredSecret::kMaxValues + 1];
    Assert(others <= StoredSecret::kMaxValues);
    heap_deform_tuple(tuple, layout, values, nulls);
    for (int i = 0; i < others; i++) {
        Form_pg_attribute column = TupleDescAttr(layout, i);
        row->values[i] = column->attlen < 0 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(values[i]))
                                            : datumCopy(values[i], column->attbyval, column->attlen);
    }
    const bytea *bytes = DatumGetByteaPP(values[others]);
    row->secret.size = static_cast<int>(VARSIZE_ANY_EXHDR(bytes));
    memcpy(row->secret.bytes, VARDATA_ANY(bytes), Min(row->secret.size, kMaxHmacKeyBytes));
    row->version = tuple->t_self;
}

// Does not check the rows, so that a change can delete a damaged one.
SecretRows *read_table(const SecretStore &store, Relation table) {
    SecretRows *rows = make_rows();
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
    for (HeapTuple tuple; HeapTupleIsValid(tuple = systable_getnext(scan));) {
        if (rows->count == rows->capacity)
            grow(rows);
        StoredSecret *row = &rows->list[rows->count++];
        const MemoryContext caller = MemoryContextSwitchTo(rows->memory);
        read_row(tuple, RelationGetDescr(table), row);
        MemoryContextSwitchTo(caller);
    }
    systable_endscan(scan);
    qsort(rows->list, rows->count, sizeof(StoredSecret), store.compare);
    return rows;
}

} // namespace

const SecretRows &current_secrets(SecretStore &store) {
    // After a change that arrives while the table is read, the next call reads it again.
    const uint64 generation = generation_of(store.table);
    if (store.rows != nullptr && store.generation == generation)
        return *store.rows;
    Relation table = open_member(store.table, AccessShareLock);
    SecretRows *rows = read_table(store, table);
    table_close(table, AccessShareLock);
    for (int i = 0; i < rows->count; i++)
        if (!store.is_intact(rows->list[i]))
            store.raise_damaged(rows->list[i]);
    MemoryContextSetParent(rows->memory, CacheMemoryContext);
    if (store.rows != nullptr)
        MemoryContextDelete(store.rows->memory);
    store.rows = rows;
    store.generation = generation;
    return *rows;
}

SecretChange begin_change(const SecretStore &store, const char *function) {
    prevent_unless_writable(function);
    Relation table = open_member(store.table, ShareRowExclusiveLock);
    return {table, read_table(store, table)};
}

void insert_secret(const SecretChange &change, const StoredSecret &row) {
    TupleDesc layout = RelationGetDescr(change.table);
    struct {
        alignas(int32) char header[VARHDRSZ];
        uint8 bytes[kMaxHmacKeyBytes];
    } secret;
    SET_VARSIZE(&secret, VARHDRSZ + row.secret.size);
    memcpy(secret.bytes, row.secret.bytes, row.secret.size);
    Datum values[StoredSecret::kMaxValues + 1];
    bool nulls[StoredSecret::kMaxValues + 1] = {};
    memcpy(values, row.values, sizeof row.values);
    values[layout->natts - 1] = PointerGetDatum(&secret);
    HeapTuple tuple = heap_form_tuple(layout, values, nulls);
    heap_insert(change.table, tuple, GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL, nullptr);
    explicit_bzero(&secret, sizeof secret);
    explicit_bzero(tuple->t_data, tuple->t_len);
    heap_freetuple(tuple);
    CacheInvalidateRelcache(change.table);
}

void delete_secret(const SecretChange &change, const StoredSecret &row) {
    ItemPointerData version = row.version;
    TM_FailureData failure{};
    if (compat_heap_delete(change.table, &version, GetCurrentCommandId(true), &failure) != TM_Ok)
        elog(ERROR, "could not delete a row of \"%s\"", RelationGetRelationName(change.table));
    CacheInvalidateRelcache(change.table);
}

void end_change(const SecretChange &change) {
    MemoryContextDelete(change.rows->memory);
    CommandCounterIncrement();
    table_close(change.table, NoLock);
}

} // namespace idem
