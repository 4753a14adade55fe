-- pessimistic_lock: SELECT … FOR UPDATE by key, with an answer in place of an error. A prepared transaction plays the other side:
-- it holds on without a session.
\set schema row_lock
\ir ../include/row_flows.psql
SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE starts_with(gid, 'idem pgtap ') \gexec
SELECT plan(42);
SET statement_timeout = '30 s';
CREATE TABLE row_lock.accounts (id int PRIMARY KEY, iban text NOT NULL UNIQUE, balance numeric,
    shown text GENERATED ALWAYS AS ('#' || iban) STORED);
INSERT INTO row_lock.accounts VALUES (1, 'a', 10.5), (2, 'b', NULL), (3, 'c', 3);
CREATE TABLE row_lock.entries (id int PRIMARY KEY, account int REFERENCES row_lock.accounts);
CREATE FUNCTION pg_temp.locked(key jsonb, rest text = '') RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answer(format('SELECT * FROM pessimistic_lock(''row_lock.accounts'', %L%s)', key, rest))
$$;
CREATE FUNCTION pg_temp.timed(key jsonb, rest text, OUT result text, OUT took float8) LANGUAGE plpgsql AS $$
DECLARE
    start timestamptz := clock_timestamp();
    answer jsonb := pg_temp.locked(key, rest);
