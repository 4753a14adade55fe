-- Lease locks.

CREATE FUNCTION idem_lock(name text, ttl interval DEFAULT NULL, owner text DEFAULT NULL, wait interval DEFAULT '0',
                          scope text DEFAULT '')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lock(text, interval, text, interval, text) IS
'Takes a lock for as long as ttl says (default: the scope''s lease, else idem.default_lease), counted from now; commit, and it is yours. Returns its fence, greater than every earlier one; NULL: busy. A lock whose lease has run out is taken over.
owner: a nonce of the caller''s; the same owner gets the fence that it has and a new lease, without count: one idem_unlock frees. wait: how long to wait (0: not at all, NULL: without bound); those who wait are served one at a time, in the order in which they came.
Errors: 22004 name or scope is null; 22023 name empty or over 1024 bytes, scope over 255 bytes, ttl not positive, negative wait; 25006 in a read-only transaction; 40001 under REPEATABLE READ and SERIALIZABLE, when the lock changed hands after the snapshot; 42501 scope of another owner; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_lock_renew(name text, fence bigint, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lock_renew(text, bigint, interval, text) IS
'Makes the lease last from now on for as long as given (default: the scope''s lease, else idem.default_lease). True also when it had run out but nobody took the lock over; false: no longer yours. Errors: 22004 name, fence or scope is null; the others as idem_lock.';

CREATE FUNCTION idem_unlock(name text, fence bigint, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_unlock(text, bigint, text) IS
'Frees a lock; false: it is no longer yours, and nothing was done. Waits for transactions that asserted the fence and have not ended. Errors: 22004 name, fence or scope is null; the others as idem_lock.';

CREATE FUNCTION idem_assert_fence(name text, fence bigint, scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_assert_fence(text, bigint, text) IS
'Makes sure that the lock is held with this fence, and stays so until this transaction ends: nobody can take it over or free it meanwhile, not even when its lease runs out; it may be renewed. Call it before writing what the lock protects.
Errors: ID001 stale fence; 22004 name, fence or scope is null; 25006 in a read-only transaction; the others as idem_lock.';
