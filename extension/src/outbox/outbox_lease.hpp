// Rows of idem_outbox_leases, each for one relay's batch. outbox.hpp defines which messages a lease holds.
#pragma once

#include "outbox/outbox.hpp"

namespace idem {

extern Member leases_table;

struct Lease {
    ItemPointerData version;
    int64 fence;
    core::Micros lease_until;
    text *topic;
    Numbers ids;
    Numbers key_hashes; // of the same messages
};

HeapTable open_leases();

// Reads and locks the lease with this fence, after waiting for other transactions that acknowledge or return its messages.
// False: the lease does not exist, or no longer.
bool lock_lease(const HeapTable &leases, int64 fence, Lease *lease);

// Locks a lease that a LeaseScan found. False: another transaction holds the row, or has deleted it. Does not wait.
bool try_lock_lease(const HeapTable &leases, const Lease &lease);

void insert_lease(const HeapTable &leases, const Lease &lease);
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
