-- Lease locks.

-- Locks are kept as keys are, in a table of their own, so that no name of one is in the way of another's. A lock's row changes hands again and again: leave half of each page for that.
CREATE TABLE idem_locks (
    LIKE idem_keys INCLUDING COMMENTS INCLUDING INDEXES, CHECK (state IN ('p', 'c', 'r', 'd'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE idem_locks IS
'Lease locks: one row for each name in its scope, kept for a day beyond its last lease; a space of names apart from the keys, with the same columns. Change it only by the functions.';
COMMENT ON COLUMN idem_locks.created_at IS 'When the lock was last taken (database time).';
COMMENT ON COLUMN idem_locks.expires_at IS 'From when on the row of a lock that nobody holds may be deleted.';
COMMENT ON COLUMN idem_locks.attempt IS 'How often the lock was taken, as long as the row has been there.';
COMMENT ON COLUMN idem_locks.state IS 'p: taken, r: free.';
COMMENT ON COLUMN idem_locks.scope IS 'The space in which the name is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_locks.key IS 'The lock''s name; 1 to 1024 bytes.';
COMMENT ON COLUMN idem_locks.lease_until IS 'When the holder''s lease ends, or ended; NULL when the lock is free.';
COMMENT ON COLUMN idem_locks.fence IS 'Fencing token of the last holder.';

SELECT pg_catalog.pg_extension_config_dump('idem_locks', '');

CREATE FUNCTION idem_lock(name text, ttl interval DEFAULT NULL, owner text DEFAULT NULL, wait interval DEFAULT '0',
                          scope text DEFAULT '')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lock(text, interval, text, interval, text) IS
'Takes a lock for as long as ttl says (default: the scope''s lease, else idem.default_lease), counted from now; commit, and it is yours. Returns its fence, greater than every earlier one; NULL: busy. A lock whose lease has run out is taken over.
owner: a nonce of the caller''s; the same owner gets the fence that it has and a new lease, without count: one idem_unlock frees. wait: how long to wait (0, the default: not at all); those who wait are served one at a time, in the order in which they came.
Errors: 22004 name is null; 22023 name empty or over 1024 bytes, scope over 255 bytes, ttl not positive, negative wait; 25006 in a read-only transaction; 40001 under REPEATABLE READ and SERIALIZABLE, when the lock changed hands after the snapshot; 42501 scope of another owner; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_lock_renew(name text, fence bigint, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lock_renew(text, bigint, interval, text) IS
'Makes the lease last from now on for as long as given (default: the scope''s lease, else idem.default_lease). True also when it had run out but nobody took the lock over; false: no longer yours. Errors: 22004 name or fence is null; the others as idem_lock.';

CREATE FUNCTION idem_unlock(name text, fence bigint, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_unlock(text, bigint, text) IS
'Frees a lock; false: it is no longer yours, and nothing was done. Waits for transactions that asserted the fence and have not ended. Errors: 22004 name or fence is null; the others as idem_lock.';

CREATE FUNCTION idem_assert_fence(name text, fence bigint, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_assert_fence(text, bigint, text) IS
'Makes sure that the lock is held with this fence, and stays so until this transaction ends: nobody can take it over or free it meanwhile, not even when its lease runs out; it may be renewed. Call it before writing what the lock protects. Returns true, or raises an error.
Errors: ID001 stale fence; 22004 name or fence is null; 25006 in a read-only transaction; the others as idem_lock.';
