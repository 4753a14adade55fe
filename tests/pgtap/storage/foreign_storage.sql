-- A key table whose rows would go elsewhere, or be kept by other rules, is refused: nothing is claimed in the wrong place.
\ir ../include/helpers.psql
SELECT plan(4);
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));
CALL pg_temp.clean('storage:');
SELECT ok(idem_claim('storage:before'), 'plain_table');

-- An extension that distributes tables leaves the shell in place, and notes it in a catalog of its own.
BEGIN;
SET LOCAL allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);
INSERT INTO pg_catalog.pg_dist_partition VALUES ('idem_keys'::regclass);
ALTER TABLE idem_keys SET (fillfactor = 84); -- whoever distributes a table changes it, so that sessions look at it again
SELECT is(pg_temp.state_of($$ SELECT idem_claim('storage:distributed') $$), '55000', 'distributed_table');
ROLLBACK;

-- A table of another access method, even one that works like heap.
BEGIN;
CREATE ACCESS METHOD storage_other TYPE TABLE HANDLER heap_tableam_handler;
ALTER TABLE idem_keys SET ACCESS METHOD storage_other;
SELECT is(pg_temp.state_of($$ SELECT idem_claim('storage:other') $$), '55000', 'other_access_method');
ROLLBACK;

SELECT ok(NOT idem_claim('storage:before'), 'plain_again');
CALL pg_temp.clean('storage:');
SELECT * FROM finish();
