\set customer_id random(1, 100000)
\set amount random(1, 50000)
