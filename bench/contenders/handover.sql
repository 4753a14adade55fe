--- hand_written.sql
-- No row: busy, and the client asks again later.
UPDATE leases SET fence = fence + 1, held_until = clock_timestamp() + interval '30 s'
WHERE name = :name AND (held_until IS NULL OR held_until <= clock_timestamp())
RETURNING fence;
UPDATE leases SET held_until = NULL WHERE name = :name AND fence = :fence RETURNING true;

--- idem_lock.sql
SELECT idem_lock(:name, '30 s', wait => '30 s');
SELECT idem_unlock(:name, :fence);

--- idem_lock_unflushed.sql
-- The setting is the session's from the first statement on.
SELECT idem_lock(:name, '30 s', wait => '30 s'), set_config('synchronous_commit', 'off', false);
SELECT idem_unlock(:name, :fence);

--- pg_advisory_lock.sql
-- It has no lease and no fence, and ends with its session.
SELECT pg_advisory_lock(hashtextextended(:name, 0));
SELECT pg_advisory_unlock(hashtextextended(:name, 0));
