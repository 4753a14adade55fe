// Tables of idem's that are written without the executor and need no arbiter: an ordinary heap with a primary key, whose values
// come from the generators of ids and fences, so that two transactions never insert the same one.
//
// What the executor would have done is done here but for the command counter, which the caller advances when it has written all
// it will: a scan that goes on meanwhile does not meet what it wrote. User triggers, rules and row-level security do not take
// part. REQUIRES, of whatever writes: prevent_unless_writable was called.
#pragma once

#include "server/pg.hpp"
#include "storage/member.hpp"

namespace idem {

// An open table. REQUIRES: not kept beyond the SQL function that opened it; locks stay until the transaction ends.
struct PlainTable {
    Relation relation;
    Relation primary_key;
    bool has_more_indexes; // somebody added one: keep it in step, at the executor's price
};

PlainTable open_plain(Member &member);
void close_plain(const PlainTable &table);

// A row's values by attribute number - 1.
void insert_row(const PlainTable &table, const Datum *values, const bool *nulls);

// `version` by values of the columns that `replaced` names. False: somebody changed or deleted the row meanwhile, and nothing
// was done. Both wait for whoever holds the row.
bool update_row(const PlainTable &table, HeapTuple version, const Datum *values, const bool *nulls, const bool *replaced);
bool delete_row(const PlainTable &table, const ItemPointerData &version);

// Locks a row as SELECT FOR UPDATE would. False: it is gone, or somebody holds it and we were told not to wait.
bool lock_plain(const PlainTable &table, const ItemPointerData &version, LockWaitPolicy wait);

// The rows whose primary key begins with what `keys` say, in its order.
struct PlainScan {
    IndexScanDesc index;
    TupleTableSlot *slot;
};
PlainScan begin_plain_scan(const PlainTable &table, Snapshot snapshot, ScanKey keys, int count);
// Valid until the next one; nullptr: there is none.
TupleTableSlot *next_row(const PlainScan &scan);
void end_plain_scan(const PlainScan &scan);

// What has committed by now, and this transaction's own, whatever its isolation level: as the active snapshot, while `work`
// runs with it.
template <typename Work> void with_latest_snapshot(Work work) {
    PushActiveSnapshot(GetLatestSnapshot());
    work(GetActiveSnapshot());
    PopActiveSnapshot();
}

} // namespace idem
