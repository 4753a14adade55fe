#include "outbox/outbox.hpp"

#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/settings.hpp"

#include <algorithm>

namespace idem {

namespace {

constexpr const char *kChannel = "idem_outbox";

constexpr Column kMessageColumns[] = {
    {"id", INT8OID},
    {"due_at", TIMESTAMPTZOID, kNullable},
    {"returned_by", INT8OID, kNullable},
    {"failures", INT4OID},
    {"topic", TEXTOID},
    {"key", TEXTOID, kNullable},
    {"payload", JSONBOID},
    {"headers", JSONBOID, kNullable},
};
static_assert(lengthof(kMessageColumns) == MessageColumn::count);

constexpr Column kParkedColumns[] = {
    {"id", INT8OID},
    {"parked_at", TIMESTAMPTZOID},
    {"returned_by", INT8OID},
    {"failures", INT4OID},
    {"cause", TEXTOID},
    {"topic", TEXTOID},
    {"key", TEXTOID, kNullable},
    {"payload", JSONBOID},
    {"headers", JSONBOID, kNullable},
};
static_assert(lengthof(kParkedColumns) == ParkedColumn::count);

// Inserts the message into idem_outbox_parked.
void park(TupleTableSlot *slot, int64 fence, int32 failures, Failure failure) {
    constexpr AttrNumber kSourceColumns[] = {
        MessageColumn::id,     0, 0, 0, 0, MessageColumn::topic, MessageColumn::key, MessageColumn::payload,
        MessageColumn::headers};
    static_assert(lengthof(kSourceColumns) == ParkedColumn::count);
    Datum values[ParkedColumn::count];
    bool nulls[ParkedColumn::count] = {};
    for (int i = 0; i < ParkedColumn::count; i++)
        if (kSourceColumns[i] != 0)
            values[i] = slot_getattr(slot, kSourceColumns[i], &nulls[i]);
    values[ParkedColumn::parked_at - 1] = TimestampTzGetDatum(clock_now());
    values[ParkedColumn::returned_by - 1] = Int64GetDatum(fence);
    values[ParkedColumn::failures - 1] = Int32GetDatum(failures);
    values[ParkedColumn::cause - 1] = CStringGetTextDatum(failure == Failure::nacked ? "nacked" : "lapsed");
    const HeapTable parked = open_parked();
    insert_row(parked, values, nulls);
    close_heap(parked);
}

HeapTuple tuple_of(TupleTableSlot *slot) {
    bool should_free;
    return ExecFetchSlotHeapTuple(slot, false, &should_free);
}

ScanKeyData topic_key(const text *topic) {
    ScanKeyData key;
    ScanKeyEntryInitialize(&key, 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ, PointerGetDatum(topic));
    return key;
}

} // namespace

Numbers ids_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        raise_null_argument("ids");
    Datum *elements;
    bool *nulls;
    Numbers ids;
    deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), INT8OID, sizeof(int64), true, TYPALIGN_DOUBLE, &elements, &nulls, &ids.count);
    ids.list = static_cast<int64 *>(palloc(Max(ids.count, 1) * sizeof(int64)));
    for (int i = 0; i < ids.count; i++) {
        if (nulls[i])
            raise_null_argument("id");
        ids.list[i] = DatumGetInt64(elements[i]);
    }
    std::sort(ids.list, ids.list + ids.count);
    ids.count = static_cast<int>(std::unique(ids.list, ids.list + ids.count) - ids.list);
    return ids;
}

core::Micros lease_argument(FunctionCallInfo fcinfo, int arg) {
    return PG_ARGISNULL(arg) ? settings::default_lease * core::Micros{1000} : lease_of(PG_GETARG_INTERVAL_P(arg), "lease");
}

const text *topic_argument(FunctionCallInfo fcinfo, int arg) {
    const text *topic = required_text(fcinfo, arg, "topic");
    const auto bytes = VARSIZE_ANY_EXHDR(topic);
    if (bytes == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("topic must not be empty")));
    if (bytes > kMaxTopicBytes)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("topic is too long"),
                        errdetail("The topic has %zu bytes; the most is %d.", static_cast<size_t>(bytes), kMaxTopicBytes)));
    return topic;
}

