--- begin_complete.sql
BEGIN;
SELECT outcome FROM idem_begin(:key);
SELECT idem_complete(:key, '[{"id": 1}]', 201);
COMMIT;

--- claim_ttl.sql
SELECT idem_claim(:key, '1 hour');

--- execute.sql
SELECT * FROM idem_execute(:key, 'INSERT INTO orders (customer_id, amount) VALUES ($1, $2) RETURNING id', '[17, 129.90]');

--- http.sql
BEGIN;
SELECT * FROM idem_http_begin('bench', 'POST', '/orders', :key, '{"customer": 17, "amount": "129.90", "currency": "EUR"}');
SELECT idem_http_complete('bench', :key, 201, body => '{"id": 1}');
COMMIT;

--- raw_insert.sql
INSERT INTO leanest_keys (key) VALUES (:key) ON CONFLICT (key) DO NOTHING;

--- raw_keys.sql
INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key)
VALUES (clock_timestamp(), clock_timestamp() + interval '24 hours', 1, 'c', '', :key) ON CONFLICT (scope, key) DO NOTHING;
