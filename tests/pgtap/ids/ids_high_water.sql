-- The high-water mark of idem_next_id: a sequence that stays locked, is not to be replaced, and costs little.
\ir ../include/helpers.psql
SELECT plan(11);

-- The lock.
BEGIN;
SELECT idem_next_id();
SAVEPOINT s;
SELECT idem_next_id();
ROLLBACK TO s;
SELECT is((SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'idem_id_high_water'::regclass), 1::bigint,
          'sequence_stays_locked_when_the_savepoint_that_locked_it_is_gone');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT idem_next_id();
ROLLBACK TO s;
SELECT is((SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'idem_id_high_water'::regclass), 1::bigint,
          'also_when_it_was_the_first_to_lock');
ROLLBACK;

-- Who may use it, and what may stand in its place.
BEGIN;
CREATE ROLE tap_ids;
GRANT USAGE ON SCHEMA idem TO tap_ids;
SELECT is(pg_temp.state_as('tap_ids', 'SELECT nextval(''idem.idem_id_high_water'')'), '42501', 'but_not_from_the_sequence');
ROLLBACK;
BEGIN;
ALTER SEQUENCE idem_id_high_water RENAME TO idem_id_high_water_of_old;
CREATE SEQUENCE idem.idem_id_high_water;
SELECT is(pg_temp.state_of('SELECT idem_next_id()'), '55000', 'replaced_sequence');
ROLLBACK;
SELECT is(pg_temp.state_of('SELECT idem_next_id()'), 'ok', 'original_sequence_again');

-- The end of the numbers. A setval is not undone by a rollback, but the new file that RESTART makes is gone with it.
BEGIN;
ALTER SEQUENCE idem_id_high_water RESTART;
SELECT setval('idem_id_high_water', 9223372036854771712 - 1);
SELECT is((SELECT (seq, node)::text FROM idem_id_parts(idem_next_id())), '(0,1023)', 'last_millisecond')
  FROM set_config('idem.node_id', '1023', true);
SELECT setval('idem_id_high_water', 9223372036854775807);
SELECT is(pg_temp.state_of('SELECT idem_next_id()'), '2200H', 'numbers_used_up');
ROLLBACK;
SELECT ok(idem_next_id() < 9223372036854771712, 'end_of_the_numbers_was_rolled_back');

-- What it costs: no transaction id, a WAL record a second; and the fences' page is none of its business.
BEGIN;
SELECT last_value AS fences_before FROM idem_fence_high_water \gset
SELECT pg_temp.wal_records('SELECT count(idem_next_id()) FROM generate_series(1, 10000)') AS wal \gset
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid,
       last_value = :fences_before AS same_fences FROM idem_fence_high_water \gset
SELECT ok(:wal <= 3, 'no_wal_for_each_id');
SELECT ok(:'no_xid', 'no_transaction_id');
SELECT ok(:'same_fences', 'fences_are_on_their_own_page');
COMMIT;

SELECT * FROM finish();
