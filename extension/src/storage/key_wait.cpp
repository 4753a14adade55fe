#include "storage/key_wait.hpp"

#include "server/lock_wait_limit.hpp"
#include "server/writable.hpp"

namespace idem {

void wait_for_holder(const KeyTable &table, const FoundRow &busy) {
    if (busy.speculative_token != 0)
        SpeculativeInsertionWait(busy.holder, busy.speculative_token);
    else
        XactLockTableWait(busy.holder, heap_of(table, busy.version).relation, const_cast<ItemPointer>(&busy.version.tid),
                          XLTW_InsertIndexUnique);
    CHECK_FOR_INTERRUPTS();
}

bool wait_for_holder_within(const KeyTable &table, const FoundRow &busy, core::Micros limit) {
    if (busy.speculative_token == 0)
        return within_wait_limit(limit, [&] { wait_for_holder(table, busy); });
    wait_for_holder(table, busy); // a short wait, until the holder's insertion is finished
    return true;
}

namespace {

FoundRow locked_by(TransactionId holder, const KeyVersion &version) {
    FoundRow busy{};
    busy.presence = Presence::busy;
    busy.holder = holder;
    busy.version = version;
    return busy;
}

} // namespace

void wait_for_transaction(const KeyTable &table, TransactionId holder, const KeyVersion &version) {
    wait_for_holder(table, locked_by(holder, version));
}

bool wait_for_transaction_within(const KeyTable &table, TransactionId holder, const KeyVersion &version, core::Micros limit) {
    return wait_for_holder_within(table, locked_by(holder, version), limit);
}

FoundRow find_row_waiting(const KeyTable &table, const text *scope, const text *key, const char *function) {
    PreventCommandIfParallelMode(function);
    for (;;) {
        const FoundRow found = find_row_settled(table, scope, key);
        if (found.presence != Presence::busy)
            return found;
        prevent_unless_writable(function);
        wait_for_holder(table, found);
    }
}

namespace {

bool is_open_elsewhere(TransactionId transaction) {
    return !TransactionIdIsCurrentTransactionId(transaction) && TransactionIdIsInProgress(transaction);
}

TransactionId open_member_of(MultiXactId lockers, bool only_locked) {
    TransactionId found = InvalidTransactionId;
    MultiXactMember *members;
    const int count = GetMultiXactIdMembers(lockers, &members, false, only_locked);
    for (int i = 0; i < count && !TransactionIdIsValid(found); i++)
        if (is_open_elsewhere(members[i].xid))
            found = members[i].xid;
    if (count > 0)
        pfree(members);
    return found;
}

} // namespace

TransactionId locker_of(const KeyTable &table, const KeyVersion &version) {
    HeapTupleData tuple{};
    tuple.t_self = version.tid;
    Buffer buffer;
    if (!heap_fetch(heap_of(table, version).relation, SnapshotAny, &tuple, &buffer, false))
        return InvalidTransactionId;
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    const TransactionId lockers = HeapTupleHeaderGetRawXmax(tuple.t_data);
    const uint16 flags = tuple.t_data->t_infomask;
    UnlockReleaseBuffer(buffer);
    if ((flags & HEAP_XMAX_INVALID) != 0)
        return InvalidTransactionId;
    if ((flags & HEAP_XMAX_IS_MULTI) != 0)
        return open_member_of(lockers, HEAP_XMAX_IS_LOCKED_ONLY(flags));
    return is_open_elsewhere(lockers) ? lockers : InvalidTransactionId;
}

} // namespace idem
