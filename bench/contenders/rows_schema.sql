-- A row as an application keeps it: once plain, once with the version guard that optimistic_update asks for. All flows but that
-- one work on the plain table. The fill factor leaves room for updates that touch no index, as for any table that is updated much.
CREATE TABLE plain_stock (
    id bigint PRIMARY KEY,
    name text NOT NULL,
    price numeric(12, 2) NOT NULL,
    quantity int NOT NULL CHECK (quantity >= 0),
    version bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 80);

CREATE TABLE guarded_stock (LIKE plain_stock INCLUDING ALL) WITH (fillfactor = 80);
SELECT optimistic_enable('guarded_stock');

-- For inserts that may be duplicates.
CREATE TABLE redemptions (
    code text COLLATE "C" PRIMARY KEY,
    customer_id bigint NOT NULL,
    redeemed_at timestamptz NOT NULL DEFAULT now()
);
