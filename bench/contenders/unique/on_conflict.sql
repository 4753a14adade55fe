-- No row comes back for a duplicate.
INSERT INTO redemptions (code, customer_id) VALUES (:key, :customer_id) ON CONFLICT (code) DO NOTHING RETURNING *;
