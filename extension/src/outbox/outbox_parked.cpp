// idem_outbox_retry, idem_outbox_discard: the ways out of the dead letters.
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

// Takes the dead letters with these ids out, `then` says what becomes of each; returns how many.
template <typename Then> int take_out(const Numbers &ids, Then then) {
    if (ids.count == 0)
        return 0;
    int done = 0;
    const HeapTable parked = open_parked();
    with_latest_snapshot([&](Snapshot snapshot) {
        const IndexedRows scan = begin_parked_scan(parked, snapshot, ids);
        while (TupleTableSlot *slot = next_row(scan))
            if (delete_row(parked, slot->tts_tid) == Write::done) {
                then(slot);
                done++;
            }
        end_indexed_rows(scan);
    });
    close_heap(parked);
    CommandCounterIncrement();
    return done;
}

// The fence stays: an old lease that is still there may name the message, but does not hold it.
void send_again(const HeapTable &messages, TupleTableSlot *slot) {
    constexpr AttrNumber kFrom[] = {
        ParkedColumn::id,     0, ParkedColumn::returned_by, 0, ParkedColumn::topic, ParkedColumn::key, ParkedColumn::payload,
        ParkedColumn::headers};
    static_assert(lengthof(kFrom) == MessageColumn::count);
    Datum values[MessageColumn::count] = {};
    bool nulls[MessageColumn::count] = {};
    for (int i = 0; i < MessageColumn::count; i++)
        if (kFrom[i] != 0)
            values[i] = slot_getattr(slot, kFrom[i], &nulls[i]);
    nulls[MessageColumn::due_at - 1] = true;
    values[MessageColumn::failures - 1] = Int32GetDatum(0);
    insert_row(messages, values, nulls);
    notify_relays(DatumGetTextPP(values[MessageColumn::topic - 1]));
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_outbox_retry);
PG_FUNCTION_INFO_V1(idem_outbox_discard);

PGDLLEXPORT Datum idem_outbox_retry(PG_FUNCTION_ARGS) {
    const Numbers ids = ids_argument(fcinfo, 0);
    prevent_unless_writable("idem_outbox_retry()");
    const HeapTable messages = open_messages();
    const int done = take_out(ids, [&](TupleTableSlot *slot) { send_again(messages, slot); });
    close_heap(messages);
    PG_RETURN_INT32(done);
}

PGDLLEXPORT Datum idem_outbox_discard(PG_FUNCTION_ARGS) {
    const Numbers ids = ids_argument(fcinfo, 0);
    prevent_unless_writable("idem_outbox_discard()");
    PG_RETURN_INT32(take_out(ids, [](TupleTableSlot *) {}));
}

} // extern "C"