ArrayType *array_of(const Numbers &numbers) {
    auto *elements = static_cast<Datum *>(palloc(Max(numbers.count, 1) * sizeof(Datum)));
    for (int i = 0; i < numbers.count; i++)
        elements[i] = Int64GetDatum(numbers.list[i]);
    return construct_array(elements, numbers.count, INT8OID, sizeof(int64), true, TYPALIGN_DOUBLE);
}

constinit Member outbox_table = member_table("idem_outbox", kMessageColumns, MessageColumn::topic, MessageColumn::id);
constinit Member parked_table = member_table("idem_outbox_parked", kParkedColumns, ParkedColumn::id, InvalidAttrNumber);

HeapTable open_messages() { return open_heap_held(outbox_table, RowExclusiveLock); }

HeapTable open_parked() { return open_heap_held(parked_table, RowExclusiveLock); }

Message read_message(TupleTableSlot *slot) {
    bool is_null;
    Message message{};
    message.id = DatumGetInt64(slot_getattr(slot, MessageColumn::id, &is_null));
    Datum value = slot_getattr(slot, MessageColumn::due_at, &is_null);
    message.due_at = is_null ? 0 : DatumGetTimestampTz(value);
    value = slot_getattr(slot, MessageColumn::returned_by, &is_null);
    message.returned_by = is_null ? 0 : DatumGetInt64(value);
    message.failures = DatumGetInt32(slot_getattr(slot, MessageColumn::failures, &is_null));
    value = slot_getattr(slot, MessageColumn::key, &is_null);
    if (is_null)
        return message;
    text *key = DatumGetTextPP(value);
    const uint64 hash = hash_of_bytes(key);
    message.key_hash = hash == 0 ? 1 : hash;
    if (PointerGetDatum(key) != value)
        pfree(key); // the copy of a compressed key, as a scan reads many
    return message;
}

IndexedRows begin_message_scan(const HeapTable &messages, Snapshot snapshot, const text *topic) {
    ScanKeyData key = topic_key(topic);
    return begin_indexed_rows(messages, messages.primary_key, snapshot, &key, 1);
}

IndexedRows begin_message_scan(const HeapTable &messages, Snapshot snapshot, const text *topic, const Numbers &ids) {
    ScanKeyData keys[2] = {topic_key(topic)};
    ScanKeyEntryInitialize(&keys[1], SK_SEARCHARRAY, 2, BTEqualStrategyNumber, InvalidOid, InvalidOid, F_INT8EQ,
                           PointerGetDatum(array_of(ids)));
    return begin_indexed_rows(messages, messages.primary_key, snapshot, keys, 2);
}

bool return_message(const HeapTable &messages, TupleTableSlot *slot, int64 fence, core::Micros due_at, Failure failure) {
    bool is_null;
    const int32 old_failures = DatumGetInt32(slot_getattr(slot, MessageColumn::failures, &is_null));
    const int32 failures = old_failures == PG_INT32_MAX ? old_failures : old_failures + 1;
    if (failures >= settings::outbox_max_attempts) {
        if (delete_row(messages, slot->tts_tid) != Write::done)
            return false;
        park(slot, fence, failures, failure);
        return true;
    }
    Datum values[MessageColumn::count] = {};
    bool nulls[MessageColumn::count] = {};
    bool replaced[MessageColumn::count] = {};
    values[MessageColumn::due_at - 1] = TimestampTzGetDatum(due_at);
    nulls[MessageColumn::due_at - 1] = due_at == 0;
    values[MessageColumn::returned_by - 1] = Int64GetDatum(fence);
    values[MessageColumn::failures - 1] = Int32GetDatum(failures);
    for (const AttrNumber column : {MessageColumn::due_at, MessageColumn::returned_by, MessageColumn::failures})
        replaced[column - 1] = true;
    HeapTuple returned = heap_modify_tuple(tuple_of(slot), RelationGetDescr(messages.relation), values, nulls, replaced);
    return update_row(messages, slot->tts_tid, returned) == Write::done;
}

void notify_relays(const text *topic) {
    if (settings::outbox_notify)
        Async_Notify(kChannel, text_to_cstring(topic));
}

} // namespace idem
