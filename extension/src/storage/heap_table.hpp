// The one writer of the extension's own tables: rows, their index entries and row locks, without the executor.
//
// It does what the executor would have done, except for two things. The command counter is the caller's to advance, so that a
// scan that goes on meanwhile does not meet what was written. User triggers, rules and row-level security do not take part.
// REQUIRES, of every function that writes: prevent_unless_writable was called.
#pragma once

#include "server/pg.hpp"
#include "storage/member.hpp"

namespace idem {

// An open table. REQUIRES: not kept beyond the SQL function that opened it; locks stay until the transaction ends.
struct HeapTable {
    Relation relation;
    Relation primary_key; // nullptr: the table has none
    Relation indexes[4];  // all of them, when each is a B-tree of plain columns
    int count;
    bool has_other_indexes; // somebody added them: all entries are made at the executor's price
};

// The table is checked (member.hpp) after it is locked, so what an ALTER TABLE changed during the wait counts.
HeapTable open_heap(Member &member, LOCKMODE lock);
// The same for a table that is opened call after call (open_member_held).
HeapTable open_heap_held(Member &member, LOCKMODE lock);
void close_heap(const HeapTable &table);

// An index whose first column is this one, or nullptr.
Relation index_on(const HeapTable &table, AttrNumber column);

// A row of these values, by attribute number - 1.
HeapTuple form_row(const HeapTable &table, const Datum *values, const bool *nulls);

// Inserts a row whose primary key no other transaction can have: its values come from the generators of ids and fences.
// Unique indexes that others added raise 23505.
void insert_row(const HeapTable &table, HeapTuple row);
void insert_row(const HeapTable &table, const Datum *values, const bool *nulls);

// Inserts a row unless its primary key is taken, or is being inserted. The index arbitrates.
bool insert_row_if_new(const HeapTable &table, HeapTuple row);

// The same for rows in `slots`, in order. False at the first that is not new: the caller rolls the others back. Neither raises
// nor waits for a rival, as a batch that is half done must not.
bool insert_rows_if_new(const HeapTable &table, TupleTableSlot **slots, int count);

enum class Write {
    done,
    changed, // the version is no longer the latest: look again
    busy     // another transaction holds the row, and the caller is not to wait
};

// Replaces a version by `row`, which then says where it is; deletes a version. Both wait for the transaction that holds the row
// (`wait` = false: busy instead).
Write update_row(const HeapTable &table, const ItemPointerData &version, HeapTuple row);
Write delete_row(const HeapTable &table, const ItemPointerData &version, bool wait = true);

// Locks a row as SELECT FOR … would, and changes nothing. LockTupleKeyShare does not wait for a transaction that is replacing
// the version; it locks the version to come, too. `version` receives which one was locked.
Write lock_row(const HeapTable &table, ItemPointer version, LockTupleMode mode, LockWaitPolicy wait);

// The rows that an index finds for `keys`, in its order.
struct IndexedRows {
    IndexScanDesc scan;
    TupleTableSlot *slot;
};
IndexedRows begin_indexed_rows(const HeapTable &table, Relation index, Snapshot snapshot, ScanKey keys, int count);
// Valid until the next one; nullptr: there is none.
TupleTableSlot *next_row(const IndexedRows &rows);
void end_indexed_rows(const IndexedRows &rows);

// Runs `work` with a snapshot, which is then the active one, of what has committed by now and of this transaction's own
// writes, whatever its isolation level.
template <typename Work> void with_latest_snapshot(Work work) {
    PushActiveSnapshot(GetLatestSnapshot());
    work(GetActiveSnapshot());
    PopActiveSnapshot();
}

} // namespace idem
