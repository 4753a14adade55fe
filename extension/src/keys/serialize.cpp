// idem_serialize: transactions that name the same key run one after the other.
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/transaction_block.hpp"
#include "server/value_lock.hpp"

SQL_FUNCTION(idem_serialize) {
    using namespace idem;
    const text *key = key_argument(fcinfo, 0);
    const text *scope = scope_argument(fcinfo, 1);
    scope_policy(scope); // checks the right to use the scope
    const uint64 hash = hash_of(scope, key);
    PreventCommandIfParallelMode("idem_serialize()");
    lock_value(ValueLock::serialize, hash);
    expect_work_after(fcinfo, "idem_serialize()");
    PG_RETURN_BOOL(true);
}
