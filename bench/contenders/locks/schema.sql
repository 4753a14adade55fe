-- A lease lock by hand; its rows are there beforehand, so that taking and freeing are an UPDATE each.
CREATE TABLE leases (
    name text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL DEFAULT 0,
    held_until timestamptz
);
