\set k random(1, 1000000)
SELECT idem_publish('orders', '{"order": 17, "state": "paid"}', 'order ' || :k);
