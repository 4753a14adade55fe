// Heavyweight locks on a value's hash, held until the transaction ends. They are advisory locks of classes that applications
// cannot use (theirs are 1 and 2: one bigint key, two integer keys), so the two never meet. Two values with one hash only queue
// for nothing.
#pragma once

#include "server/pg.hpp"

namespace idem {

enum class ValueLock : uint16 {
    serialize = 0x1DE0,
    guarded_insert = 0x1DE1,
    waiters = 0x1DE2,
    sweep = 0x1DE3,
    outbox = 0x1DE4
};

inline LOCKTAG value_tag(ValueLock lock_class, uint64 hash) {
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(hash >> 32), static_cast<uint32>(hash),
                         static_cast<uint16>(lock_class));
    return tag;
}

inline void lock_value(ValueLock lock_class, uint64 hash, LOCKMODE mode = ExclusiveLock) {
    const LOCKTAG tag = value_tag(lock_class, hash);
    (void)LockAcquire(&tag, mode, false, false);
}

// 64 bits of (scope, key), mixed with `seed`.
inline uint64 hash_of(const text *scope, const text *key, uint64 seed = 0) {
    const auto hash_text = [](const text *value, uint64 from) {
        return hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(value)), VARSIZE_ANY_EXHDR(value), from);
    };
    return hash_text(key, hash_text(scope, seed));
}

} // namespace idem
