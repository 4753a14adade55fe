-- No row: busy, and the client asks again later.
UPDATE leases SET fence = fence + 1, held_until = clock_timestamp() + interval '30 s'
WHERE name = :name AND (held_until IS NULL OR held_until <= clock_timestamp())
RETURNING fence;
UPDATE leases SET held_until = NULL WHERE name = :name AND fence = :fence RETURNING true;
