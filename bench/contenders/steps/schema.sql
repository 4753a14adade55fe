-- The work of a team that keeps its leases in a table of its own.
CREATE TABLE work (
    key text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL,
    lease_until timestamptz NOT NULL,
    steps jsonb
);
