-- Five round trips, as most applications do it.
BEGIN;

INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', :key, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;

INSERT INTO orders (customer_id, amount) VALUES (:customer_id, :amount) RETURNING id AS order_id \gset

UPDATE raw_keys
SET status_code = 201, response = jsonb_build_array(jsonb_build_object('id', :order_id::bigint))
WHERE scope = '' AND key = :key;

COMMIT;
