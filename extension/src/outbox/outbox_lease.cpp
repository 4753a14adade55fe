#include "outbox/outbox_lease.hpp"

#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/value_lock.hpp"

#include <algorithm>

namespace idem {

namespace {

constexpr Column kColumns[] = {{"fence", INT8OID}, {"lease_until", TIMESTAMPTZOID}, {"part", INT4OID},
                               {"topic", TEXTOID}, {"ids", INT8ARRAYOID},           {"key_hashes", INT8ARRAYOID}};

[[noreturn]] void raise_damaged() {
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("a row of idem_outbox_leases is damaged"),
                    errhint("Delete the row; its messages are given out again.")));
    pg_unreachable();
}

Numbers numbers_of(Datum value) {
    ArrayType *array = DatumGetArrayTypeP(value);
    if (ARR_HASNULL(array) || ARR_ELEMTYPE(array) != INT8OID)
        raise_damaged();
    return {reinterpret_cast<int64 *>(ARR_DATA_PTR(array)), ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array))};
}

text *topic_of(TupleTableSlot *slot) {
    bool is_null;
    return DatumGetTextPP(slot_getattr(slot, LeaseColumn::topic, &is_null));
}

// A copy, in the current memory context.
Lease read_lease(TupleTableSlot *slot) {
    bool is_null;
    Lease lease;
    lease.version = slot->tts_tid;
    lease.fence = DatumGetInt64(slot_getattr(slot, LeaseColumn::fence, &is_null));
    lease.lease_until = DatumGetTimestampTz(slot_getattr(slot, LeaseColumn::lease_until, &is_null));
    lease.part = DatumGetInt32(slot_getattr(slot, LeaseColumn::part, &is_null));
    lease.topic = DatumGetTextPCopy(slot_getattr(slot, LeaseColumn::topic, &is_null));
    lease.ids = numbers_of(PointerGetDatum(DatumGetArrayTypePCopy(slot_getattr(slot, LeaseColumn::ids, &is_null))));
    lease.key_hashes =
        numbers_of(PointerGetDatum(DatumGetArrayTypePCopy(slot_getattr(slot, LeaseColumn::key_hashes, &is_null))));
    if (lease.ids.count != lease.key_hashes.count)
        raise_damaged();
    return lease;
}

} // namespace

constinit Member leases_table = member_table("idem_outbox_leases", kColumns, LeaseColumn::fence, LeaseColumn::part);

HeapTable open_leases() { return open_heap_held(leases_table, RowExclusiveLock); }

namespace {

bool find_part(const HeapTable &leases, int64 fence, int32 from, Lease *lease) {
    bool found = false;
    with_latest_snapshot([&](Snapshot snapshot) {
        ScanKeyData keys[2];
        ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid, InvalidOid, F_INT8EQ, Int64GetDatum(fence));
        ScanKeyEntryInitialize(&keys[1], 0, 2, BTGreaterEqualStrategyNumber, InvalidOid, InvalidOid, F_INT4GE,
                               Int32GetDatum(from));
        const IndexedRows scan = begin_indexed_rows(leases, leases.primary_key, snapshot, keys, 2);
        if (TupleTableSlot *slot = next_row(scan)) {
            *lease = read_lease(slot);
            found = true;
        }
        end_indexed_rows(scan);
    });
    return found;
}

bool lists_any(const Lease &lease, const Numbers &ids) {
    return std::any_of(lease.ids.list, lease.ids.list + lease.ids.count,
                       [&](int64 id) { return std::binary_search(ids.list, ids.list + ids.count, id); });
}

bool lock_lease(const HeapTable &leases, const Lease &lease, LockWaitPolicy wait) {
    ItemPointerData version = lease.version;
    return lock_row(leases, &version, LockTupleExclusive, wait) == Write::done;
}

} // namespace

bool lock_part(const HeapTable &leases, int64 fence, const Numbers &ids, int32 from, Lease *part) {
    for (; find_part(leases, fence, from, part); check_for_interrupts()) {
        if (!lists_any(*part, ids))
            from = part->part + 1;
        else if (lock_lease(leases, *part, LockWaitBlock))
            return true;
        // Otherwise it was ended or renewed meanwhile: a renewal leaves parts from the same number on.
    }
    return false;
}

