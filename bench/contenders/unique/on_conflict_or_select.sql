-- The row that is there, either way, as unique_insert gives it.
WITH inserted AS (
    INSERT INTO redemptions (code, customer_id) VALUES (:key, :customer_id) ON CONFLICT (code) DO NOTHING RETURNING *
)
SELECT 'inserted' AS outcome, * FROM inserted
UNION ALL
SELECT 'duplicate', * FROM redemptions WHERE code = :key AND NOT EXISTS (SELECT FROM inserted);
