// The outbox: messages that commit with the business rows, leases of relays on messages, and parked messages.
//
// A relay's batch is one or more rows of idem_outbox_leases, its parts, which have one fence and list the ids of its messages.
// Each part is a lease by itself. The messages' own rows stay unchanged until they are deleted or returned. A lease L holds a
// message m if L.ids contains m.id and L.fence > m.returned_by. Fences increase, a message enters a new lease only when no
// older lease holds it, and a return writes the lease's fence to returned_by. An old lease may therefore list messages that it
// no longer holds.
//
// Only a transaction that has locked the lease's row may change a message that the lease holds. An acknowledgement deletes
// messages. A return, by idem_outbox_nack or by a take that finds the lease expired, updates or parks them. The same
// transaction deletes the lease's row when the lease holds no message any more. A lease's row is never updated, because a scan
// with a dirty snapshot could miss a row that moves.
//
// Takes of one topic exclude each other by a lock (ValueLock::outbox), which they hold for the call and not for the
// transaction. A take must not return a message that a lease holds. Such a lease existed before the call, perhaps uncommitted,
// and the scan with a dirty snapshot finds it. If the scan no longer finds a lease, its deletion has committed, and every later
// snapshot sees its messages deleted or returned. The order is therefore: read the leases, take a snapshot, read the messages.
//
// An uncommitted lease may list messages that only its own transaction sees. No other message with one of their keys is
// returned.
#pragma once

#include "server/arguments.hpp"
#include "storage/heap_table.hpp"

namespace idem {

extern Member outbox_table;
extern Member parked_table;

inline constexpr int kMaxTopicBytes = 255;
inline constexpr int kMaxBatch = 10'000; // the largest max_messages
// The messages of one part. Small enough that its row is never toasted. A row found with a dirty snapshot could have lost its
// toasted values.
inline constexpr int kMaxMessagesPerPart = 400;

// Attribute numbers of idem_outbox, idem_outbox_leases and idem_outbox_parked.
struct MessageColumn {
    enum : AttrNumber { id = 1, due_at, returned_by, failures, topic, key, payload, headers, count = headers };
};
struct LeaseColumn {
    enum : AttrNumber { fence = 1, lease_until, part, topic, ids, key_hashes, count = key_hashes };
};
struct ParkedColumn {
    enum : AttrNumber { id = 1, parked_at, returned_by, failures, cause, topic, key, payload, headers, count = headers };
};

// Ids of messages, or hashes of their keys.
struct Numbers {
    int64 *list;
    int count;
};

ArrayType *array_of(const Numbers &numbers);

// The argument `ids`, sorted and without duplicates. 22004 when it or an element is NULL.
Numbers ids_argument(FunctionCallInfo fcinfo, int arg);

// The argument `topic`: 22004 when NULL, 22023 when empty or over kMaxTopicBytes.
const text *topic_argument(FunctionCallInfo fcinfo, int arg);

// The argument `lease`, else idem.default_lease.
core::Micros lease_argument(FunctionCallInfo fcinfo, int arg);

HeapTable open_messages();
HeapTable open_parked();

// The columns that decide whether a message is taken.
struct Message {
    int64 id;
    core::Micros due_at; // 0: immediately
    int64 returned_by;   // 0: never returned
    int32 failures;
    uint64 key_hash; // 0: no key
};
Message read_message(TupleTableSlot *slot);

// Whether the lease with this fence holds the message. REQUIRES: the lease lists the message.
inline bool holds(int64 fence, const Message &message) { return fence > message.returned_by; }

// A topic's messages in the order of their ids: all of them, or those in `ids`.
IndexedRows begin_message_scan(const HeapTable &messages, Snapshot snapshot, const text *topic);
IndexedRows begin_message_scan(const HeapTable &messages, Snapshot snapshot, const text *topic, const Numbers &ids);

enum class Failure { nacked, lapsed };

// Records that the lease with this fence did not deliver the message. The message becomes due again at `due_at` (0:
// immediately), or is parked after idem.outbox_max_attempts failures. False: the message no longer exists. REQUIRES: the
// lease's row is locked, and the lease held the message.
bool return_message(const HeapTable &messages, TupleTableSlot *slot, int64 fence, core::Micros due_at, Failure failure);

// Notifies relays of the topic when this transaction commits, unless idem.outbox_notify is off.
void notify_relays(const text *topic);

} // namespace idem
