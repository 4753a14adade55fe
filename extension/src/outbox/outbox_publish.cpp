// idem_publish.
#include "ids/snowflake.hpp"
#include "outbox/outbox.hpp"
#include "server/writable.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { topic, payload, key, headers };
};

const text *message_key(FunctionCallInfo fcinfo) {
    const text *key = optional_text(fcinfo, Argument::key);
    if (key != nullptr)
        check_key(key);
    return key;
}

void insert_message(int64 id, const text *topic, const text *key, FunctionCallInfo fcinfo) {
    Datum values[MessageColumn::count] = {};
    bool nulls[MessageColumn::count] = {};
    values[MessageColumn::id - 1] = Int64GetDatum(id);
    nulls[MessageColumn::due_at - 1] = true;
    nulls[MessageColumn::returned_by - 1] = true;
    values[MessageColumn::failures - 1] = Int32GetDatum(0);
    values[MessageColumn::topic - 1] = PointerGetDatum(topic);
    values[MessageColumn::key - 1] = PointerGetDatum(key);
    nulls[MessageColumn::key - 1] = key == nullptr;
    values[MessageColumn::payload - 1] = PG_GETARG_DATUM(Argument::payload);
    values[MessageColumn::headers - 1] = PG_ARGISNULL(Argument::headers) ? Datum{0} : PG_GETARG_DATUM(Argument::headers);
    nulls[MessageColumn::headers - 1] = PG_ARGISNULL(Argument::headers);
    const HeapTable messages = open_messages();
    insert_row(messages, values, nulls);
    close_heap(messages);
}

} // namespace

SQL_FUNCTION(idem_publish) {
    const text *topic = topic_argument(fcinfo, Argument::topic);
    if (PG_ARGISNULL(Argument::payload))
        raise_null_argument("payload");
    const text *key = message_key(fcinfo);
    prevent_unless_writable("idem_publish()");
    const int64 id = next_id();
    insert_message(id, topic, key, fcinfo);
    notify_relays(topic);
    CommandCounterIncrement();
    PG_RETURN_INT64(id);
}
