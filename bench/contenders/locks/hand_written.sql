UPDATE leases SET fence = fence + 1, held_until = clock_timestamp() + interval '30 s'
WHERE name = :id AND (held_until IS NULL OR held_until <= clock_timestamp())
RETURNING fence \gset
UPDATE leases SET held_until = NULL WHERE name = :id AND fence = :fence;
