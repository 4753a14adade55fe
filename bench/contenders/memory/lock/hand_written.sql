UPDATE leases SET fence = fence + 1, held_until = clock_timestamp() + interval '30 s'
WHERE name = 'lock ' || n % 10000 AND (held_until IS NULL OR held_until <= clock_timestamp());
UPDATE leases SET held_until = NULL WHERE name = 'lock ' || n % 10000;
