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

Numbers empty_numbers(int capacity) { return {static_cast<int64 *>(palloc(capacity * sizeof(int64))), 0}; }

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

// One call of idem_outbox_take.
class Take {
  public:
    Take(const text *topic, int max_messages, const AnswerRows &rows)
        : topic_(topic), max_messages_(max_messages), rows_(rows) {
        new_lease_.topic = const_cast<text *>(topic);
        new_lease_.ids = empty_numbers(max_messages);
        new_lease_.key_hashes = empty_numbers(max_messages);
    }

    void run(Micros span) {
        const LOCKTAG topic_lock = topic_tag(topic_);
        (void)LockAcquire(&topic_lock, ExclusiveLock, false, false);
        messages_ = open_messages();
        leases_ = open_leases();
        now_ = clock_now();
        read_leases();
        choose_messages();
        if (new_lease_.ids.count > 0) {
            new_lease_.lease_until = deadline_after(clock_now(), span, "lease");
            insert_leases(leases_, new_lease_);
            CommandCounterIncrement();
        }
        close_heap(leases_);
        close_heap(messages_);
        LockRelease(&topic_lock, ExclusiveLock, false);
    }

  private:
    bool is_held(const Message &message) const {
        const int64 *greatest = find(greatest_fence_, static_cast<uint64>(message.id));
        return greatest != nullptr && holds(*greatest, message);
    }

    // --- The leases
    // -------------------------------------------------------------------------------------------------------------

    // Ends an expired lease and returns the messages that it still holds. False: another transaction is settling its messages.
    bool end_expired_lease(const Lease &expired, int *returned) const {
        if (!try_lock_lease(leases_, expired))
            return false;
        with_latest_snapshot([&](Snapshot snapshot) {
            const IndexedRows scan = begin_message_scan(messages_, snapshot, topic_, expired.ids);
            while (TupleTableSlot *slot = next_row(scan))
                if (holds(expired.fence, read_message(slot)))
                    *returned += return_message(messages_, slot, expired.fence, 0, Failure::lapsed);
            end_indexed_rows(scan);
        });
        delete_lease(leases_, expired);
        CommandCounterIncrement();
        return true;
    }

    void add_active_lease(const Lease &lease) {
        for (int i = 0; i < lease.ids.count; i++) {
            int64 *fence = put(&greatest_fence_, static_cast<uint64>(lease.ids.list[i]), lease.fence);
            *fence = Max(*fence, lease.fence);
            if (lease.key_hashes.list[i] != 0) {
                int64 *id = put(&greatest_id_, static_cast<uint64>(lease.key_hashes.list[i]), lease.ids.list[i]);
                *id = Max(*id, lease.ids.list[i]);
            }
        }
        if (active_count_ % 16 == 0)
            active_leases_ = static_cast<Lease *>(active_leases_ == nullptr
                                                      ? palloc(16 * sizeof(Lease))
                                                      : repalloc(active_leases_, (active_count_ + 16) * sizeof(Lease)));
        active_leases_[active_count_++] = lease;
    }

    // An uncommitted lease may hold messages that only its transaction sees: its own publications, or parked messages that it
    // retried.
    void close_keys_of(const Lease &uncommitted) {
        for (int i = 0; i < uncommitted.key_hashes.count; i++)
            if (uncommitted.key_hashes.list[i] != 0)
                (void)put(&closed_keys_, static_cast<uint64>(uncommitted.key_hashes.list[i]), 0);
    }

    // Ends the expired leases, and collects the others.
    void read_leases() {
        int returned = 0;
        LeaseScan scan;
        begin_lease_scan(&scan, leases_, topic_);
        Lease lease;
        LeaseStatus status;
        while (next_lease(&scan, &lease, &status)) {
            if (status == LeaseStatus::being_inserted)
                close_keys_of(lease);
            const bool may_end = status == LeaseStatus::settled && lease.lease_until <= now_ && returned < kMaxReturned;
            if (!may_end || !end_expired_lease(lease, &returned))
                add_active_lease(lease);
        }
        end_lease_scan(&scan);
    }

