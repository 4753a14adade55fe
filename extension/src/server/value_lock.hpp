// The list of idem's lock tags: no other file makes a LOCKTAG of idem's own. Each is a heavyweight lock on a value's hash. Two
// values with the same hash share a lock, which can only cause an unnecessary wait.
//
// The tags are advisory locks of classes that applications cannot use. An application's have class 1 (one bigint key) or 2 (two
// integer keys), so they never conflict with idem's.
//
// Order within one call, as in docs/architecture.md: outbox, then the call's tables, then any other class, then rows.
#pragma once

#include "server/pg.hpp"

namespace idem {

enum class ValueLock : uint16 {
    serialize = 0x1DE0,      // (scope, key) of idem_serialize; until the transaction ends, in the order of the caller's calls
    guarded_insert = 0x1DE1, // a table's match columns, then their values; until the transaction ends
    waiters = 0x1DE2,        // (scope, key) of callers that wait for a lease, or queue for a lock; until the wait ends
    sweep = 0x1DE3,  // (table, slot) of a sweep, also in sql/operations/sweep.sql; until it leaves the table; never waited for
    outbox = 0x1DE4, // a topic; until idem_outbox_take has chosen its messages
    scope = 0x1DE5   // a scope whose settings change, and its family (shared); until the transaction ends
};

inline LOCKTAG value_tag(ValueLock lock_class, uint64 hash) {
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(hash >> 32), static_cast<uint32>(hash),
                         static_cast<uint16>(lock_class));
    return tag;
}

// For a lock that the session holds across transactions. An error releases session locks of the server's own lock method, but
// not those of the method of advisory locks.
inline LOCKTAG session_value_tag(ValueLock lock_class, uint64 hash) {
    LOCKTAG tag = value_tag(lock_class, hash);
    tag.locktag_lockmethodid = DEFAULT_LOCKMETHOD;
    return tag;
}

// Waits for the lock and holds it until the transaction ends.
inline void lock_value(ValueLock lock_class, uint64 hash, LOCKMODE mode = ExclusiveLock) {
    const LOCKTAG tag = value_tag(lock_class, hash);
    (void)LockAcquire(&tag, mode, false, false);
}

} // namespace idem
