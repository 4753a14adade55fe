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