    // --- The messages
    // -----------------------------------------------------------------------------------------------------------

    // Whether an active lease holds the message with this id. REQUIRES: one lists it.
    bool is_listed_held(Snapshot snapshot, int64 id) const {
        const IndexedRows scan = begin_message_scan(messages_, snapshot, topic_, Numbers{&id, 1});
        TupleTableSlot *slot = next_row(scan);
        const bool held = slot != nullptr && is_held(read_message(slot));
        end_indexed_rows(scan);
        return held;
    }

    // Whether a lease holds a later message with the message's key. This happens if the message was published before the later
    // one but committed after that was taken. (The scan has already read the earlier messages.) A lease may list settled
    // messages, so each is looked up.
    bool is_later_one_held(Snapshot snapshot, const Message &message) const {
        const int64 *last = find(greatest_id_, message.key_hash);
        if (last == nullptr || *last < message.id)
            return false;
        for (int i = 0; i < active_count_; i++) {
            const Lease &lease = active_leases_[i];
            for (int n = 0; n < lease.ids.count; n++)
                if (static_cast<uint64>(lease.key_hashes.list[n]) == message.key_hash && lease.ids.list[n] > message.id &&
                    is_listed_held(snapshot, lease.ids.list[n]))
                    return true;
        }
        return false;
    }

    // Closes the message's key for later messages.
    bool is_first_of_its_key(const Message &message) {
        if (message.key_hash == 0)
            return true;
        const Size old_count = closed_keys_.count;
        (void)put(&closed_keys_, message.key_hash, 0);
        return closed_keys_.count > old_count;
    }

    bool is_eligible(Snapshot snapshot, const Message &message) {
        return is_first_of_its_key(message) && !is_held(message) && message.due_at <= now_ &&
               !(message.key_hash != 0 && is_later_one_held(snapshot, message));
    }

    void take_message(TupleTableSlot *slot, const Message &message) {
        Lease *lease = &new_lease_;
        if (lease->ids.count == 0)
            lease->fence = next_fence(0);
        lease->ids.list[lease->ids.count++] = message.id;
        lease->key_hashes.list[lease->key_hashes.count++] = static_cast<int64>(message.key_hash);
        put_row(rows_, slot, message, lease->fence);
    }

    // Reads from the oldest message on, because earlier messages close their keys, until it has as many as were asked for: the
    // next call would find the same messages in its way.
    void choose_messages() {
        with_latest_snapshot([&](Snapshot snapshot) {
            const IndexedRows scan = begin_message_scan(messages_, snapshot, topic_);
            TupleTableSlot *slot;
            while (new_lease_.ids.count < max_messages_ && (slot = next_row(scan)) != nullptr) {
                const Message message = read_message(slot);
                if (is_eligible(snapshot, message))
                    take_message(slot, message);
            }
            end_indexed_rows(scan);
        });
    }

    const text *topic_;
    int max_messages_;
    AnswerRows rows_;
    Micros now_ = 0;
    HeapTable messages_{};
    HeapTable leases_{};
    NumberMap greatest_fence_{};     // by message id: of the active leases that list the message
    NumberMap greatest_id_{};        // by key hash: of the messages with that key that active leases list
    NumberMap closed_keys_{};        // key hashes of messages that were read, or that an uncommitted lease lists
    Lease *active_leases_ = nullptr; // all leases of the topic that this call did not end
    int active_count_ = 0;
    Lease new_lease_{};
};
static_assert(std::is_trivially_destructible_v<Take>);

constexpr int kDefaultMaxMessages = 100;

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
    const text *topic = topic_argument(fcinfo, Argument::topic);
    const int max_messages = max_messages_argument(fcinfo);
    const Micros span = lease_argument(fcinfo, Argument::lease);
    prevent_unless_writable("idem_outbox_take()");
    Take(topic, max_messages, begin_answer_rows(fcinfo, kTypes)).run(span);
    return Datum{0};
}
