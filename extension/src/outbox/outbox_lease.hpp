// Rows of idem_outbox_leases, each for a part of one relay's batch. outbox.hpp defines which messages a lease holds.
#pragma once

#include "outbox/outbox.hpp"

namespace idem {

extern Member leases_table;

struct Lease {
    ItemPointerData version;
    int64 fence;
    core::Micros lease_until;
    int32 part; // of the batch
    text *topic;
    Numbers ids;
    Numbers key_hashes; // of the same messages
};

HeapTable open_leases();

// Reads the first part of the batch with this fence that is not before part `from`. False: there is none.
bool find_lease(const HeapTable &leases, int64 fence, int32 from, Lease *lease);

// Locks a lease that find_lease found, after waiting for other transactions that acknowledge or return its messages. False: it
// no longer exists.
bool lock_lease(const HeapTable &leases, const Lease &lease);

// Locks a lease that a LeaseScan found. False: another transaction holds the row, or has deleted it. Does not wait.
bool try_lock_lease(const HeapTable &leases, const Lease &lease);

// Inserts a batch in parts. `batch.part` is ignored.
void insert_leases(const HeapTable &leases, const Lease &batch);
void delete_lease(const HeapTable &leases, const Lease &lease);

// The leases of a topic, including those that an open transaction has inserted or deleted.
struct LeaseScan {
    IndexedRows rows;
    SnapshotData dirty;
    ScanKeyData key;
    const text *topic;
};
void begin_lease_scan(LeaseScan *scan, const HeapTable &leases, const text *topic);
// Another transaction, which is open, has inserted or deleted the lease; `settled` if none has.
enum class LeaseStatus { settled, being_inserted, being_deleted };
// False: the scan has ended.
bool next_lease(LeaseScan *scan, Lease *lease, LeaseStatus *status);
void end_lease_scan(LeaseScan *scan);

} // namespace idem
