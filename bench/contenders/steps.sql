--- schema.sql
-- The work of a team that keeps its leases in a table of its own.
CREATE TABLE work (
    key text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL,
    lease_until timestamptz NOT NULL,
    steps jsonb
);

--- hand_written.sql
UPDATE work SET steps = coalesce(steps, '{}') || '{"charge": {"charge": "ch_4711", "amount": 2500}}' WHERE key = :id::text AND fence = 1;

--- idem_step.sql
SELECT idem_step(:id::text, 1, 'charge', '{"charge": "ch_4711", "amount": 2500}');
