\set k random(1, 1000000)
INSERT INTO raw_outbox (topic, payload, key) VALUES ('orders', '{"order": 17, "state": "paid"}', 'order ' || :k) RETURNING id;
