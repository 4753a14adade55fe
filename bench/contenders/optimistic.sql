--- hand_written.sql
-- On the plain table: every writer has to remember the version.
UPDATE plain_stock SET quantity = 99, version = version + 1 WHERE id = :id AND version = :version RETURNING *;

--- hand_written_guarded.sql
-- The hand-written statement on the guarded table: what is left is the price of calling the function.
UPDATE guarded_stock SET quantity = 99, version = version + 1 WHERE id = :id AND version = :version RETURNING *;

--- optimistic_update.sql
-- On the guarded table, whose trigger refuses everybody else's lost update too.
SELECT outcome, version, row_data
FROM optimistic_update('guarded_stock', jsonb_build_object('id', :id::bigint), :version, '{"quantity": 99}');