BEGIN
    result := coalesce(coalesce(answer ->> 'outcome', answer #>> '{}'), 'none');
    took := extract(epoch FROM clock_timestamp() - start);
END $$;
-- What does not wait: the fastest of three, as the machine may be busy.
CREATE FUNCTION pg_temp.fastest(key jsonb, rest text, OUT result text, OUT took float8) LANGUAGE sql AS $$
    SELECT string_agg(DISTINCT t.result, ' '), min(t.took) FROM generate_series(1, 3), pg_temp.timed(key, rest) AS t
$$;
-- The rows that a transaction in progress has locked. (A test cluster has not used up its first 2^32 transactions.)
CREATE FUNCTION pg_temp.locked_rows() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT string_agg(id::text, ' ' ORDER BY id) FROM row_lock.accounts WHERE xmax <> '0'
        AND pg_xact_status(xmax::text::xid8) = 'in progress');
END $$;

-- Free rows.
BEGIN;
SELECT is(pg_temp.locked('{"id": 1}'), '{"outcome": "locked", "row_data": {"id": 1, "iban": "a", "balance": 10.5, '
    '"shown": "#a"}}', 'row_is_locked');
SELECT is(pg_temp.locked('{"iban": "b"}', ', ''0'''),
    '{"outcome": "locked", "row_data": {"id": 2, "iban": "b", "balance": null, "shown": "#b"}}',
    'by_another_unique_index_without_a_wait');
SELECT is(pg_temp.locked('{"id": 4}'), '{"outcome": "not_found", "row_data": null}', 'row_is_not_there');
SELECT is(pg_temp.locked('{"id": 4}', ', ''0'''), '{"outcome": "not_found", "row_data": null}', 'which_needs_no_wait');
SELECT is(pg_temp.locked('{"id": 1}', ', ''1 s''') ->> 'outcome', 'locked', 'own_lock_is_no_obstacle');
UPDATE row_lock.accounts SET balance = 11 WHERE id = 1;
SELECT is(pg_temp.locked('{"id": 1}', ', ''0''') #> '{row_data,balance}', '11', 'nor_is_an_own_update');
COMMIT;
BEGIN;
SELECT outcome FROM pessimistic_lock('row_lock.accounts', '{"id": 1}');
SELECT outcome FROM pessimistic_lock('row_lock.accounts', '{"id": 3}', '1 min');
SELECT is(pg_temp.locked_rows(), '1 3', 'rows_bear_the_transactions_mark');
SELECT is((SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'), 0::bigint, 'no_advisory_lock');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT outcome FROM pessimistic_lock('row_lock.accounts', '{"id": 1}');
ROLLBACK TO s;
SELECT outcome FROM pessimistic_lock('row_lock.accounts', '{"id": 2}');
SELECT is(pg_temp.locked_rows(), '2', 'savepoint_gives_its_lock_back');
ROLLBACK;

-- Settings are as they were, whatever the wait.
SET lock_timeout = '12345 ms';
SELECT count(pg_temp.locked('{"id": 1}', rest)) FROM unnest('{", ''1 s''",", ''0''",", NULL",", ''1 s''"}'::text[]) AS rest;
SELECT is(current_setting('lock_timeout'), '12345ms', 'users_lock_timeout_is_left_alone');
RESET lock_timeout;
SELECT is(pg_temp.locked('{"id": 1}', ', ''290000 years''') ->> 'outcome', 'locked', 'very_long_wait');

-- Waits that cannot be.
SELECT is(
    (SELECT string_agg(format('%s: %s', wait, answer), '; ')
       FROM unnest('{-1 us,-1 s,-1 month,1 day -1 month,-178000000 years}'::text[]) AS wait, unnest('{1,4}'::int[]) AS id,
            pg_temp.locked(jsonb_build_object('id', id), format(', %L', wait)) AS answer
      WHERE answer <> '"22023"'),
    NULL, 'negative_wait');
SELECT is(pg_temp.surprises(ARRAY[
    ['pessimistic_lock(NULL, ''{"id": 1}'')', '22004'], ['pessimistic_lock(''row_lock.accounts'', NULL)', '22004'],
        ['pessimistic_lock(''row_lock.accounts'', ''{"id": null}'')', '22004'],
    ['pessimistic_lock(''row_lock.accounts'', ''[1]'')', '22023'], ['pessimistic_lock(''row_lock.accounts'', ''{}'')', '42P10'],
    ['pessimistic_lock(''row_lock.accounts'', ''{"balance": 3}'')', '42P10'],
        ['pessimistic_lock(''row_lock.accounts'', ''{"id": 1, "iban": "a"}'')', '42P10'],
    ['pessimistic_lock(''row_lock.accounts'', ''{"x": 1}'')', '42703'],
        ['pessimistic_lock(''row_lock.accounts'', ''{"id": "x"}'')', '22P02']]), NULL, 'bad_arguments');

-- Partitions and heirs.
CREATE TABLE row_lock.parted (id int, region text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE row_lock.parted_eu PARTITION OF row_lock.parted FOR VALUES IN ('eu');
INSERT INTO row_lock.parted VALUES (1, 'eu');
SELECT is(pg_temp.answer($$ SELECT * FROM pessimistic_lock('row_lock.parted', '{"id": 1, "region": "eu"}') $$),
    '{"outcome": "locked", "row_data": {"id": 1, "region": "eu"}}', 'row_of_a_partitioned_table');
SELECT is(pg_temp.answer($$ SELECT * FROM pessimistic_lock('row_lock.parted', '{"id": 1, "region": "us"}') $$) ->> 'outcome',
    'not_found', 'partition_that_is_not_there');
CREATE TABLE row_lock.heir () INHERITS (row_lock.accounts);
INSERT INTO row_lock.heir VALUES (1, 'heir'), (9, 'heir');
SELECT is(pg_temp.locked('{"id": 1}') #>> '{row_data,iban}', 'a', 'parents_own_row');
SELECT is(pg_temp.locked('{"id": 9}') ->> 'outcome', 'not_found', 'not_an_heirs');

-- Locking changes nothing: no trigger fires, no version is counted.
SELECT optimistic_enable('row_lock.parted');
BEGIN;
SELECT outcome FROM pessimistic_lock('row_lock.parted', '{"id": 1, "region": "eu"}');
COMMIT;
SELECT is((SELECT version FROM row_lock.parted), 1::bigint, 'version_stands');
BEGIN READ ONLY;
SELECT is(pg_temp.locked('{"id": 1}'), '"25006"', 'read_only_transaction');
SELECT is(pg_temp.locked('{"id": 1}', ', ''0'''), '"25006"', 'and_without_a_wait');
ROLLBACK;

-- Another holder.
SELECT current_setting('max_prepared_transactions')::int > 0 AS possible \gset
\if :possible
BEGIN;
SELECT outcome FROM pessimistic_lock('row_lock.accounts', '{"id": 1}');
UPDATE row_lock.accounts SET balance = 33 WHERE id = 3;
INSERT INTO row_lock.accounts VALUES (5, 'e');
INSERT INTO row_lock.entries VALUES (1, 2);
PREPARE TRANSACTION 'idem pgtap lock';
SELECT is(pg_temp.locked('{"id": 1}', ', ''0'''), '{"outcome": "busy", "row_data": null}', 'locked_row_is_busy');
SELECT is(pg_temp.locked('{"iban": "c"}', ', ''0''') ->> 'outcome', 'busy', 'as_is_an_updated_one');
SELECT is(pg_temp.locked('{"id": 2}', ', ''0''') ->> 'outcome', 'busy', 'and_one_that_a_foreign_key_holds');
SELECT is(pg_temp.locked('{"id": 5}', ', ''0''') ->> 'outcome', 'not_found', 'uncommitted_row_is_not_there');
SELECT ok(result = 'busy' AND took < 0.2, format('busy_at_once: %s, %s s', result, took)) FROM pg_temp.fastest('{"id": 1}', ', ''0''');
SELECT ok(result = 'busy' AND took BETWEEN 0.3 AND 3, format('busy_when_the_wait_is_used_up: %s, %s s', result, took))
    FROM pg_temp.timed('{"id": 1}', ', ''300 ms''');
SELECT ok(result = 'busy' AND took < 0.5, format('shortest_wait: %s, %s s', result, took)) FROM pg_temp.fastest('{"id": 1}', ', ''1 us''');
SELECT ok(result = 'not_found' AND took < 0.2, format('row_that_is_not_there_needs_no_wait: %s, %s s', result, took))
    FROM pg_temp.fastest('{"id": 7}', ', NULL');
SET lock_timeout = '100 ms';
SELECT ok(result = '55P03' AND took BETWEEN 0.1 AND 3, format('lock_timeout_ends_an_endless_wait: %s, %s s', result, took))
    FROM pg_temp.timed('{"id": 1}', ', NULL');
SELECT ok(result = '55P03' AND took BETWEEN 0.1 AND 3, format('and_one_without_argument: %s, %s s', result, took))
    FROM pg_temp.timed('{"id": 1}', '');
SELECT ok(result = '55P03' AND took BETWEEN 0.1 AND 3, format('and_a_longer_one: %s, %s s', result, took))
    FROM pg_temp.timed('{"id": 1}', ', ''20 s''');
SET lock_timeout = '20 s';
SELECT ok(result = 'busy' AND took BETWEEN 0.1 AND 3, format('shorter_wait_is_busy: %s, %s s', result, took))
    FROM pg_temp.timed('{"id": 1}', ', ''100 ms''');
SELECT is(current_setting('lock_timeout'), '20s', 'lock_timeout_is_as_it_was');
SET lock_timeout = '5 ms';
SELECT is(pg_temp.locked('{"id": 1}', ', ''0''') ->> 'outcome', 'busy', 'no_wait_needs_no_lock_timeout');
RESET lock_timeout;
SET statement_timeout = '2 s';
SELECT ok(result = '57014' AND took < 5, format('statement_timeout_ends_the_wait: %s, %s s', result, took))
    FROM pg_temp.timed('{"id": 1}', ', ''20 s''');
SET statement_timeout = '30 s';
-- Busy is an answer: the transaction goes on, and what it locked before stays locked.
BEGIN;
INSERT INTO row_lock.entries VALUES (7, NULL);
SELECT is((SELECT string_agg(outcome, ' ') FROM unnest('{1,3,7,2}'::int[]) AS id, pessimistic_lock('row_lock.accounts',
    jsonb_build_object('id', id), '0')),
    'busy busy not_found busy', 'many_in_one_statement');
SELECT outcome FROM pessimistic_lock('row_lock.accounts', '{"id": 1}', '50 ms');
SELECT is((SELECT count(*) FROM row_lock.entries WHERE id = 7), 1::bigint, 'busy_is_no_error');
COMMIT;
SELECT is((SELECT count(*) FROM row_lock.entries WHERE id = 7), 1::bigint, 'and_rolls_nothing_back');
COMMIT PREPARED 'idem pgtap lock';
SELECT is(pg_temp.locked('{"id": 3}', ', ''0''') #> '{row_data,balance}', '33', 'row_as_the_other_left_it');
SELECT is(pg_temp.locked('{"id": 5}', ', ''0''') ->> 'outcome', 'locked', 'row_that_the_other_made');
BEGIN;
DELETE FROM row_lock.accounts WHERE id = 5;
PREPARE TRANSACTION 'idem pgtap lock';
SELECT is(pg_temp.locked('{"id": 5}', ', ''0''') ->> 'outcome', 'busy', 'row_that_the_other_is_deleting');
COMMIT PREPARED 'idem pgtap lock';
SELECT is(pg_temp.locked('{"id": 5}', ', ''0''') ->> 'outcome', 'not_found', 'and_has_deleted');
\else
SELECT skip(22, 'max_prepared_transactions is 0');
\endif

DROP SCHEMA row_lock CASCADE;
SELECT * FROM finish();
