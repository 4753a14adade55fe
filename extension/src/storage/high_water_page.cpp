#include "storage/high_water_page.hpp"

#include "server/sync_standby.hpp"

namespace idem {

namespace {

Form_pg_sequence_data sequence_data(Page page) {
    ItemId item = PageGetItemId(page, FirstOffsetNumber);
    auto *tuple = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
    return reinterpret_cast<Form_pg_sequence_data>(reinterpret_cast<char *>(tuple) + tuple->t_hoff);
}

void write_mark(Form_pg_sequence_data data, int64 last, int64 reserved) {
    data->last_value = last;
    data->log_cnt = reserved - last;
    data->is_called = true;
}

// Makes `reserved` durable. The whole page is logged: values used since the last record were not logged, so replay would apply
// a difference to another page than the current one.
//
// Until the record is flushed, the page says that all values up to `reserved` are used. An error in between only skips values.
void reserve(Relation sequence, Buffer buffer, int64 reserved) {
    GenericXLogState *change = GenericXLogStart(sequence);
    write_mark(sequence_data(GenericXLogRegisterBuffer(change, buffer, GENERIC_XLOG_FULL_IMAGE)), reserved, reserved);
    const XLogRecPtr end = GenericXLogFinish(change);
    if (RelationNeedsWAL(sequence))
        XLogFlush(end);
}

} // namespace

HighWaterPage lock_high_water(Relation sequence) {
    Buffer buffer = ReadBuffer(sequence, 0);
    LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
    Page page = BufferGetPage(buffer);
    Form_pg_sequence_data data = sequence_data(page);
    const core::HighWater mark{data->last_value, data->last_value + data->log_cnt};
    return {sequence, buffer, mark, PageGetLSN(page) <= GetRedoRecPtr()};
}

void advance_high_water(const HighWaterPage &page, int64 value, int64 ahead) {
    const core::HighWaterStep step = core::advance(page.mark, value, ahead, page.restarted);
    if (step.reserve)
        reserve(page.sequence, page.buffer, step.mark.reserved);
    write_mark(sequence_data(BufferGetPage(page.buffer)), step.mark.last, step.mark.reserved);
    MarkBufferDirty(page.buffer);
    const XLogRecPtr reserved_at = PageGetLSN(BufferGetPage(page.buffer));
    UnlockReleaseBuffer(page.buffer);
    await_standby_at_commit(reserved_at);
}

} // namespace idem
