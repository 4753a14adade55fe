-- Five round trips, as most applications do it; four for a request that was done before.
\set is_new 0
BEGIN;

INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', :key, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING
RETURNING 1 AS is_new \aset

\if :is_new

INSERT INTO orders (customer_id, amount) VALUES (:customer_id, :amount) RETURNING id AS order_id \gset

UPDATE raw_keys
SET status_code = 201, response = jsonb_build_array(jsonb_build_object('id', :order_id::bigint))
WHERE scope = '' AND key = :key;

\else

SELECT status_code, response FROM raw_keys WHERE scope = '' AND key = :key;

\endif

COMMIT;
