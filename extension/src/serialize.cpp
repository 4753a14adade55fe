// idem_serialize: transactions that ask for the same key queue up.
#include "arguments.hpp"
#include "scope.hpp"
#include "value_lock.hpp"

namespace {

using namespace idem;

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
    PreventCommandIfParallelMode("idem_serialize()");
    lock_value(ValueLock::serialize, hash);
    PG_RETURN_VOID();
}

} // extern "C"
