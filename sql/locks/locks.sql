-- Lease locks.

-- Locks have the columns of keys, in a table of their own, so that a lock and a key can have the same name. Each acquisition updates the lock's row:
-- half of each page stays free for that.
CREATE TABLE idem_locks (
    LIKE idem_keys INCLUDING COMMENTS INCLUDING INDEXES, CHECK (state IN ('p', 'c', 'r', 'd'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE idem_locks IS
'Lease locks: one row for each name in its scope, kept for a day beyond its last lease. A space of names apart from the keys, with the same columns. Change it only by the functions.';
COMMENT ON COLUMN idem_locks.created_at IS 'When the lock was last acquired (database time).';
COMMENT ON COLUMN idem_locks.expires_at IS 'From this time on, the row may be deleted if nobody holds the lock.';
COMMENT ON COLUMN idem_locks.attempt IS 'Number of acquisitions, from 1, since the row was inserted.';
COMMENT ON COLUMN idem_locks.state IS 'p: held, r: free.';
COMMENT ON COLUMN idem_locks.scope IS 'The space in which the name is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_locks.key IS 'The lock''s name; 1 to 1024 bytes.';
COMMENT ON COLUMN idem_locks.lease_until IS 'When the holder''s lease ends, or ended; NULL when the lock is free.';
COMMENT ON COLUMN idem_locks.fence IS 'Fencing token of the last holder.';

SELECT pg_catalog.pg_extension_config_dump('idem_locks', '');

CREATE FUNCTION idem_lock(name text, lease interval DEFAULT NULL, owner text DEFAULT NULL, wait interval DEFAULT '0',
                          scope text DEFAULT '')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lock(text, interval, text, interval, text) IS
'Acquires a lock, and returns its fence, which is greater than every earlier one; NULL: busy. Commit, and the lock is yours. A lock whose lease has run out is taken over.
lease: how long it lasts, counted from now (default: the scope''s lease, else idem.default_lease). owner: a nonce of the caller''s; the same owner gets its fence again, and a new lease. Acquisitions are not counted: one idem_unlock frees the lock. wait: how long to wait for another holder (0, the default: not at all). Waiters are served one at a time, in the order of their calls.
Errors: 22004 name is null; 22023 name empty or over 1024 bytes, scope over 255 bytes, lease not positive, negative wait; 25006 in a read-only transaction; 40001 under REPEATABLE READ and SERIALIZABLE, when the lock was changed after the snapshot; 42501 scope of another owner; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_lock_renew(name text, fence bigint, lease interval DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lock_renew(text, bigint, interval, text) IS
'Starts the lease again, from now. lease: how long it lasts (default: the scope''s lease, else idem.default_lease). True also when the lease had run out but nobody had taken the lock over; false: the lock is no longer yours. Errors: 22004 name or fence is null; the others as idem_lock.';

CREATE FUNCTION idem_unlock(name text, fence bigint, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_unlock(text, bigint, text) IS
'Frees a lock; false: it was no longer yours, and nothing was done. Waits for open transactions that have asserted the fence. Errors: 22004 name or fence is null; the others as idem_lock.';

CREATE FUNCTION idem_assert_fence(name text, fence bigint, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_assert_fence(text, bigint, text) IS
'Checks that the lock is held with this fence, and keeps it held until this transaction ends. Meanwhile nobody can take it over or free it, not even when its lease runs out; it may be renewed. Call it before you write what the lock protects. Returns true, or raises an error.
Errors: ID001 stale fence; 22004 name or fence is null; 25006 in a read-only transaction; 25P01 alone in its transaction; the others as idem_lock.';
