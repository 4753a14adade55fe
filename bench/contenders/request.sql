--- plpgsql_schema.sql
CREATE FUNCTION place_order(request_key text, for_customer bigint, order_amount numeric) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb;
BEGIN
    INSERT INTO raw_keys (scope, key, expires_at)
    VALUES ('', request_key, now() + interval '24 hours')
    ON CONFLICT (scope, key) DO NOTHING;
    IF NOT FOUND THEN
        RETURN (SELECT response FROM raw_keys WHERE scope = '' AND key = request_key);
    END IF;

    INSERT INTO orders (customer_id, amount) VALUES (for_customer, order_amount)
    RETURNING jsonb_build_array(jsonb_build_object('id', id)) INTO answer;

    UPDATE raw_keys SET status_code = 201, response = answer WHERE scope = '' AND key = request_key;
    RETURN answer;
END
$$;

--- hand_written.sql
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

--- idem_begin_complete.sql
-- The same work statement by statement, for applications that must run code between the claim and the response.
BEGIN;

SELECT (outcome = 'acquired')::int AS is_new, status_code, response FROM idem_begin(:key) \gset

\if :is_new

INSERT INTO orders (customer_id, amount) VALUES (:customer_id, :amount) RETURNING id AS order_id \gset

SELECT idem_complete(:key, jsonb_build_array(jsonb_build_object('id', :order_id::bigint)), 201);

\endif

COMMIT;

--- idem_execute.sql
-- One round trip: claim, insert, response and commit.
SELECT * FROM idem_execute(:key,
    'INSERT INTO orders (customer_id, amount) VALUES ($1, $2) RETURNING id',
    jsonb_build_array(:customer_id::int, :amount::numeric));

--- plpgsql.sql
-- One round trip too, at the price of a stored function for each kind of request.
SELECT place_order(:key, :customer_id, :amount);

--- portable_begin_complete.sql
-- Statement by statement by the portable edition.
BEGIN;

SELECT (outcome = 'acquired')::int AS is_new, status_code, response FROM portable.idem_begin(:key) \gset

\if :is_new

INSERT INTO orders (customer_id, amount) VALUES (:customer_id, :amount) RETURNING id AS order_id \gset

SELECT portable.idem_complete(:key, jsonb_build_array(jsonb_build_object('id', :order_id::bigint)), 201);

\endif

COMMIT;

--- portable_execute.sql
-- One round trip by the portable edition.
SELECT * FROM portable.idem_execute(:key,
    'INSERT INTO orders (customer_id, amount) VALUES ($1, $2) RETURNING id',
    jsonb_build_array(:customer_id::int, :amount::numeric));

--- redis_and_postgresql.txt
# The pattern of the articles: a claim in Redis, the work in PostgreSQL, the response in Redis. The two systems have no
# common commit: a process that dies after the INSERT leaves "in_flight" behind, and an order that nobody will answer for.
SET {key} in_flight NX GET EX 86400 -> nil or done
SQL INSERT INTO orders (customer_id, amount) VALUES ({customer_id}, {amount}) RETURNING id -> {order}
SET {key} [{"id":{order}}] XX EX 86400 -> OK
