// idem_outbox_take. outbox.hpp explains the locks and snapshots.
#include "outbox/number_map.hpp"
#include "outbox/outbox_lease.hpp"
#include "server/row_answer.hpp"
#include "server/writable.hpp"
#include "storage/fence.hpp"

#include <algorithm>

namespace {

using namespace idem;
using core::Micros;

struct Argument {
    enum { topic, max_messages, lease };
};
struct TakenColumn {
    enum { id, topic, key, payload, headers, attempt, fence, count };
};
constexpr Oid kTypes[] = {INT8OID, TEXTOID, TEXTOID, JSONBOID, JSONBOID, INT4OID, INT8OID};
static_assert(lengthof(kTypes) == TakenColumn::count);

// After this many returned messages, a call leaves other expired leases to the next call.
constexpr int kMaxReturned = 10'000;

struct TakeCall {
    const text *topic;
    int max_messages;
    Micros now;
    HeapTable messages;
    HeapTable leases;
    NumberMap greatest_fence; // by message id: of the active leases that list the message
    NumberMap greatest_id;    // by key hash: of the messages with that key that active leases list
    NumberMap closed_keys;    // key hashes of messages that were read, or that an uncommitted lease lists
    Lease *active_leases;     // all leases of the topic that this call did not end
    int active_count;
    Lease new_lease;
};

bool is_held(const TakeCall &call, const Message &message) {
    const int64 *greatest = find(call.greatest_fence, static_cast<uint64>(message.id));
    return greatest != nullptr && holds(*greatest, message);
}

// --- The leases -------------------------------------------------------------------------------------------------------------

// Ends an expired lease and returns the messages that it still holds. False: another transaction is settling its messages.
bool end_expired_lease(const TakeCall &call, const Lease &expired, int *returned) {
    if (!try_lock_lease(call.leases, expired))
        return false;
    with_latest_snapshot([&](Snapshot snapshot) {
        const IndexedRows scan = begin_message_scan(call.messages, snapshot, call.topic, expired.ids);
        while (TupleTableSlot *slot = next_row(scan))
            if (holds(expired.fence, read_message(slot)))
                *returned += return_message(call.messages, slot, expired.fence, 0, Failure::lapsed);
        end_indexed_rows(scan);
    });
    delete_lease(call.leases, expired);
    CommandCounterIncrement();
    return true;
}

void add_active_lease(TakeCall *call, const Lease &lease) {
    for (int i = 0; i < lease.ids.count; i++) {
        int64 *fence = put(&call->greatest_fence, static_cast<uint64>(lease.ids.list[i]), lease.fence);
        *fence = Max(*fence, lease.fence);
        if (lease.key_hashes.list[i] != 0) {
            int64 *id = put(&call->greatest_id, static_cast<uint64>(lease.key_hashes.list[i]), lease.ids.list[i]);
            *id = Max(*id, lease.ids.list[i]);
        }
    }
    if (call->active_count % 16 == 0)
        call->active_leases = static_cast<Lease *>(
            call->active_leases == nullptr ? palloc(16 * sizeof(Lease))
                                           : repalloc(call->active_leases, (call->active_count + 16) * sizeof(Lease)));
    call->active_leases[call->active_count++] = lease;
}

// An uncommitted lease may hold messages that only its transaction sees: its own publications, or parked messages that it
// retried.
void close_keys_of(TakeCall *call, const Lease &uncommitted) {
    for (int i = 0; i < uncommitted.key_hashes.count; i++)
        if (uncommitted.key_hashes.list[i] != 0)
            (void)put(&call->closed_keys, static_cast<uint64>(uncommitted.key_hashes.list[i]), 0);
}

// Ends the expired leases, and collects the others.
void read_leases(TakeCall *call) {
    int returned = 0;
    LeaseScan scan;
    begin_lease_scan(&scan, call->leases, call->topic);
    Lease lease;
    LeaseStatus status;
    while (next_lease(&scan, &lease, &status)) {
        if (status == LeaseStatus::being_inserted)
            close_keys_of(call, lease);
        const bool may_end = status == LeaseStatus::settled && lease.lease_until <= call->now && returned < kMaxReturned;
        if (!may_end || !end_expired_lease(*call, lease, &returned))
            add_active_lease(call, lease);
    }
    end_lease_scan(&scan);
}

// --- The messages -----------------------------------------------------------------------------------------------------------

// Whether an active lease holds the message with this id. REQUIRES: one lists it.
bool is_listed_held(const TakeCall &call, Snapshot snapshot, int64 id) {
    const IndexedRows scan = begin_message_scan(call.messages, snapshot, call.topic, Numbers{&id, 1});
    TupleTableSlot *slot = next_row(scan);
    const bool held = slot != nullptr && is_held(call, read_message(slot));
    end_indexed_rows(scan);
    return held;
}

// Whether a lease holds a later message with the message's key. This happens if the message was published before the later one
// but committed after that was taken. (The scan has already read the earlier messages.) A lease may list settled messages, so
// each is looked up.
bool is_later_one_held(const TakeCall &call, Snapshot snapshot, const Message &message) {
    const int64 *last = find(call.greatest_id, message.key_hash);
    if (last == nullptr || *last < message.id)
        return false;
    for (int i = 0; i < call.active_count; i++) {
        const Lease &lease = call.active_leases[i];
        for (int n = 0; n < lease.ids.count; n++)
            if (static_cast<uint64>(lease.key_hashes.list[n]) == message.key_hash && lease.ids.list[n] > message.id &&
                is_listed_held(call, snapshot, lease.ids.list[n]))
                return true;
    }
    return false;
}

// Closes the message's key for later messages.
bool is_first_of_its_key(TakeCall *call, const Message &message) {
    if (message.key_hash == 0)
        return true;
    const Size old_count = call->closed_keys.count;
    (void)put(&call->closed_keys, message.key_hash, 0);
    return call->closed_keys.count > old_count;
}

bool is_eligible(TakeCall *call, Snapshot snapshot, const Message &message) {
    return is_first_of_its_key(call, message) && !is_held(*call, message) && message.due_at <= call->now &&
           !(message.key_hash != 0 && is_later_one_held(*call, snapshot, message));
}

void put_row(const AnswerRows &result, TupleTableSlot *slot, const Message &message, int64 fence) {
    Datum values[TakenColumn::count];
    bool nulls[TakenColumn::count] = {};
    values[TakenColumn::id] = Int64GetDatum(message.id);
    values[TakenColumn::topic] = slot_getattr(slot, MessageColumn::topic, &nulls[TakenColumn::topic]);
    values[TakenColumn::key] = slot_getattr(slot, MessageColumn::key, &nulls[TakenColumn::key]);
    values[TakenColumn::payload] = slot_getattr(slot, MessageColumn::payload, &nulls[TakenColumn::payload]);
    values[TakenColumn::headers] = slot_getattr(slot, MessageColumn::headers, &nulls[TakenColumn::headers]);
    values[TakenColumn::attempt] = Int32GetDatum(message.failures == PG_INT32_MAX ? message.failures : message.failures + 1);
    values[TakenColumn::fence] = Int64GetDatum(fence);
    put_answer_row(result, values, nulls);
}

void take_message(TakeCall *call, const AnswerRows &result, TupleTableSlot *slot, const Message &message) {
    Lease *lease = &call->new_lease;
    if (lease->ids.count == 0)
        lease->fence = next_fence(0);
    lease->ids.list[lease->ids.count++] = message.id;
    lease->key_hashes.list[lease->key_hashes.count++] = static_cast<int64>(message.key_hash);
    put_row(result, slot, message, lease->fence);
}

// Reads from the oldest message on, because earlier messages close their keys, until it has as many as were asked for: the
// next call would find the same messages in its way.
void choose_messages(TakeCall *call, const AnswerRows &result) {
    with_latest_snapshot([&](Snapshot snapshot) {
        const IndexedRows scan = begin_message_scan(call->messages, snapshot, call->topic);
        TupleTableSlot *slot;
        while (call->new_lease.ids.count < call->max_messages && (slot = next_row(scan)) != nullptr) {
            const Message message = read_message(slot);
            if (is_eligible(call, snapshot, message))
                take_message(call, result, slot, message);
        }
        end_indexed_rows(scan);
    });
}

void take(TakeCall *call, Micros span, const AnswerRows &result) {
    const LOCKTAG topic_lock = topic_tag(call->topic);
    (void)LockAcquire(&topic_lock, ExclusiveLock, false, false);
    call->messages = open_messages();
    call->leases = open_leases();
    call->now = clock_now();
    read_leases(call);
    choose_messages(call, result);
    if (call->new_lease.ids.count > 0) {
        call->new_lease.lease_until = deadline_after(clock_now(), span, "lease");
        insert_leases(call->leases, call->new_lease);
        CommandCounterIncrement();
    }
    close_heap(call->leases);
    close_heap(call->messages);
    LockRelease(&topic_lock, ExclusiveLock, false);
}

Numbers empty_numbers(int capacity) { return {static_cast<int64 *>(palloc(capacity * sizeof(int64))), 0}; }

constexpr int kDefaultMaxMessages = 100;
constexpr Micros kDefaultLease = 30 * Micros{USECS_PER_SEC};

int max_messages_argument(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(Argument::max_messages))
        return kDefaultMaxMessages;
    const int max_messages = PG_GETARG_INT32(Argument::max_messages);
    if (max_messages < 1 || max_messages > kMaxBatch)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("max_messages must be from 1 to %d", kMaxBatch)));
    return max_messages;
}

} // namespace

SQL_FUNCTION(idem_outbox_take) {
    TakeCall call{};
    call.topic = topic_argument(fcinfo, Argument::topic);
    call.max_messages = max_messages_argument(fcinfo);
    const Micros span =
        PG_ARGISNULL(Argument::lease) ? kDefaultLease : lease_of(PG_GETARG_INTERVAL_P(Argument::lease), "lease");
    prevent_unless_writable("idem_outbox_take()");
    call.new_lease.topic = const_cast<text *>(call.topic);
    call.new_lease.ids = empty_numbers(call.max_messages);
    call.new_lease.key_hashes = empty_numbers(call.max_messages);
    take(&call, span, begin_answer_rows(fcinfo, kTypes));
    return Datum{0};
}
