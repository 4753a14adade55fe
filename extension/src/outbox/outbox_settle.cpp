// idem_outbox_ack, idem_outbox_nack: a relay reports the delivery or failure of a lease's messages.
#include "core/backoff.hpp"
#include "outbox/outbox_lease.hpp"
#include "server/settings.hpp"
#include "server/writable.hpp"

#include <algorithm>

namespace {

using namespace idem;
using core::Micros;

struct Argument {
    enum { ids, fence, retry_after };
};

// The numbers that are in both lists. REQUIRES: sorted lists.
Numbers intersection(const Numbers &left, const Numbers &right) {
    Numbers both{static_cast<int64 *>(palloc(Max(left.count, 1) * sizeof(int64))), 0};
    const int64 *end =
        std::set_intersection(left.list, left.list + left.count, right.list, right.list + right.count, both.list);
    both.count = static_cast<int>(end - both.list);
    return both;
}

// Calls `settle_one` for each of the messages `ids` that the lease still holds, and returns how many calls returned true.
template <typename Settle>
int settle_held(const HeapTable &messages, Snapshot snapshot, const Lease &lease, const Numbers &ids, Settle settle_one) {
    int settled = 0;
    const IndexedRows scan = begin_message_scan(messages, snapshot, lease.topic, ids);
    while (TupleTableSlot *slot = next_row(scan))
        if (holds(lease.fence, read_message(slot)))
            settled += settle_one(slot);
    end_indexed_rows(scan);
    return settled;
}

// Whether the lease holds any message that is not in `settled`. REQUIRES: sorted lists.
bool holds_others(const HeapTable &messages, Snapshot snapshot, const Lease &lease, const Numbers &settled) {
    Numbers others{static_cast<int64 *>(palloc(Max(lease.ids.count, 1) * sizeof(int64))), 0};
    const int64 *end = std::set_difference(lease.ids.list, lease.ids.list + lease.ids.count, settled.list,
                                           settled.list + settled.count, others.list);
    others.count = static_cast<int>(end - others.list);
    if (others.count == 0)
        return false;
    bool found = false;
    const IndexedRows scan = begin_message_scan(messages, snapshot, lease.topic, others);
    while (TupleTableSlot *slot = found ? nullptr : next_row(scan))
        found = holds(lease.fence, read_message(slot));
    end_indexed_rows(scan);
    return found;
}

// Settles those of the messages `ids` that the lease holds, and returns their number. Deletes the lease if it holds no message
// afterwards. REQUIRES: the lease is locked.
template <typename Settle> int settle_part(const HeapTable &leases, Lease *lease, const Numbers &ids, Settle settle_one) {
    std::sort(lease->ids.list, lease->ids.list + lease->ids.count);
    const Numbers listed = intersection(lease->ids, ids);
    int settled = 0;
    const HeapTable messages = open_messages();
    // The lease's row is locked before the snapshot is taken, so the snapshot sees all other changes of its messages.
    with_latest_snapshot([&](Snapshot snapshot) {
        settled =
            settle_held(messages, snapshot, *lease, listed, [&](TupleTableSlot *slot) { return settle_one(messages, slot); });
        if (!holds_others(messages, snapshot, *lease, listed))
            delete_lease(leases, *lease);
    });
    close_heap(messages);
    return settled;
}

// Settles those of the messages `ids` that the batch with this fence holds, and returns their number. Calls `after(topic)` if
// any message was settled.
template <typename Settle, typename After> int settle(const Numbers &ids, int64 fence, Settle settle_one, After after) {
    const HeapTable leases = open_leases();
    int settled = 0;
    Lease lease;
    for (int32 from = 0; settled < ids.count && lock_part(leases, fence, ids, from, &lease); from = lease.part + 1)
        settled += settle_part(leases, &lease, ids, settle_one);
    close_heap(leases);
    if (settled > 0)
        after(lease.topic);
    CommandCounterIncrement();
    return settled;
}

int64 fence_argument(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(Argument::fence))
        raise_null_argument("fence");
    return PG_GETARG_INT64(Argument::fence);
}

Micros delay_argument(FunctionCallInfo fcinfo) {
    const Micros delay = span_of(PG_GETARG_INTERVAL_P(Argument::retry_after), "retry_after");
    if (delay < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("retry_after must not be negative"),
                        errhint("Use '0' for at once, NULL for a rest that grows with the failures.")));
    check_deadline(delay, "retry_after");
    return delay;
}

} // namespace

SQL_FUNCTION(idem_outbox_ack) {
    const Numbers ids = ids_argument(fcinfo, Argument::ids);
    const int64 fence = fence_argument(fcinfo);
    prevent_unless_writable("idem_outbox_ack()");
    PG_RETURN_INT32(settle(
        ids, fence,
        [](const HeapTable &messages, TupleTableSlot *slot) { return delete_row(messages, slot->tts_tid) == Write::done; },
        [](const text *) {}));
}

SQL_FUNCTION(idem_outbox_nack) {
    const Numbers ids = ids_argument(fcinfo, Argument::ids);
    const int64 fence = fence_argument(fcinfo);
    const bool backs_off = PG_ARGISNULL(Argument::retry_after);
    const Micros fixed_delay = backs_off ? 0 : delay_argument(fcinfo);
    prevent_unless_writable("idem_outbox_nack()");
    const HeapTable leases = open_leases();
    lock_parts(leases, fence, ids);
    close_heap(leases);
    PG_RETURN_INT32(settle(
        ids, fence,
        [&](const HeapTable &messages, TupleTableSlot *slot) {
            const Micros delay = backs_off ? core::backoff(read_message(slot).failures + 1) : fixed_delay;
            const Micros due_at = delay == 0 ? 0 : deadline_after(clock_now(), delay, "retry_after");
            return return_message(messages, slot, fence, due_at, Failure::nacked);
        },
        [&](const text *topic) {
            if (!backs_off && fixed_delay == 0)
                notify_relays(topic);
        }));
}
