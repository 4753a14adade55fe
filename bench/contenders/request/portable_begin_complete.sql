-- Statement by statement by the portable edition.
BEGIN;

SELECT (outcome = 'acquired')::int AS is_new, status_code, response FROM portable.idem_begin(:key) \gset

\if :is_new

INSERT INTO orders (customer_id, amount) VALUES (:customer_id, :amount) RETURNING id AS order_id \gset

SELECT portable.idem_complete(:key, jsonb_build_array(jsonb_build_object('id', :order_id::bigint)), 201);

\endif

COMMIT;
