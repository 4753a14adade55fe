// idem_outbox_retry, idem_outbox_discard: publish parked messages again, or delete them.
#include "outbox/outbox.hpp"
#include "server/writable.hpp"

namespace {

using namespace idem;

IndexedRows begin_parked_scan(const HeapTable &parked, Snapshot snapshot, const Numbers &ids) {
    ScanKeyData key;
    ScanKeyEntryInitialize(&key, SK_SEARCHARRAY, 1, BTEqualStrategyNumber, InvalidOid, InvalidOid, F_INT8EQ,
                           PointerGetDatum(array_of(ids)));
    return begin_indexed_rows(parked, parked.primary_key, snapshot, &key, 1);
}

// Deletes the parked messages with these ids, and calls `after` for each. Returns their number.
template <typename After> int delete_parked(const Numbers &ids, After after) {
    if (ids.count == 0)
        return 0;
    int deleted = 0;
    const HeapTable parked = open_parked();
    with_latest_snapshot([&](Snapshot snapshot) {
        const IndexedRows scan = begin_parked_scan(parked, snapshot, ids);
        while (TupleTableSlot *slot = next_row(scan))
            if (delete_row(parked, slot->tts_tid) == Write::done) {
                after(slot);
                deleted++;
            }
        end_indexed_rows(scan);
    });
    close_heap(parked);
    CommandCounterIncrement();
    return deleted;
}

// Copies returned_by, so that an old lease that still lists the message does not hold it.
void publish_again(const HeapTable &messages, TupleTableSlot *slot) {
    constexpr AttrNumber kSourceColumns[] = {
        ParkedColumn::id,     0, ParkedColumn::returned_by, 0, ParkedColumn::topic, ParkedColumn::key, ParkedColumn::payload,
        ParkedColumn::headers};
    static_assert(lengthof(kSourceColumns) == MessageColumn::count);
    Datum values[MessageColumn::count] = {};
    bool nulls[MessageColumn::count] = {};
    for (int i = 0; i < MessageColumn::count; i++)
        if (kSourceColumns[i] != 0)
            values[i] = slot_getattr(slot, kSourceColumns[i], &nulls[i]);
    nulls[MessageColumn::due_at - 1] = true;
    values[MessageColumn::failures - 1] = Int32GetDatum(0);
    insert_row(messages, values, nulls);
    notify_relays(DatumGetTextPP(values[MessageColumn::topic - 1]));
}

} // namespace

SQL_FUNCTION(idem_outbox_retry) {
    const Numbers ids = ids_argument(fcinfo, 0);
    prevent_unless_writable("idem_outbox_retry()");
    const HeapTable messages = open_messages();
    const int published = delete_parked(ids, [&](TupleTableSlot *slot) { publish_again(messages, slot); });
    close_heap(messages);
    PG_RETURN_INT32(published);
}

SQL_FUNCTION(idem_outbox_discard) {
    const Numbers ids = ids_argument(fcinfo, 0);
    prevent_unless_writable("idem_outbox_discard()");
    PG_RETURN_INT32(delete_parked(ids, [](TupleTableSlot *) {}));
}
