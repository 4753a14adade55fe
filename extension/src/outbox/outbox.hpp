// The outbox: messages that commit with the business rows, the leases under which relays have them, and those that are parked.
//
// A relay's batch is one row of idem_outbox_leases, which names its messages; they themselves are not touched before they are
// deleted or returned. A lease L holds a message m when L.ids has m.id and L.fence > m.returned_by: fences grow, a message
// comes into a new lease only when no older one holds it any more, and who returns it writes the fence of his lease there. So
// what an old lease names is not mistaken for what it holds.
//
// Who may change a message that was given out: who has locked its lease's row. Acknowledging deletes messages, returning
// (idem_outbox_nack, or a take that finds the lease run out) updates or parks them; the row of a lease that holds nothing any
// more is deleted in the same transaction. A lease's row is never updated: a scan with a dirty snapshot could miss one that
// moves.
//
// Takes of one topic exclude each other by a lock (ValueLock::outbox) that they hold for the call, not for the transaction.
// What they must not give out is thus in a lease that was there before the call began, perhaps uncommitted, or in one whose
// deletion has committed before the call saw it gone. The first are seen with a dirty snapshot; the others' messages are
// deleted, or returned, for every snapshot that is taken after that look. So the order is: look at the leases, then take a
// snapshot, then look at the messages. Messages that an uncommitted lease names may be visible to its transaction alone: no
// other message of their keys is given out.
#pragma once

#include "server/arguments.hpp"
#include "storage/heap_table.hpp"

namespace idem {

extern Member outbox_table;
extern Member parked_table;

inline constexpr int kMaxTopicBytes = 255;
inline constexpr int kMaxBatch = 10'000; // what can be asked for
inline constexpr int kMostInLease =
    400; // a lease's row is never toasted: that could be gone where the row was seen with a dirty snapshot

// Columns of idem_outbox, idem_outbox_leases and idem_outbox_parked, by attribute number.
struct MessageColumn {
    enum : AttrNumber { id = 1, due_at, returned_by, failures, topic, key, payload, headers, count = headers };
};
struct LeaseColumn {
    enum : AttrNumber { fence = 1, lease_until, topic, ids, key_hashes, count = key_hashes };
};
struct ParkedColumn {
    enum : AttrNumber { id = 1, parked_at, returned_by, failures, cause, topic, key, payload, headers, count = headers };
};

// Numbers of the caller's, or of a lease.
struct Numbers {
    int64 *list;
    int count;
};

// As a stored value.
ArrayType *array_of(const Numbers &numbers);

// The argument `ids`: sorted, each once. 22004 when it, or one of them, is null.
Numbers ids_argument(FunctionCallInfo fcinfo, int arg);

// The argument `topic`: 22004 when null, 22023 when empty or too long.
const text *topic_argument(FunctionCallInfo fcinfo, int arg);

HeapTable open_messages();
HeapTable open_parked();

// What decides on a message.
struct Message {
    int64 id;
    core::Micros due_at; // 0: at once
    int64 returned_by;   // 0: by nobody
    int32 failures;
    uint64 key_hash; // 0: no key
};
Message read_message(TupleTableSlot *slot);

// Whether the lease with this fence, which names the message, holds it.
inline bool holds(int64 fence, const Message &message) { return fence > message.returned_by; }

// A topic's messages, in the order of ids; all of them, or those with these ids.
IndexedRows begin_message_scan(const HeapTable &messages, Snapshot snapshot, const text *topic);
IndexedRows begin_message_scan(const HeapTable &messages, Snapshot snapshot, const text *topic, const Numbers &ids);

enum class Failure { nacked, lapsed };

// Takes note that the lease with this fence did not deliver the message: due again at `due_at` (0: at once), or parked. False:
// it is gone. REQUIRES: the lease's row is locked, and held the message.
bool return_message(const HeapTable &messages, TupleTableSlot *slot, int64 fence, core::Micros due_at, Failure failure);

// Makes relays look at the topic when this transaction commits, unless idem.outbox_notify is off.
void notify_relays(const text *topic);

} // namespace idem
