// idem_outbox_take. What it rests on is told in outbox.hpp.
#include "outbox/number_map.hpp"
#include "outbox/outbox_lease.hpp"
#include "server/row_answer.hpp"
#include "server/value_lock.hpp"
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

// So many messages are taken back in one call at most; the rest stays with its leases for the next.
constexpr int kMostReturned = 10'000;

// For so long a lease may be given: nobody can end it before.
constexpr Micros kLongestLease = 7 * USECS_PER_DAY;

struct Taker {
    const text *topic;
    int most;
    Micros now;
    HeapTable messages;
    HeapTable leases;
    NumberMap named_by;   // message: the greatest fence of the leases that name it
    NumberMap key_leased; // hash of a key: the greatest id among messages of that key that leases name
    NumberMap key_met;    // hashes of the keys of those that were met, or that an uncommitted lease names
    Lease *live;          // the leases behind `named_by`
    int live_count;
    Lease taken;
};

// Takes of a topic exclude each other while they choose, not until their transactions end.
LOCKTAG topic_tag(const text *name) { return value_tag(ValueLock::outbox, hash_of(name, name)); }

bool is_held(const Taker &taker, const Message &message) {
    const int64 *greatest = find(taker.named_by, static_cast<uint64>(message.id));
    return greatest != nullptr && holds(*greatest, message);
}

// --- The leases -------------------------------------------------------------------------------------------------------------

// What the lease still holds goes back. False: somebody is acknowledging it just now.
bool reap(const Taker &taker, const Lease &lapsed, int *returned) {
    if (!lock_lease_at_once(taker.leases, lapsed))
        return false;
    with_latest_snapshot([&](Snapshot snapshot) {
        const IndexedRows scan = begin_message_scan(taker.messages, snapshot, taker.topic, lapsed.ids);
        while (TupleTableSlot *slot = next_row(scan))
            if (holds(lapsed.fence, read_message(slot)))
                *returned += return_message(taker.messages, slot, lapsed.fence, 0, Failure::lapsed);
        end_indexed_rows(scan);
    });
    delete_lease(taker.leases, lapsed);
    CommandCounterIncrement();
    return true;
}

void note_live(Taker *taker, const Lease &lease) {
    for (int i = 0; i < lease.ids.count; i++) {
        int64 *greatest = put(&taker->named_by, static_cast<uint64>(lease.ids.list[i]), lease.fence);
        *greatest = Max(*greatest, lease.fence);
        if (lease.key_hashes.list[i] != 0) {
            int64 *last = put(&taker->key_leased, static_cast<uint64>(lease.key_hashes.list[i]), lease.ids.list[i]);
            *last = Max(*last, lease.ids.list[i]);
        }
    }
    if (taker->live_count % 16 == 0)
        taker->live =
            static_cast<Lease *>(taker->live == nullptr ? palloc(16 * sizeof(Lease))
                                                        : repalloc(taker->live, (taker->live_count + 16) * sizeof(Lease)));
    taker->live[taker->live_count++] = lease;
}

// A transaction may take messages that only it sees: its own publications, or dead letters that it puts back.
void hold_up_keys(Taker *taker, const Lease &uncommitted) {
    for (int i = 0; i < uncommitted.key_hashes.count; i++)
        if (uncommitted.key_hashes.list[i] != 0)
            (void)put(&taker->key_met, static_cast<uint64>(uncommitted.key_hashes.list[i]), 0);
}

// Takes back what lapsed, and learns what is out.
void look_at_leases(Taker *taker) {
    int returned = 0;
    LeaseScan scan;
    begin_lease_scan(&scan, taker->leases, taker->topic);
    Lease lease;
    Standing standing;
    while (next_lease(&scan, &lease, &standing)) {
        if (standing == Standing::uncommitted)
            hold_up_keys(taker, lease);
        const bool has_lapsed = standing == Standing::settled && lease.lease_until <= taker->now && returned < kMostReturned;
        if (!has_lapsed || !reap(*taker, lease, &returned))
            note_live(taker, lease);
    }
    end_lease_scan(&scan);
}

// --- The messages -----------------------------------------------------------------------------------------------------------

// Whether a lease holds this one of the messages that it names.
bool is_out(const Taker &taker, Snapshot snapshot, int64 number) {
    const IndexedRows scan = begin_message_scan(taker.messages, snapshot, taker.topic, Numbers{&number, 1});
    TupleTableSlot *slot = next_row(scan);
    const bool out = slot != nullptr && is_held(taker, read_message(slot));
    end_indexed_rows(scan);
    return out;
}

// Whether a message of this key is out that comes after this one: published before, but committed after it was given out. (One
// that comes before was met.) A lease may name messages that are done with, so each is looked up.
bool is_later_one_out(const Taker &taker, Snapshot snapshot, const Message &message) {
    const int64 *last = find(taker.key_leased, message.key_hash);
    if (last == nullptr || *last < message.id)
        return false;
    for (int i = 0; i < taker.live_count; i++) {
        const Lease &lease = taker.live[i];
        for (int n = 0; n < lease.ids.count; n++)
            if (static_cast<uint64>(lease.key_hashes.list[n]) == message.key_hash && lease.ids.list[n] > message.id &&
                is_out(taker, snapshot, lease.ids.list[n]))
                return true;
    }
    return false;
}

