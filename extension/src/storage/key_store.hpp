// Writing keys: insert, lock, replace and delete one, or insert many.
//
// Every change names the row version (tid) that it was decided on, and fails if that version is no longer the latest. This is a
// compare-and-set without locks of idem's own.
//
// Two functions read the tables block by block instead: a sweep, which deletes expired rows (sweep_heap.hpp), and
// idem_in_flight.
#pragma once

#include "storage/key_record.hpp"
#include "storage/key_table.hpp"

namespace idem {

// Inserts a new key; `version` receives its position. False: another row has the key or is being inserted with it; the caller
// searches again. REQUIRES: the placement is held, if the scope may have a ring.
bool insert_key(const KeyTable &table, const Datum *values, const bool *nulls, KeyVersion *version);
inline bool insert_key(const KeyTable &table, const KeyRow &row, KeyVersion *version) {
    return insert_key(table, row.values, row.nulls, version);
}

// Locks a row as lock_row does.
Write lock_key(const KeyTable &table, KeyVersion *version, LockTupleMode mode, LockWaitPolicy wait);

// Replaces a version. When done, `version` is the new version's position. `wait`: whether to wait for a transaction that holds
// the row, or else to return busy; while the placement is held, never. REQUIRES: the placement is held, if the row is in a ring
// and its retention changes.
Write replace_key(const KeyTable &table, KeyVersion *version, const Datum *values, const bool *nulls, bool wait);
inline Write replace_key(const KeyTable &table, KeyVersion *version, const KeyRow &row, bool wait) {
    return replace_key(table, version, row.values, row.nulls, wait);
}

Write delete_key(const KeyTable &table, KeyVersion *version);

// Inserts many keys, in batches of up to kMaxInsertedKeys. REQUIRES: opened outside of the subtransactions of insert_keys.
inline constexpr int kMaxInsertedKeys = 128;
struct KeyInserter {
    const KeyTable *table;
    RowBatch *batch;      // nullptr: the window that takes keys may change, so that each batch opens its own
    MemoryContext memory; // of one batch
};
KeyInserter open_key_inserter(const KeyTable &table);
void close_key_inserter(const KeyInserter &inserter);

// The table that takes the next batch, with its indexes locked: what may wait comes before the caller reads the clock. False:
// the caller begins again, as when one of the keys is not new. REQUIRES: as insert_keys.
struct KeyTarget {
    KeyVersion place;
    RowBatch *batch;
};
bool open_key_target(const KeyInserter &inserter, KeyTarget *target);

// Inserts keys that were just found absent: rows like `pattern`, each with its own key. Closes the target. False: one of
// them is not new; the caller rolls back the subtransaction. REQUIRES: a subtransaction; the placement is held, as for
// insert_key; keys distinct and sorted bytewise. Two such callers then reach their common keys in the same order and cannot
// deadlock.
bool insert_keys(const KeyInserter &inserter, const KeyTarget &target, const KeyRow &pattern, const text *const *keys,
                 int count);

} // namespace idem
