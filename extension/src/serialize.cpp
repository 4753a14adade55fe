// idem_serialize: transactions that ask for the same key queue up.
#include "arguments.hpp"
#include "scope.hpp"

namespace {

using namespace idem;

// Class of our advisory locks. Applications' own are of class 1 and 2 (one bigint key, two integer keys), so they never meet.
constexpr uint16 kSerializeLockClass = 0x1DE0;

// 64 bits of (scope, key); should two pairs ever share them, they only queue for nothing.
uint64 hash_of(const text *scope, const text *key) {
    const uint64 seed =
        hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(scope)), VARSIZE_ANY_EXHDR(scope), 0);
    return hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(key)), VARSIZE_ANY_EXHDR(key), seed);
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_serialize);

PGDLLEXPORT Datum idem_serialize(PG_FUNCTION_ARGS) {
    const text *key = key_argument(fcinfo, 0);
    const text *scope = scope_argument(fcinfo, 1);
    scope_policy(scope); // for the right to use it
    const uint64 hash = hash_of(scope, key);
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(hash >> 32), static_cast<uint32>(hash), kSerializeLockClass);
    PreventCommandIfParallelMode("idem_serialize()");
    (void)LockAcquire(&tag, ExclusiveLock, false, false);
    PG_RETURN_VOID();
}

} // extern "C"
