// Rows of idem_outbox_leases: the batches that relays have (outbox.hpp says what a lease holds).
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

// The lease with this fence, once nobody else acknowledges or returns what it holds, and locked from then on; false when there
// is none (any longer).
bool lock_lease(const HeapTable &leases, int64 fence, Lease *lease);

// The same without waiting, of one that a LeaseScan found.
bool lock_lease_at_once(const HeapTable &leases, const Lease &lease);

void insert_lease(const HeapTable &leases, const Lease &lease);
void delete_lease(const HeapTable &leases, const Lease &lease);

// The leases of a topic, those included whose insertion or deletion has not committed.
struct LeaseScan {
    IndexedRows rows;
    SnapshotData dirty;
    ScanKeyData key;
    const text *topic;
};
void begin_lease_scan(LeaseScan *scan, const HeapTable &leases, const text *topic);
// Ours count as settled, unless another transaction is deleting them.
enum class Standing { settled, uncommitted, ending };
// False: there is no other.
bool next_lease(LeaseScan *scan, Lease *lease, Standing *standing);
void end_lease_scan(LeaseScan *scan);

} // namespace idem