void lock_parts(const HeapTable &leases, int64 fence, const Numbers &ids) {
    Lease part;
    for (int32 from = 0; lock_part(leases, fence, ids, from, &part); from = part.part + 1)
        check_for_interrupts();
}

bool try_lock_lease(const HeapTable &leases, const Lease &lease) { return lock_lease(leases, lease, LockWaitSkip); }

namespace {

void insert_lease(const HeapTable &leases, const Lease &lease) {
    Datum values[LeaseColumn::count];
    const bool nulls[LeaseColumn::count] = {};
    values[LeaseColumn::fence - 1] = Int64GetDatum(lease.fence);
    values[LeaseColumn::lease_until - 1] = TimestampTzGetDatum(lease.lease_until);
    values[LeaseColumn::part - 1] = Int32GetDatum(lease.part);
    values[LeaseColumn::topic - 1] = PointerGetDatum(lease.topic);
    values[LeaseColumn::ids - 1] = PointerGetDatum(array_of(lease.ids));
    values[LeaseColumn::key_hashes - 1] = PointerGetDatum(array_of(lease.key_hashes));
    insert_row(leases, values, nulls);
}

Numbers slice(const Numbers &numbers, int from) {
    return {numbers.list + from, Min(numbers.count - from, kMaxMessagesPerPart)};
}

} // namespace

void insert_leases(const HeapTable &leases, const Lease &batch) {
    for (int from = 0; from < batch.ids.count; from += kMaxMessagesPerPart) {
        Lease lease = batch;
        lease.part = from;
        lease.ids = slice(batch.ids, from);
        lease.key_hashes = slice(batch.key_hashes, from);
        insert_lease(leases, lease);
    }
}

void delete_lease(const HeapTable &leases, const Lease &lease) { (void)delete_row(leases, lease.version); }

// A take that scans the leases meanwhile could find neither the old row nor the new ones. It scans before or after, because of
// the topic's lock, for which this transaction may wait: nobody who has it waits for a lease's row.
void replace_lease(const HeapTable &leases, const Lease &part, const Lease &first, const Lease &second) {
    const LOCKTAG topic_lock = topic_tag(part.topic);
    (void)LockAcquire(&topic_lock, ExclusiveLock, false, false);
    delete_lease(leases, part);
    insert_lease(leases, first);
    if (second.ids.count > 0) {
        Lease rest = second;
        rest.part = part.part + first.ids.count;
        insert_lease(leases, rest);
    }
    LockRelease(&topic_lock, ExclusiveLock, false);
}

LOCKTAG topic_tag(const text *topic) { return value_tag(ValueLock::outbox, hash_of(topic, topic)); }

void begin_lease_scan(LeaseScan *scan, const HeapTable &leases, const text *topic) {
    InitDirtySnapshot(scan->dirty);
    scan->topic = topic;
    // Reads the leases of every topic if an operator has dropped the index.
    scan->by_topic = open_index_on(leases, LeaseColumn::topic);
    ScanKeyEntryInitialize(&scan->key, 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
                           PointerGetDatum(topic));
    scan->rows = scan->by_topic != nullptr ? begin_indexed_rows(leases, scan->by_topic, &scan->dirty, &scan->key, 1)
                                           : begin_indexed_rows(leases, leases.primary_key, &scan->dirty, nullptr, 0);
}

bool next_lease(LeaseScan *scan, Lease *lease, LeaseStatus *status) {
    for (TupleTableSlot *slot; (slot = next_row(scan->rows)) != nullptr;) {
        if (compare_bytes(topic_of(slot), scan->topic) != 0)
            continue;
        *status = TransactionIdIsValid(scan->dirty.xmin)   ? LeaseStatus::being_inserted
                  : TransactionIdIsValid(scan->dirty.xmax) ? LeaseStatus::being_deleted
                                                           : LeaseStatus::settled;
        *lease = read_lease(slot);
        return true;
    }
    return false;
}

void end_lease_scan(LeaseScan *scan) {
    end_indexed_rows(scan->rows);
    if (scan->by_topic != nullptr)
        close_index(scan->by_topic);
}

} // namespace idem
