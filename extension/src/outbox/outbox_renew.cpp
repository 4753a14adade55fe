// idem_outbox_renew: a relay that takes long keeps messages of its batch. outbox.hpp explains the locks and snapshots.
#include "outbox/outbox_lease.hpp"
#include "server/writable.hpp"

#include <algorithm>

namespace {

using namespace idem;
using core::Micros;

struct Argument {
    enum { ids, fence, lease };
};

// A part of a part, with room for all of it.
Lease without_messages(const Lease &part) {
    Lease empty = part;
    empty.ids = {static_cast<int64 *>(palloc(part.ids.count * sizeof(int64))), 0};
    empty.key_hashes = {static_cast<int64 *>(palloc(part.ids.count * sizeof(int64))), 0};
    return empty;
}

void move_message(const Lease &from, int i, Lease *to) {
    to->ids.list[to->ids.count++] = from.ids.list[i];
    to->key_hashes.list[to->key_hashes.count++] = from.key_hashes.list[i];
}

// The messages that the part still holds, in two parts: those of `ids`, and the others.
void split(const Lease &part, const Numbers &ids, Lease *renewed, Lease *others) {
    const HeapTable messages = open_messages();
    Numbers held{static_cast<int64 *>(palloc(part.ids.count * sizeof(int64))), 0};
    with_latest_snapshot([&](Snapshot snapshot) {
        const IndexedRows scan = begin_message_scan(messages, snapshot, part.topic, part.ids);
        while (TupleTableSlot *slot = next_row(scan)) {
            const Message message = read_message(slot);
            if (holds(part.fence, message))
                held.list[held.count++] = message.id; // in their order
        }
        end_indexed_rows(scan);
    });
    close_heap(messages);
    for (int i = 0; i < part.ids.count; i++) {
        const int64 id = part.ids.list[i];
        if (std::binary_search(held.list, held.list + held.count, id))
            move_message(part, i, std::binary_search(ids.list, ids.list + ids.count, id) ? renewed : others);
    }
}

// Returns how many of the messages `ids` the part holds, and holds longer now. REQUIRES: it is locked.
int renew_part(const HeapTable &leases, const Lease &part, const Numbers &ids, Micros span) {
    Lease renewed = without_messages(part), others = without_messages(part);
    split(part, ids, &renewed, &others);
    if (renewed.ids.count == 0)
        return 0;
    renewed.lease_until = deadline_after(clock_now(), span, "lease");
    replace_lease(leases, part, renewed, others);
    return renewed.ids.count;
}

} // namespace

SQL_FUNCTION(idem_outbox_renew) {
    const Numbers ids = ids_argument(fcinfo, Argument::ids);
    if (PG_ARGISNULL(Argument::fence))
        raise_null_argument("fence");
    const int64 fence = PG_GETARG_INT64(Argument::fence);
    const Micros span = lease_argument(fcinfo, Argument::lease);
    prevent_unless_writable("idem_outbox_renew()");
    const HeapTable leases = open_leases();
    lock_parts(leases, fence, ids);
    int renewed = 0;
    Lease part;
    for (int32 from = 0; renewed < ids.count && lock_part(leases, fence, ids, from, &part); from = part.part + 1)
        renewed += renew_part(leases, part, ids, span);
    close_heap(leases);
    CommandCounterIncrement();
    PG_RETURN_INT32(renewed);
}
