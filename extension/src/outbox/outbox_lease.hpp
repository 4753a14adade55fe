// Rows of idem_outbox_leases, each for a part of one relay's batch. outbox.hpp defines which messages a lease holds.
#pragma once

#include "outbox/outbox.hpp"

namespace idem {

extern Member leases_table;

struct Lease {
    ItemPointerData version;
    int64 fence;
    core::Micros lease_until;
    int32 part; // of the batch: parts have as many numbers as messages, from this one on
    text *topic;
    Numbers ids;
    Numbers key_hashes; // of the same messages
};

HeapTable open_leases();

// Reads and locks the first part of the batch with this fence that is not before part `from` and lists any of the messages
// `ids`, after waiting for other transactions that acknowledge, return or renew its messages. False: there is none. REQUIRES:
// `ids` sorted.
bool lock_part(const HeapTable &leases, int64 fence, const Numbers &ids, int32 from, Lease *part);

// Locks all such parts, so that no part is waited for when another one has its new time.
void lock_parts(const HeapTable &leases, int64 fence, const Numbers &ids);

// Locks a lease that a LeaseScan found. False: another transaction holds the row, or has deleted it. Does not wait.
bool try_lock_lease(const HeapTable &leases, const Lease &lease);

// Inserts a batch in parts. `batch.part` is ignored.
void insert_leases(const HeapTable &leases, const Lease &batch);
void delete_lease(const HeapTable &leases, const Lease &lease);
// Replaces a part of a batch by two parts of its messages; the second may be empty. REQUIRES: the part is locked; both have its
// number of part.
void replace_lease(const HeapTable &leases, const Lease &part, const Lease &first, const Lease &second);

// The lock by which takes of a topic exclude each other while they choose messages.
LOCKTAG topic_tag(const text *topic);

// The leases of a topic, including those that an open transaction has inserted or deleted.
struct LeaseScan {
    Relation by_topic; // the index, or nullptr
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
