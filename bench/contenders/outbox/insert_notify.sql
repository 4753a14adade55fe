\set k random(1, 1000000)
WITH i AS (INSERT INTO raw_outbox (topic, payload, key) VALUES ('orders', '{"order": 17, "state": "paid"}', 'order ' || :k) RETURNING id)
SELECT id, pg_notify('raw_outbox', 'orders') FROM i;
