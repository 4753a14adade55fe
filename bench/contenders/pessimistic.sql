--- hand_written.sql
BEGIN;
SELECT * FROM plain_stock WHERE id = :id FOR UPDATE;
COMMIT;

--- pessimistic_lock.sql
BEGIN;
SELECT outcome, row_data FROM pessimistic_lock('plain_stock', jsonb_build_object('id', :id::bigint));
COMMIT;
