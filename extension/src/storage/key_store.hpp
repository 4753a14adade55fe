// Access to the tables of keys, tokens, locks, rates and counters: find, insert, replace and delete one key, or insert many.
// This file says "key" for a row of any of the five.
//
// Each table is an ordinary heap with one unique index, written without the executor. Its work is done here: read-only and
// parallel checks, speculative insertion, index entries, command counter.
//
// The unique index decides which transaction holds a key. `probe` is a hint. It uses a dirty snapshot, and so sees an
// uncommitted holder without waiting for it. It may miss a live row that is concurrently moved to another page; an insertion
// then fails on the index. A caller that must be certain that a key is absent uses `probe_settled`.
//
// Every change names the row version (tid) that it was decided on, and fails if that version is no longer the latest. This is a
// compare-and-set without locks of idem's own.
//
// Two functions read the tables block by block instead: a sweep, which deletes expired rows (sweep_heap.hpp), and
// idem_in_flight.
//
// Keys of a scope that has a ring are in the ring's windows (ring.hpp), and in two places while the scope moves. Callers do not
// know the layout: a row's version says itself in which table it is. Where the keys are is fixed during a look (begin_look).
//
// User triggers, rules and row-level security on the tables have no effect.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"
#include "storage/heap_table.hpp"
#include "storage/key_index.hpp"
#include "storage/key_space.hpp"

namespace idem {

struct KeyPlaces;

// An open key table.
struct KeyTable : HeapTable {
    KeySpace space;
    KeyPlaces *places; // of the scope, or nullptr: this table alone
};

// Opens the table for the keys of one scope. `scope` may be nullptr in spaces other than that of keys.
enum class Access { read, write };
KeyTable open_keys(Access access, KeySpace space, const text *scope);
void close_keys(const KeyTable &table);

// The keys of an open table, locked for writing, whatever their scope. The caller closes the index.
KeyTable keys_in(Relation table);

// How long the keys of a scope in a ring are retained, from the claim on; 0: as long as the claim says.
core::Micros fixed_retention(const KeyTable &table);

// The scope's keys stay in their places from begin_look to end_look. The insertion of a key belongs to the look that found it
// absent during the same look, and waits for nobody meanwhile. Looks may be nested. An error ends them.
void begin_look(const KeyTable &table);
void end_look(const KeyTable &table);

// Another number than before: the look has ended since, and another one begun, to wait for a window. What was found absent
// before is a hint only.
uint64 look_number(const KeyTable &table);

// A version of a row: in which table (0: idem_keys, or the window's number in `places`), and where.
struct KeyVersion {
    ItemPointerData tid;
    int table;
};
inline bool is_in_ring(const KeyVersion &version) { return version.table > 0; }

enum class Presence {
    absent,
    busy, // inserted, changed or deleted by another transaction that has not ended
    found
};

struct Probe {
    Presence presence;
    TransactionId holder;     // busy: that transaction
    uint32 speculative_token; // busy: not zero while the holder's insertion is in progress
    KeyVersion version;       // found, and for wait_for_holder
    HeapTuple row;            // found; a copy
    core::Micros at;          // when it was so: the time of any decision about it
    bool own_transaction;     // found: this transaction wrote the version
    bool in_snapshot;         // found: the transaction's snapshot sees the version, or the isolation level does not require it
};

// A search for keys in one table. Pages stay pinned between two of them, so the caller ends it before it waits for anything.
struct Prober {
    const HeapTable *table; // nullptr: it is over, or has not begun
    IndexCursor cursor;
    Buffer heap_page; // pinned, not locked; or InvalidBuffer
    HeapTupleData row;
    SnapshotData dirty;
    bool has_entries; // the index has entries of the last key
};
void end_probing(Prober *prober);

// What a look at the key's row shows: enough for most claims. `done`: it is completed, by a transaction that has committed and
// that the caller's snapshot sees, or by this one; and its retention lasts beyond `at`, the time of the look. `absent`: a hint,
// as of `probe`. REQUIRES: a space with key columns; a look.
enum class Glance { absent, done, other };
Glance glance(const KeyTable &table, const text *scope, const text *key, core::Micros *at);

// The same for up to kKeysPerGroup keys. The prober's table is nullptr at first, and the caller ends it. REQUIRES: not in
// recovery; keys in bytewise order, also those of one group and the next.
void glance_at_group(Prober *prober, const KeyTable &table, const text *scope, const text *const *keys, int count,
                     Glance *glances);

// Looks for one key. On a hot standby, the result is that of probe_snapshot.
Probe probe(const KeyTable &table, const text *scope, const text *key);

// As probe, but "absent" is certain: no committed version existed when the call began.
Probe probe_settled(const KeyTable &table, const text *scope, const text *key);

// As probe_settled, after waiting until no other transaction's change of the key is pending. Messages name `function`.
Probe probe_waiting(const KeyTable &table, const text *scope, const text *key, const char *function);

// The row that the caller's snapshot sees, as in a SELECT; never busy. The snapshot may see two rows: one that another
// transaction has deleted since, and one that this transaction inserted in its place. The result is then the latter.
Probe probe_snapshot(const KeyTable &table, const text *scope, const text *key);

// Waits until the transaction that holds a busy key ends, or finishes its insertion. It is an ordinary lock wait: deadlocks are
// detected, and lock_timeout, statement_timeout and cancel apply.
void wait_for_holder(const KeyTable &table, const Probe &busy);

// As wait_for_holder, for at most `patience` microseconds. False: that time has passed. The caller's own lock_timeout still
// raises its error.
bool wait_for_holder_within(const KeyTable &table, const Probe &busy, core::Micros patience);

// As wait_for_holder_within, for a transaction that has locked a row.
void wait_for_transaction(const KeyTable &table, TransactionId holder, const KeyVersion &version);
bool wait_for_transaction_within(const KeyTable &table, TransactionId holder, const KeyVersion &version, core::Micros patience);

// Raises 40001 if the transaction's snapshot does not see the row version: no result may depend on it.
void require_in_snapshot(const KeyTable &table, const Probe &found);

// A value that no row lacks.
inline Datum value_of(const KeyTable &table, const Probe &found, AttrNumber column) {
    bool is_null;
    return heap_getattr(found.row, column, RelationGetDescr(table.relation), &is_null);
}

// The values of one row of a space with key columns, by KeyColumn number - 1.
struct KeyRow {
    Datum values[KeyColumn::count];
    bool nulls[KeyColumn::count];