// Marks the message's key as met.
bool is_first_of_its_key(Taker *taker, const Message &message) {
    if (message.key_hash == 0)
        return true;
    const Size before = taker->key_met.count;
    (void)put(&taker->key_met, message.key_hash, 0);
    return taker->key_met.count > before;
}

bool is_eligible(Taker *taker, Snapshot snapshot, const Message &message) {
    return is_first_of_its_key(taker, message) && !is_held(*taker, message) && message.due_at <= taker->now &&
           !(message.key_hash != 0 && is_later_one_out(*taker, snapshot, message));
}

void put_row(const AnswerRows &result, TupleTableSlot *slot, const Message &message, int64 by) {
    Datum values[TakenColumn::count];
    bool nulls[TakenColumn::count] = {};
    values[TakenColumn::id] = Int64GetDatum(message.id);
    values[TakenColumn::topic] = slot_getattr(slot, MessageColumn::topic, &nulls[TakenColumn::topic]);
    values[TakenColumn::key] = slot_getattr(slot, MessageColumn::key, &nulls[TakenColumn::key]);
    values[TakenColumn::payload] = slot_getattr(slot, MessageColumn::payload, &nulls[TakenColumn::payload]);
    values[TakenColumn::headers] = slot_getattr(slot, MessageColumn::headers, &nulls[TakenColumn::headers]);
    values[TakenColumn::attempt] = Int32GetDatum(message.failures == PG_INT32_MAX ? message.failures : message.failures + 1);
    values[TakenColumn::fence] = Int64GetDatum(by);
    put_answer_row(result, values, nulls);
}

void take_message(Taker *taker, const AnswerRows &result, TupleTableSlot *slot, const Message &message) {
    Lease *taken = &taker->taken;
    if (taken->ids.count == 0)
        taken->fence = next_fence(0);
    taken->ids.list[taken->ids.count++] = message.id;
    taken->key_hashes.list[taken->key_hashes.count++] = static_cast<int64>(message.key_hash);
    put_row(result, slot, message, taken->fence);
}

// From the oldest on, as what was met decides which keys may follow. When something was found and then little is free, the next
// call looks further.
void choose_messages(Taker *taker, const AnswerRows &result) {
    with_latest_snapshot([&](Snapshot snapshot) {
        const int64 enough = int64{10} * taker->most + 1000;
        const IndexedRows scan = begin_message_scan(taker->messages, snapshot, taker->topic);
        TupleTableSlot *slot;
        int64 since_first = 0; // messages that were looked at since one was free
        while (taker->taken.ids.count < taker->most && since_first < enough && (slot = next_row(scan)) != nullptr) {
            const Message message = read_message(slot);
            if (is_eligible(taker, snapshot, message))
                take_message(taker, result, slot, message);
            since_first += taker->taken.ids.count > 0;
        }
        end_indexed_rows(scan);
    });
}

void take(Taker *taker, Micros span, const AnswerRows &result) {
    const LOCKTAG turn = topic_tag(taker->topic);
    (void)LockAcquire(&turn, ExclusiveLock, false, false);
    taker->now = clock_now();
    taker->messages = open_messages();
    taker->leases = open_leases();
    look_at_leases(taker);
    choose_messages(taker, result);
    if (taker->taken.ids.count > 0) {
        taker->taken.lease_until = deadline_after(clock_now(), span, "lease");
        insert_lease(taker->leases, taker->taken);
        CommandCounterIncrement();
    }
    close_heap(taker->leases);
    close_heap(taker->messages);
    LockRelease(&turn, ExclusiveLock, false);
}

Numbers room_for(int count) { return {static_cast<int64 *>(palloc(count * sizeof(int64))), 0}; }

int most_argument(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(Argument::max_messages))
        raise_null_argument("max_messages");
    const int most = PG_GETARG_INT32(Argument::max_messages);
    if (most < 1 || most > kMaxBatch)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("max_messages must be from 1 to %d", kMaxBatch)));
    return Min(most, kMostInLease);
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_outbox_take);

PGDLLEXPORT Datum idem_outbox_take(PG_FUNCTION_ARGS) {
    Taker taker{};
    taker.topic = topic_argument(fcinfo, Argument::topic);
    taker.most = most_argument(fcinfo);
    if (PG_ARGISNULL(Argument::lease))
        raise_null_argument("lease");
    const Micros span = positive_span_of(PG_GETARG_INTERVAL_P(Argument::lease), "lease");
    if (span > kLongestLease)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("lease must not be longer than 7 days")));
    prevent_unless_writable("idem_outbox_take()");
    taker.taken.topic = const_cast<text *>(taker.topic);
    taker.taken.ids = room_for(taker.most);
    taker.taken.key_hashes = room_for(taker.most);
    take(&taker, span, begin_answer_rows(fcinfo, kTypes));
    return Datum{0};
}

} // extern "C"
