// The only door to the tables of keys, tokens, locks and rates: find, insert, replace and delete one key, or many new ones.
// What is said of keys here is true of all four.
//
// Each table is an ordinary heap with one unique index, written without the executor. What the executor would have done is done
// here: read-only and parallel checks, speculative insertion, index entries, command counter. The unique index decides who
// holds a key; `probe` is a hint taken with a dirty snapshot, which is what lets a caller see an uncommitted holder without
// waiting for it. A probe may miss a live row that is concurrently moved to another page; an insertion then fails on the
// index, and whoever needs certainty that a key is absent uses `probe_settled`.
//
// Every change names the row version (tid) it was decided on, and fails if that version is no longer the latest: compare and
// set, without locks of our own.
//
// One more door leads out only: a sweep walks the tables block by block and deletes what has expired (sweep_heap.hpp).
//
// User triggers, rules and row-level security on the tables do not take part.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"
#include "storage/heap_table.hpp"
#include "storage/key_index.hpp"
#include "storage/key_space.hpp"

namespace idem {

// An open key table.
struct KeyTable : HeapTable {
    KeySpace space;
};

enum class Access { read, write };
KeyTable open_keys(Access access, KeySpace space);
void close_keys(const KeyTable &table);

enum class Presence {
    absent,
    busy, // inserted, changed or deleted by another transaction that has not ended
    found
};

struct Probe {
    Presence presence;
    TransactionId holder;     // busy: who
    uint32 speculative_token; // busy: not zero while the holder is still in the act of inserting
    ItemPointerData tid;      // found
    HeapTuple row;            // found; of probe_next, valid until the next one
    bool own_transaction;     // found: this transaction wrote the version
    bool in_snapshot;         // found: the transaction's snapshot sees it, or need not
};

// A search that can probe for key after key, cheapest when they come in bytewise order. Between two probes a page stays
// pinned: end the probing before waiting for anybody. REQUIRES: not in recovery; keys of one scope, none before the last.
struct Prober {
    const KeyTable *table;
    IndexCursor cursor;
    IndexFetchTableData *heap;
    TupleTableSlot *slot;
    SnapshotData dirty;
};
void begin_probing(Prober *prober, const KeyTable &table);
Probe probe_next(Prober *prober, const text *scope, const text *key);
void end_probing(Prober *prober);

// One key. On a hot standby this is what the caller's snapshot sees.
Probe probe(const KeyTable &table, const text *scope, const text *key);

// The same, but "absent" is certain: no committed version existed when the call began.
Probe probe_settled(const KeyTable &table, const text *scope, const text *key);

// The same once no other transaction's change of the key is pending. `function`: for messages.
Probe probe_waiting(const KeyTable &table, const text *scope, const text *key, const char *function);

// What the caller's snapshot sees, as any SELECT would, but of two rows (one that others deleted since, and this transaction's
// own in its place) its own; never busy.
Probe probe_snapshot(const KeyTable &table, const text *scope, const text *key);

// Waits until the transaction that holds a busy key has ended, or has finished its insertion: a lock wait like any other
// (deadlocks are detected; lock_timeout, statement_timeout and cancel apply).
void wait_for_holder(const KeyTable &table, const Probe &busy);

// The same for at most `patience` microseconds; false when that was used up. The caller's own lock_timeout still raises.
bool wait_for_holder_within(const KeyTable &table, const Probe &busy, core::Micros patience);

// The same for one that has locked a row.
bool wait_for_transaction_within(const KeyTable &table, TransactionId holder, const ItemPointerData &version,
                                 core::Micros patience);

// 40001 when an answer would rest on a row version that the transaction's snapshot does not see.
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

// Decodes a found row; by-reference values point into it.
KeyRow read_row(const KeyTable &table, const Probe &found);

// What the state table asks of a row; fingerprints and owner are the caller's to compare.
core::State state_of(const KeyRow &row);
core::KeyFacts facts_of(const KeyRow &row, bool own_transaction, bool manual_policy);

// Whether `owner` is given, and is the row's.
bool is_owner(const KeyRow &row, const text *owner);

// The same of a row as it is stored, cheaply; the policy is taken to be `takeover`.
core::KeyFacts stored_facts(TupleDesc layout, HeapTuple row);

// Whether a found row is completed and its retention lasts beyond `now`: the cheap part of read_row.
bool is_completed(const KeyTable &table, const Probe &found, core::Micros now);

// Inserts a new key; `version` receives where it is. False: somebody else's is there, or being inserted; look again.
bool insert_key(const KeyTable &table, const Datum *values, const bool *nulls, ItemPointer version);
inline bool insert_key(const KeyTable &table, const KeyRow &row, ItemPointer version) {
    return insert_key(table, row.values, row.nulls, version);
}

// One of the other transactions that have locked or replaced this version and are still open; else InvalidTransactionId.
TransactionId locker_of(const KeyTable &table, const ItemPointerData &version);

// Replaces a version by another; when done, `version` is where the new one is. `wait`: for a rival that holds the row.
Write replace_key(const KeyTable &table, ItemPointer version, const Datum *values, const bool *nulls, bool wait);
inline Write replace_key(const KeyTable &table, ItemPointer version, const KeyRow &row, bool wait) {
    return replace_key(table, version, row.values, row.nulls, wait);
}
// Whether the version is still what this transaction wrote there, and has not replaced or deleted since.
bool is_current(const KeyTable &table, const ItemPointerData &version);

Write delete_key(const KeyTable &table, ItemPointer version);

// Inserts many keys that a probe just found absent, as one batch in a subtransaction: rows like `pattern`, each with its own
// key. False: one of them is not new after all, and nothing was inserted. REQUIRES: keys distinct and sorted bytewise (two
// such callers then meet their common keys in the same order, and cannot deadlock).
bool insert_keys(const KeyTable &table, const KeyRow &pattern, const text *const *keys, int count);

} // namespace idem
