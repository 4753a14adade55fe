// Heavyweight locks on a value's hash, held until the transaction ends. They are advisory locks of classes that applications
// cannot use (theirs are 1 and 2: one bigint key, two integer keys), so the two never meet. Two values with one hash only queue
// for nothing.
#pragma once

#include "pg.hpp"

namespace idem {

enum class ValueLock : uint16 { serialize = 0x1DE0, guarded_insert = 0x1DE1 };

inline void lock_value(ValueLock lock_class, uint64 hash) {
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(hash >> 32), static_cast<uint32>(hash),
                         static_cast<uint16>(lock_class));
    (void)LockAcquire(&tag, ExclusiveLock, false, false);
}

} // namespace idem
