// The one writer of the extension's own tables: rows, their index entries and row locks, without the executor.
//
// It does the executor's work with two exceptions. It does not advance the command counter: the caller does, so that a scan in
// progress does not find the rows written meanwhile. User triggers, rules and row-level security have no effect.
// REQUIRES, for every function that writes: prevent_unless_writable was called.
#pragma once

#include "server/pg.hpp"
#include "storage/member.hpp"

namespace idem {

// An open table. REQUIRES: closed by the SQL function that opened it. Locks stay until the transaction ends.
//
// A search in an index needs no lock of the index where the table is locked as for writing: whatever drops or replaces an index
// waits for such locks first. Two cases remain. On a standby nothing waits, so the index is locked there. ALTER INDEX ... SET
// TABLESPACE locks the index alone: a search that is under way when it commits can fail, with an error of the storage manager
// and no wrong result. Only the search for one key, of microseconds, goes without the lock. Scans and batches lock the index,
// and a write locks every index that it makes an entry in.
struct HeapTable {
    Relation relation;
    Relation primary_key; // nullptr: the table has none
};

// The table is checked (member.hpp) after it is locked, so the check sees the changes of an ALTER TABLE that it waited for.
HeapTable open_heap(Member &member, LOCKMODE lock);
// As open_heap, for a table that is opened in many calls of a transaction (open_member_held).
HeapTable open_heap_held(Member &member, LOCKMODE lock);
// A window of a ring, which is locked at least for reading. Its index is not locked: a REINDEX of a window that is only read is
// the third case in which a search of microseconds may fail with an error.
HeapTable heap_of_window(Relation window);
void close_heap(const HeapTable &table);

// An index on plain columns whose first column is `column`, or nullptr. The caller closes it with close_index.
Relation open_index_on(const HeapTable &table, AttrNumber column);
void close_index(Relation index);

// For a search that goes on for longer than that for one key.
void lock_index(Relation index);

// A row with these values, by attribute number - 1.
HeapTuple form_row(const HeapTable &table, const Datum *values, const bool *nulls);

// Inserts a row whose primary key no other transaction can have, as it comes from the generators of ids and fences. A conflict
// in a unique index that an operator added raises 23505.
void insert_row(const HeapTable &table, HeapTuple row);
void insert_row(const HeapTable &table, const Datum *values, const bool *nulls);

// Inserts the rows, in order, as one batch. As insert_row.
void insert_rows(const HeapTable &table, HeapTuple *rows, int count);

// Inserts a row, or returns false if another row has its primary key or is being inserted with it. The index arbitrates.
bool insert_row_if_new(const HeapTable &table, HeapTuple row);

// What the insertion of batches keeps from one to the next: the open indexes, and slots for up to that many rows.
struct RowBatch;
RowBatch *open_row_batch(const HeapTable &table, int most_rows);
void close_row_batch(RowBatch *batch);

// Inserts the rows, in order, as one batch. Returns false at the first whose primary key is not new; the caller then rolls back
// the others. A conflict on the primary key neither raises an error nor waits, as a partly inserted batch must not wait.
bool insert_rows_if_new(RowBatch *batch, HeapTuple *rows, int count);

enum class Write {
    done,
    changed, // the version is no longer the latest; the caller reads the row again
    busy     // another transaction holds the row, and the caller may not wait
};

// Replaces or deletes a version. update_row sets the position of `row`. Both wait for a transaction that holds the row; with
// `wait` = false, delete_row returns busy instead.
Write update_row(const HeapTable &table, const ItemPointerData &version, HeapTuple row);
Write delete_row(const HeapTable &table, const ItemPointerData &version, bool wait = true);

// Locks a row as SELECT FOR … does, without changing it. LockTupleKeyShare does not wait for a transaction that is replacing
// the version, and locks the new version as well. `version` receives the version that was locked.
Write lock_row(const HeapTable &table, ItemPointer version, LockTupleMode mode, LockWaitPolicy wait);

// An index scan: the rows that match `keys`, in index order.
struct IndexedRows {
    IndexScanDesc scan;
    TupleTableSlot *slot;
};
IndexedRows begin_indexed_rows(const HeapTable &table, Relation index, Snapshot snapshot, ScanKey keys, int count);
// The next row, valid until the next call; nullptr at the end.
TupleTableSlot *next_row(const IndexedRows &rows);
void end_indexed_rows(const IndexedRows &rows);

// Runs `work` with a new active snapshot. The snapshot sees all that has committed by now and this transaction's own writes, at
// any isolation level.
template <typename Work> void with_latest_snapshot(Work work) {
    PushActiveSnapshot(GetLatestSnapshot());
    work(GetActiveSnapshot());
    PopActiveSnapshot();
}

} // namespace idem
