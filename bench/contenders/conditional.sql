--- conditional_adjust.sql
SELECT outcome, value FROM conditional_adjust('plain_stock', jsonb_build_object('id', :id::bigint), 'quantity', -1);

--- hand_written.sql
UPDATE plain_stock SET quantity = quantity - 1 WHERE id = :id AND quantity >= 1 RETURNING quantity;
