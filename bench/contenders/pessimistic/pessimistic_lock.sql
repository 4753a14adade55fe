BEGIN;
SELECT outcome, row_data FROM pessimistic_lock('plain_stock', jsonb_build_object('id', :id::bigint));
COMMIT;
