--- schema.sql
-- A lease lock by hand; its rows are there beforehand, so that taking and freeing are an UPDATE each.
CREATE TABLE leases (
    name text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL DEFAULT 0,
    held_until timestamptz
);

--- free.lua
-- Frees the lock, unless it is another's by now.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0

--- hand_written.sql
UPDATE leases SET fence = fence + 1, held_until = clock_timestamp() + interval '30 s'
WHERE name = :id AND (held_until IS NULL OR held_until <= clock_timestamp())
RETURNING fence \gset
UPDATE leases SET held_until = NULL WHERE name = :id AND fence = :fence;

--- idem_lock.sql
SELECT idem_lock(:id, '30 s') AS fence \gset
SELECT idem_unlock(:id, :fence);

--- redis.txt
# No fence: what a holder writes after its lease ran out is not refused.
SET lock-{row} {nonce} NX PX 30000 -> OK
EVALSHA free.lua 1 lock-{row} {nonce} -> 1
