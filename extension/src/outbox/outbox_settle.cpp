// idem_outbox_ack, idem_outbox_nack: what became of the messages of a lease.
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

// Those that are in both. REQUIRES: sorted.
Numbers common(const Numbers &left, const Numbers &right) {
    Numbers both{static_cast<int64 *>(palloc(Max(left.count, 1) * sizeof(int64))), 0};
    const int64 *end =
        std::set_intersection(left.list, left.list + left.count, right.list, right.list + right.count, both.list);
    both.count = static_cast<int>(end - both.list);
    return both;
}

// `settle` is called for each of these messages that the lease still holds, and says whether it did it.
template <typename Settle>
int settle_held(const HeapTable &messages, Snapshot snapshot, const Lease &lease, const Numbers &ids, Settle settle) {
    int done = 0;
    const IndexedRows scan = begin_message_scan(messages, snapshot, lease.topic, ids);
    while (TupleTableSlot *slot = next_row(scan))
        if (holds(lease.fence, read_message(slot)))
            done += settle(slot);
    end_indexed_rows(scan);
    return done;
}

// Whether the lease holds any but these, which are settled. REQUIRES: sorted.
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

// Settles those of the messages that the lease with this fence holds, and ends the lease with the last; returns how many.
// `after` is called when any were.
template <typename Settle, typename After> int settle(const Numbers &ids, int64 fence, Settle settle_one, After after) {
    const HeapTable leases = open_leases();
    int done = 0;
    Lease lease;
    if (ids.count > 0 && lock_lease(leases, fence, &lease)) {
        std::sort(lease.ids.list, lease.ids.list + lease.ids.count);
        const Numbers ours = common(lease.ids, ids);
        const HeapTable messages = open_messages();
        // Taken when the row is locked: what others did with messages of this lease has committed, and is seen.
        with_latest_snapshot([&](Snapshot snapshot) {
            if (ours.count > 0)
                done = settle_held(messages, snapshot, lease, ours,
                                   [&](TupleTableSlot *slot) { return settle_one(messages, slot); });
            if (!holds_others(messages, snapshot, lease, ours))
                delete_lease(leases, lease);
        });
        close_heap(messages);
        if (done > 0)
            after(lease);
        CommandCounterIncrement();
    }
    close_heap(leases);
    return done;
}

int64 fence_argument(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(Argument::fence))
        raise_null_argument("fence");
    return PG_GETARG_INT64(Argument::fence);
}

Micros rest_argument(FunctionCallInfo fcinfo) {
    const Micros rest = span_of(PG_GETARG_INTERVAL_P(Argument::retry_after), "retry_after");
    if (rest < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("retry_after must not be negative"),
                        errhint("Use '0' for at once, NULL for a rest that grows with the failures.")));
    (void)deadline_after(clock_now(), rest, "retry_after");
    return rest;
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_outbox_ack);
PG_FUNCTION_INFO_V1(idem_outbox_nack);

PGDLLEXPORT Datum idem_outbox_ack(PG_FUNCTION_ARGS) {
    const Numbers ids = ids_argument(fcinfo, Argument::ids);
    const int64 fence = fence_argument(fcinfo);
    prevent_unless_writable("idem_outbox_ack()");
    PG_RETURN_INT32(settle(
        ids, fence,
        [](const HeapTable &messages, TupleTableSlot *slot) { return delete_row(messages, slot->tts_tid) == Write::done; },
        [](const Lease &) {}));
}

PGDLLEXPORT Datum idem_outbox_nack(PG_FUNCTION_ARGS) {
    const Numbers ids = ids_argument(fcinfo, Argument::ids);
    const int64 fence = fence_argument(fcinfo);
    const bool by_default = PG_ARGISNULL(Argument::retry_after);
    const Micros rest = by_default ? 0 : rest_argument(fcinfo);
    prevent_unless_writable("idem_outbox_nack()");
    const Micros now = clock_now();
    PG_RETURN_INT32(settle(
        ids, fence,
        [&](const HeapTable &messages, TupleTableSlot *slot) {
            const Micros pause = by_default ? core::backoff(read_message(slot).failures + 1) : rest;
            const Micros due_at = pause == 0 ? 0 : deadline_after(now, pause, "retry_after");
            return return_message(messages, slot, fence, due_at, Failure::nacked);
        },
        [&](const Lease &lease) {
            if (!by_default && rest == 0)
                notify_relays(lease.topic);
        }));
}

} // extern "C"