    void set(AttrNumber column, Datum value) {
        values[column - 1] = value;
        nulls[column - 1] = false;
    }
    void set_null(AttrNumber column) {
        values[column - 1] = Datum{0};
        nulls[column - 1] = true;
    }
    bool is_null(AttrNumber column) const { return nulls[column - 1]; }
    Datum get(AttrNumber column) const { return values[column - 1]; }
    core::Micros time(AttrNumber column) const { return DatumGetTimestampTz(get(column)); }
};

// The values of a found row. By-reference values point into the row.
KeyRow read_row(const KeyTable &table, const Probe &found);

// A row's facts for the state table, except those of fingerprints and owner, which the caller compares.
core::State state_of(const KeyRow &row);
core::KeyFacts facts_of(const KeyRow &row, bool own_transaction, bool manual_policy);

// Whether `owner` is given and equals the row's owner.
bool is_owner(const KeyRow &row, const text *owner);

// The facts that decide whether a stored row is expired, without decoding all of it. Assumes the policy `takeover`.
core::KeyFacts stored_facts(TupleDesc layout, HeapTuple row);

// The response of a completed key, and the outputs of its steps. A key whose response is removed counts as completed as before,
// and replays say response_omitted.
bool has_response(TupleDesc layout, HeapTuple row);
void remove_response(KeyRow *row);
// When the key's work was completed. REQUIRES: a completed key.
core::Micros completion_time(TupleDesc layout, HeapTuple row);

// Inserts a new key; `version` receives its position. False: another row has the key or is being inserted with it; the caller
// probes again. REQUIRES: a look, if the scope may have a ring.
bool insert_key(const KeyTable &table, const Datum *values, const bool *nulls, KeyVersion *version);
inline bool insert_key(const KeyTable &table, const KeyRow &row, KeyVersion *version) {
    return insert_key(table, row.values, row.nulls, version);
}

// One of the other open transactions that have locked or replaced this version, or InvalidTransactionId.
TransactionId locker_of(const KeyTable &table, const KeyVersion &version);

// Locks a row as lock_row does.
Write lock_key(const KeyTable &table, KeyVersion *version, LockTupleMode mode, LockWaitPolicy wait);

// Whether idem_keys itself may have a key of the scope, committed or not.
bool may_have_keys(const text *scope);

// Replaces a version. When done, `version` is the new version's position. `wait`: whether to wait for a transaction that holds
// the row, or else to return busy; during a look, never. REQUIRES: a look, if the row is in a ring and its retention changes.
Write replace_key(const KeyTable &table, KeyVersion *version, const Datum *values, const bool *nulls, bool wait);
inline Write replace_key(const KeyTable &table, KeyVersion *version, const KeyRow &row, bool wait) {
    return replace_key(table, version, row.values, row.nulls, wait);
}
// Whether a version that this transaction wrote is still there, and not replaced or deleted since.
bool is_current(const KeyTable &table, const KeyVersion &version);

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

// Inserts keys that a probe just found absent: rows like `pattern`, each with its own key. Closes the target. False: one of
// them is not new; the caller rolls back the subtransaction. REQUIRES: a subtransaction; a look, as insert_key; keys distinct
// and sorted bytewise. Two such callers then reach their common keys in the same order and cannot deadlock.
bool insert_keys(const KeyInserter &inserter, const KeyTarget &target, const KeyRow &pattern, const text *const *keys,
                 int count);

} // namespace idem
