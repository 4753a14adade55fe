--- on_conflict.sql
-- No row comes back for a duplicate.
INSERT INTO redemptions (code, customer_id) VALUES (:key, :customer_id) ON CONFLICT (code) DO NOTHING RETURNING *;

--- on_conflict_or_select.sql
-- The row that is there, either way, as unique_insert gives it.
WITH inserted AS (
    INSERT INTO redemptions (code, customer_id) VALUES (:key, :customer_id) ON CONFLICT (code) DO NOTHING RETURNING *
)
SELECT 'inserted' AS outcome, * FROM inserted
UNION ALL
SELECT 'duplicate', * FROM redemptions WHERE code = :key AND NOT EXISTS (SELECT FROM inserted);

--- unique_insert.sql
SELECT outcome, row_data
FROM unique_insert('redemptions', jsonb_build_object('code', :key::text, 'customer_id', :customer_id::bigint));
