#include "outbox/new_message.hpp"

#include "ids/snowflake.hpp"
#include "keys/claim.hpp"
#include "keys/composite_key.hpp"
#include "keys/holder.hpp"
#include "server/bytes.hpp"

#include <algorithm>

namespace idem {

namespace {

constexpr const char *kScope = "outbox";

// --- dedup_ids --------------------------------------------------------------------------------------------------------------

// The claim of a message's dedup_id.
struct Dedup {
    int message;
    int first; // of the messages of this call with the same dedup_id
    bool is_new;
    Claimed claimed;
};

// By key, so that callers with common dedup_ids claim these in the same order.
Dedup *sorted_dedups(const NewMessage *messages, int count, int *dedups) {
    auto *list = static_cast<Dedup *>(palloc(Max(count, 1) * sizeof(Dedup)));
    *dedups = 0;
    for (int i = 0; i < count; i++)
        if (messages[i].dedup_key != nullptr)
            list[(*dedups)++].message = i;
    std::sort(list, list + *dedups, [messages](const Dedup &a, const Dedup &b) {
        const int order = compare_bytes(messages[a.message].dedup_key, messages[b.message].dedup_key);
        return order != 0 ? order < 0 : a.message < b.message;
    });
    return list;
}

// The id is the claim's response.
const Jsonb *response_of(int64 id) {
    JsonbValue number;
    number.type = jbvNumeric;
    number.val.numeric = int64_to_numeric(id);
    return JsonbValueToJsonb(&number);
}

int64 stored_id(const Claimed &claimed) {
    JsonbValue number;
    if (!claimed.has_row || claimed.row.is_null(KeyColumn::response) ||
        !JsonbExtractScalar(&DatumGetJsonbP(claimed.row.get(KeyColumn::response))->root, &number) || number.type != jbvNumeric)
        return kForgottenId;
    return DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(number.val.numeric)));
}

// Claims each dedup_id once. The ids of messages that were published before are set.
void claim_dedups(const KeyTable &table, ClaimRequest *request, const NewMessage *messages, Dedup *dedups, int count,
                  int64 *ids) {
    for (int i = 0; i < count; i++) {
        Dedup *dedup = &dedups[i];
        request->key = messages[dedup->message].dedup_key;
        if (i > 0 && compare_bytes(messages[dedups[i - 1].message].dedup_key, request->key) == 0) {
            dedup->first = dedups[i - 1].first;
            dedup->is_new = false;
            continue;
        }
        dedup->first = dedup->message;
        dedup->claimed = claim_key(table, *request);
        count_outcome(*request, dedup->claimed.outcome);
        raise_if_held(dedup->claimed, request->key);
        dedup->is_new = is_granted(dedup->claimed.outcome);
        if (!dedup->is_new)
            ids[dedup->message] = stored_id(dedup->claimed);
    }
}

void complete_dedups(const KeyTable &table, ClaimRequest *request, const ScopePolicy &policy, const NewMessage *messages,
                     const Dedup *dedups, int count, int64 *ids) {
    for (int i = 0; i < count; i++) {
        const Dedup &dedup = dedups[i];
        ids[dedup.message] = ids[dedup.first];
        request->key = messages[dedup.message].dedup_key;
        if (dedup.is_new)
            complete_claim(table, *request, policy, dedup.claimed, response_of(ids[dedup.message]));
    }
}

// --- Rows -------------------------------------------------------------------------------------------------------------------

HeapTuple row_of(const HeapTable &table, const text *topic, const NewMessage &message, int64 id, core::Micros now) {
    Datum values[MessageColumn::count] = {};
    bool nulls[MessageColumn::count] = {};
    values[MessageColumn::id - 1] = Int64GetDatum(id);
    nulls[MessageColumn::due_at - 1] = message.delay == 0;
    if (message.delay != 0)
        values[MessageColumn::due_at - 1] = TimestampTzGetDatum(deadline_after(now, message.delay, "delay"));
    nulls[MessageColumn::returned_by - 1] = true;
    values[MessageColumn::failures - 1] = Int32GetDatum(0);
    values[MessageColumn::topic - 1] = PointerGetDatum(topic);
    values[MessageColumn::key - 1] = PointerGetDatum(message.key);
    nulls[MessageColumn::key - 1] = message.key == nullptr;
    values[MessageColumn::payload - 1] = message.payload;
    values[MessageColumn::headers - 1] = message.headers;
    nulls[MessageColumn::headers - 1] = message.headers == 0;
    return form_row(table, values, nulls);
}

// Inserts the messages that have no id yet, and draws their ids. False: there are none.
bool insert_new(const text *topic, const NewMessage *messages, int count, const bool *is_old, int64 *ids) {
    const HeapTable table = open_messages();
    auto *rows = static_cast<HeapTuple *>(palloc(Max(count, 1) * sizeof(HeapTuple)));
    int new_rows = 0;
    for (int i = 0; i < count; i++)
        if (!is_old[i])
            ids[i] = next_id();
    const core::Micros now = clock_now();
    for (int i = 0; i < count; i++)
        if (!is_old[i])
            rows[new_rows++] = row_of(table, topic, messages[i], ids[i], now);
    insert_rows(table, rows, new_rows);
    close_heap(table);
    return new_rows > 0;
}

} // namespace

core::Micros delay_of(const Interval *delay) {
    const core::Micros span = span_of(delay, "delay");
    if (span < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("delay must not be negative")));
    check_deadline(span, "delay");
    return span;
}

const text *dedup_key(const text *topic, const text *dedup_id) {
    if (VARSIZE_ANY_EXHDR(dedup_id) == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("dedup_id must not be empty")));
    const text *key = composite_key(topic, dedup_id);
    check_key(key, "topic with dedup_id");
    return key;
}

void publish(const char *function, const text *topic, const NewMessage *messages, int count, int64 *ids) {
    int dedups;
    Dedup *dedup = sorted_dedups(messages, count, &dedups);
    auto *is_old = static_cast<bool *>(palloc0(Max(count, 1)));
    ClaimRequest request{};
    ScopePolicy policy{};
    KeyTable keys{};
    if (dedups > 0) {
        request.function = function;
        request.scope = cstring_to_text(kScope);
        policy = scope_policy(request.scope);
        apply_policy(&request, policy, nullptr);
        request.waits_for_commit = true;
        request.wants_row = true;
        keys = open_keys(Access::write, KeySpace::keys, request.scope);
        claim_dedups(keys, &request, messages, dedup, dedups, ids);
        for (int i = 0; i < dedups; i++)
            is_old[dedup[i].message] = !dedup[i].is_new;
    }
    if (insert_new(topic, messages, count, is_old, ids))
        notify_relays(topic);
    CommandCounterIncrement();
    if (dedups > 0) {
        complete_dedups(keys, &request, policy, messages, dedup, dedups, ids);
        close_keys(keys);
    }
}

} // namespace idem
