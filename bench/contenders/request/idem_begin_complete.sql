-- The same work statement by statement, for applications that must run code between the claim and the response.
BEGIN;

SELECT (outcome = 'acquired')::int AS is_new, status_code, response FROM idem_begin(:key) \gset

\if :is_new

INSERT INTO orders (customer_id, amount) VALUES (:customer_id, :amount) RETURNING id AS order_id \gset

SELECT idem_complete(:key, jsonb_build_array(jsonb_build_object('id', :order_id::bigint)), 201);

\endif

COMMIT;
