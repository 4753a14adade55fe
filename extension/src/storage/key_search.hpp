// A search for a key in one table, by its unique index. Callers that search wherever the scope's keys are use
// key_lookup.hpp.
//
// A dirty snapshot sees an uncommitted holder without waiting for it. It may miss a live row that is concurrently moved to
// another page; an insertion then fails on the index.
#pragma once

#include "storage/key_index.hpp"
#include "storage/key_table.hpp"

namespace idem {

enum class Presence {
    absent,
    busy, // inserted, changed or deleted by another transaction that has not ended
    found
};

struct FoundRow {
    Presence presence;
    TransactionId holder;     // busy: that transaction
    uint32 speculative_token; // busy: not zero while the holder's insertion is in progress
    KeyVersion version;       // found, and for wait_for_holder
    HeapTuple row;            // found; a copy
    core::Micros at;          // when it was so: the time of any decision about it
    bool own_transaction;     // found: this transaction wrote the version
    bool in_snapshot;         // found: the transaction's snapshot sees the version, or the isolation level does not require it
};

// Searches for keys in one table. Pages stay pinned between two of them, so the caller closes it before it waits for anything.
struct RowFinder {
    const HeapTable *table; // nullptr: it is closed
    IndexCursor cursor;
    Buffer heap_page; // pinned, not locked; or InvalidBuffer
    HeapTupleData row;
    SnapshotData dirty;
    bool has_entries; // the index has entries of the last key
};
void open_finder(RowFinder *finder, const HeapTable &table);
void close_finder(RowFinder *finder);

// What one table shows of a key. `done`: it is completed, by a transaction that has committed and that the caller's snapshot
// sees, or by this one; and its retention lasts beyond `now`. `expired`: as done, but its retention is over. `gone`: absent,
// but the index has entries of the key, whose rows may just have moved.
enum class IndexedState { absent, gone, done, expired, other };
IndexedState read_indexed_state(RowFinder *finder, const text *scope, const text *key, core::Micros now);
void read_indexed_states(RowFinder *finder, const text *scope, const text *const *keys, int count, core::Micros now,
                         IndexedState *states);

// The row that a dirty snapshot sees.
FoundRow find_dirty(const HeapTable &table, const text *scope, const text *key);

// The row that the active snapshot sees.
FoundRow find_visible(const HeapTable &table, const text *scope, const text *key);

// The version that this transaction's version `by` has replaced; absent: it was inserted.
FoundRow find_replaced(const HeapTable &table, const text *scope, const text *key, const FoundRow &by);

// Whether no committed version of the key exists, and none did when the call began. A scan by a snapshot cannot miss a row that
// moves: the version that it sees stays in place.
bool is_settled_absent(const HeapTable &table, const text *scope, const text *key);

// A value that no row lacks.
inline Datum value_of(const HeapTable &table, const FoundRow &found, AttrNumber column) {
    bool is_null;
    return heap_getattr(found.row, column, RelationGetDescr(table.relation), &is_null);
}

inline bool is_completed(const HeapTable &table, const FoundRow &found) {
    return static_cast<core::State>(DatumGetChar(value_of(table, found, KeyColumn::state))) == core::State::completed;
}
inline core::Micros expires_at(const HeapTable &table, const FoundRow &found) {
    return DatumGetTimestampTz(value_of(table, found, KeyColumn::expires_at));
}
inline bool may_have_been_deleted(const FoundRow &found) { return (found.row->t_data->t_infomask & HEAP_XMAX_INVALID) == 0; }

} // namespace idem
