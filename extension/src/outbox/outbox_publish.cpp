// idem_publish, idem_publish_many.
#include "outbox/new_message.hpp"
#include "server/json_members.hpp"
#include "server/writable.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { topic, payload, key, headers, delay, dedup_id };
};

Datum id_datum(int64 id, bool *is_null) {
    *is_null = id == kForgottenId;
    return Int64GetDatum(id);
}

// --- Messages as JSON -------------------------------------------------------------------------------------------------------

[[noreturn]] void raise_malformed(int number, const char *detail) {
    ereport(
        ERROR,
        (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("messages are malformed"),
         number == 0 ? errdetail("%s", detail) : errdetail("Message %d %s.", number, detail),
         errhint(
             "Give an array of objects, such as '[{\"payload\": {\"order\": 7}, \"key\": \"7\", \"headers\": {}, \"delay\": "
             "\"5 min\", \"dedup_id\": \"paid-7\"}]'; only payload is required.")));
    pg_unreachable();
}

const char *quoted(const char *format, std::string_view name) {
    return psprintf(format, static_cast<int>(name.size()), name.data());
}

const text *text_of_member(const Members &member, int number) {
    if (member.value.type != jbvString)
        raise_malformed(number, quoted("has a \"%.*s\" that is not a string", text_of(member.name)));
    return cstring_to_text_with_len(member.value.val.string.val, member.value.val.string.len);
}

Datum json_of_member(Members *member) { return JsonbPGetDatum(JsonbValueToJsonb(&member->value)); }

core::Micros delay_of_member(const Members &member, int number) {
    const Datum delay = DirectFunctionCall3(interval_in, CStringGetDatum(text_to_cstring(text_of_member(member, number))),
                                            ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
    return delay_of(DatumGetIntervalP(delay));
}

// REQUIRES: an object.
NewMessage new_message_of(const text *topic, JsonbContainer *object, int number) {
    NewMessage message{};
    bool has_payload = false;
    for (Members member(object); member.next();) {
        const std::string_view name = text_of(member.name);
        if (name == "payload") {
            message.payload = json_of_member(&member);
            has_payload = true;
        } else if (name != "key" && name != "headers" && name != "delay" && name != "dedup_id") {
            raise_malformed(number, quoted("has a member \"%.*s\"", name));
        } else if (member.value.type == jbvNull) {
            // Not given.
        } else if (name == "key") {
            message.key = text_of_member(member, number);
            check_key(message.key);
        } else if (name == "headers") {
            message.headers = json_of_member(&member);
        } else if (name == "delay") {
            message.delay = delay_of_member(member, number);
        } else {
            message.dedup_key = dedup_key(topic, text_of_member(member, number));
        }
    }
    if (!has_payload)
        raise_malformed(number, "has no payload");
    return message;
}

NewMessage *new_messages_of(const text *topic, const Jsonb *messages, int *count) {
    if (!JB_ROOT_IS_ARRAY(messages) || JB_ROOT_IS_SCALAR(messages))
        raise_malformed(0, "They are not an array.");
    *count = 0;
    auto *list = static_cast<NewMessage *>(palloc(Max(JB_ROOT_COUNT(messages), 1) * sizeof(NewMessage)));
    JsonbIterator *elements = JsonbIteratorInit(const_cast<JsonbContainer *>(&messages->root));
    JsonbValue element;
    for (auto token = JsonbIteratorNext(&elements, &element, true); token != WJB_DONE;
         token = JsonbIteratorNext(&elements, &element, true)) {
        if (token != WJB_ELEM)
            continue;
        if (element.type != jbvBinary || !JsonContainerIsObject(element.val.binary.data))
            raise_malformed(*count + 1, "is not an object");
        list[*count] = new_message_of(topic, element.val.binary.data, *count + 1);
        ++*count;
    }
    return list;
}

} // namespace

SQL_FUNCTION(idem_publish) {
    const text *topic = topic_argument(fcinfo, Argument::topic);
    if (PG_ARGISNULL(Argument::payload))
        raise_null_argument("payload");
    NewMessage message{};
    message.payload = PG_GETARG_DATUM(Argument::payload);
    message.key = optional_text(fcinfo, Argument::key);
    if (message.key != nullptr)
        check_key(message.key);
    message.headers = PG_ARGISNULL(Argument::headers) ? Datum{0} : PG_GETARG_DATUM(Argument::headers);
    if (!PG_ARGISNULL(Argument::delay))
        message.delay = delay_of(PG_GETARG_INTERVAL_P(Argument::delay));
    if (!PG_ARGISNULL(Argument::dedup_id))
        message.dedup_key = dedup_key(topic, PG_GETARG_TEXT_PP(Argument::dedup_id));
    prevent_unless_writable("idem_publish()");
    int64 id;
    publish("idem_publish()", topic, &message, 1, &id);
    return id_datum(id, &fcinfo->isnull);
}

SQL_FUNCTION(idem_publish_many) {
    const text *topic = topic_argument(fcinfo, 0);
    if (PG_ARGISNULL(1))
        raise_null_argument("messages");
    int count;
    const NewMessage *messages = new_messages_of(topic, PG_GETARG_JSONB_P(1), &count);
    prevent_unless_writable("idem_publish_many()");
    auto *ids = static_cast<int64 *>(palloc(Max(count, 1) * sizeof(int64)));
    publish("idem_publish_many()", topic, messages, count, ids);
    auto *values = static_cast<Datum *>(palloc(Max(count, 1) * sizeof(Datum)));
    auto *nulls = static_cast<bool *>(palloc(Max(count, 1)));
    for (int i = 0; i < count; i++)
        values[i] = id_datum(ids[i], &nulls[i]);
    const int lower = 1;
    PG_RETURN_ARRAYTYPE_P(count == 0 ? construct_empty_array(INT8OID)
                                     : construct_md_array(values, nulls, 1, &count, const_cast<int *>(&lower), INT8OID,
                                                          sizeof(int64), true, TYPALIGN_DOUBLE));
}
