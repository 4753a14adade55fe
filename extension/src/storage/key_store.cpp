#include "storage/key_store.hpp"

namespace idem {

bool insert_key(const KeyTable &table, const Datum *values, const bool *nulls, KeyVersion *version) {
    const int number = table_for_new_keys(table);
    if (number < 0)
        return false;
    version->table = number;
    const HeapTable &heap = heap_of(table, *version);
    HeapTuple tuple = form_row(heap, values, nulls);
    const bool is_new = insert_row_if_new(heap, tuple);
    version->tid = tuple->t_self;
    heap_freetuple(tuple);
    CommandCounterIncrement();
    return is_new;
}

Write lock_key(const KeyTable &table, KeyVersion *version, LockTupleMode mode, LockWaitPolicy wait) {
    return lock_row(writable_heap_of(table, *version), &version->tid, mode, wait);
}

Write replace_key(const KeyTable &table, KeyVersion *version, const Datum *values, const bool *nulls, bool wait) {
    const HeapTable &heap = writable_heap_of(table, *version);
    // heap_update waits for a transaction that holds the row. A caller that may not wait first tries to acquire the row lock
    // that the update needs; the update then has nothing to wait for.
    if (!wait || holds_placement(table)) {
        const Write locked = lock_row(heap, &version->tid, LockTupleNoKeyExclusive, LockWaitSkip);
        if (locked != Write::done)
            return locked;
    }
    HeapTuple tuple = form_row(heap, values, nulls);
    const Write write = update_row(heap, version->tid, tuple);
    if (write == Write::done) {
        version->tid = tuple->t_self;
        CommandCounterIncrement();
    }
    heap_freetuple(tuple);
    return write;
}

Write delete_key(const KeyTable &table, KeyVersion *version) {
    const Write write = delete_row(writable_heap_of(table, *version), version->tid);
    if (write == Write::done)
        CommandCounterIncrement();
    return write;
}

namespace {

// A row like `pattern` with this key.
HeapTuple row_with_key(const HeapTable &table, KeyRow *pattern, const text *key) {
    pattern->set(KeyColumn::key, PointerGetDatum(key));
    return form_row(table, pattern->values, pattern->nulls);
}

} // namespace

KeyInserter open_key_inserter(const KeyTable &table) {
    return {&table, table.places == nullptr ? open_row_batch(table, kMaxInsertedKeys) : nullptr,
            AllocSetContextCreate(CurrentMemoryContext, "idem batch", ALLOCSET_DEFAULT_SIZES)};
}

void close_key_inserter(const KeyInserter &inserter) {
    if (inserter.batch != nullptr)
        close_row_batch(inserter.batch);
    MemoryContextDelete(inserter.memory);
}

bool open_key_target(const KeyInserter &inserter, KeyTarget *target) {
    const int number = table_for_new_keys(*inserter.table);
    if (number < 0)
        return false;
    target->place = {{}, number};
    target->batch =
        inserter.batch != nullptr ? inserter.batch : open_row_batch(heap_of(*inserter.table, target->place), kMaxInsertedKeys);
    return true;
}

bool insert_keys(const KeyInserter &inserter, const KeyTarget &target, const KeyRow &pattern, const text *const *keys,
                 int count) {
    Assert(count <= kMaxInsertedKeys);
    const HeapTable &heap = heap_of(*inserter.table, target.place);
    const MemoryContext outer = MemoryContextSwitchTo(inserter.memory);
    HeapTuple rows[kMaxInsertedKeys];
    KeyRow row = pattern;
    for (int i = 0; i < count; i++)
        rows[i] = row_with_key(heap, &row, keys[i]);
    const bool all_new = insert_rows_if_new(target.batch, rows, count);
    MemoryContextSwitchTo(outer);
    if (target.batch != inserter.batch)
        close_row_batch(target.batch);
    MemoryContextReset(inserter.memory);
    return all_new;
}

} // namespace idem
