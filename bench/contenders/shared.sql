--- rows_schema.sql
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

--- schema.sql
-- What an application keeps when it does without idem, in the two forms in use.

-- As a careful author writes it: scoped, byte order instead of a locale's, retention, and room for the stored response.
CREATE TABLE raw_keys (
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    status_code int,
    response jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (scope, key)
);

-- The leanest that still refuses a duplicate: no scope, no retention, no response.
CREATE TABLE leanest_keys (
    key text COLLATE "C" PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Batches run side by side, so each needs a table of its own.
CREATE TABLE raw_keys_unsorted (LIKE raw_keys INCLUDING ALL);
CREATE TABLE raw_keys_sorted (LIKE raw_keys INCLUDING ALL);

-- The business row of a request.
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id bigint NOT NULL,
    amount numeric(12, 2) NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

--- select_1.sql
-- The floor: a round trip that does nothing.
SELECT 1;
