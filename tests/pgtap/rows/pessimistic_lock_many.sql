-- pessimistic_lock_many: several rows in one global order, answered in the order in which they were asked for.
\set schema row_lock_many
\ir ../include/row_flows.psql
SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE starts_with(gid, 'idem pgtap ') \gexec
SELECT plan(30);
SET statement_timeout = '30 s';
CREATE TABLE row_lock_many.accounts (id int PRIMARY KEY, iban text NOT NULL UNIQUE, country text NOT NULL, number int NOT NULL,
    balance int, UNIQUE (country, number));
INSERT INTO row_lock_many.accounts SELECT n, 'iban' || n, 'c' || n % 3, n, 100 - n FROM generate_series(1, 50) n;
CREATE FUNCTION pg_temp.many(keys text, rest text = '') RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answers(format('SELECT * FROM pessimistic_lock_many(''row_lock_many.accounts'', %s%s)', keys, rest))
$$;
-- Each answer as its outcome and the row's id.
CREATE FUNCTION pg_temp.brief(answers jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT CASE jsonb_typeof(answers) WHEN 'array'
           THEN (SELECT coalesce(string_agg(concat(a ->> 'outcome', ' ' || (a #>> '{row_data,id}')), ', ' ORDER BY n), '')
               FROM jsonb_array_elements(answers) WITH ORDINALITY AS e (a, n))
           ELSE answers #>> '{}' END
$$;
-- The rows that a transaction in progress has locked. (A test cluster has not used up its first 2^32 transactions.)
CREATE FUNCTION pg_temp.locked_rows() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT string_agg(id::text, ' ' ORDER BY id) FROM row_lock_many.accounts WHERE xmax <> '0'
        AND pg_xact_status(xmax::text::xid8) = 'in progress');
END $$;

SELECT is(pg_temp.many($$ '{"{\"id\": 2}","{\"id\": 1}"}' $$),
    '[{"outcome": "locked", "row_data": {"id": 2, "iban": "iban2", "country": "c2", "number": 2, "balance": 98}},
      {"outcome": "locked", "row_data": {"id": 1, "iban": "iban1", "country": "c1", "number": 1, "balance": 99}}]',
          'rows_in_the_order_asked_for');
SELECT is(pg_temp.many($$ ARRAY['{"id": 99}', '{"id": 1}', '{"id": 0}']::jsonb[] $$),
    '[{"outcome": "not_found", "row_data": null}, {"outcome": "locked", "row_data": {"id": 1, "iban": "iban1", '
        '"country": "c1", "number": 1, "balance": 99}},
      {"outcome": "not_found", "row_data": null}]', 'rows_that_are_not_there_are_answered_too');
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 3}', '{"id": 1}', '{"id": 3}', '{"id": "3"}']::jsonb[] $$)),
    'locked 3, locked 1, locked 3, locked 3', 'same_row_twice');
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"iban": "iban5"}', '{"id": 5}', '{"country": "c1", "number": 4}',
    '{"number": 5, "country": "c2"}']::jsonb[] $$)),
    'locked 5, locked 5, locked 4, locked 5', 'keys_of_different_indexes');
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"iban": "x"}', '{"id": 5}', '{"country": "c1", "number": 5}', '{"id": 99}']::jsonb[] $$)),
    'not_found, locked 5, not_found, not_found', 'keys_of_different_indexes_that_are_not_there');
SELECT is(pg_temp.brief(pg_temp.many($$ '{}' $$)), '', 'no_keys');
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 1}']::jsonb[], NULL $$)) || ', '
    || pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 1}']::jsonb[], '0' $$)) || ', '
          || pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 1}']::jsonb[], wait => '1 s' $$)), 'locked 1, locked 1, locked 1', 'any_wait');
SELECT is(pg_temp.brief(pg_temp.many($$ '[7:8]={"{\"id\": 7}","{\"id\": 8}"}' $$)), 'locked 7, locked 8', 'array_with_other_bounds');
BEGIN;
SELECT is(
    (SELECT count(*) FROM pessimistic_lock_many('row_lock_many.accounts', (SELECT array_agg(jsonb_build_object('id',
        n % 60 + 1)) FROM generate_series(1, 6000) n)) WHERE outcome = 'locked'),
    5000::bigint, 'thousands_of_keys');
COMMIT;
BEGIN;
SELECT is(
    (SELECT string_agg((row_data ->> 'id') || '=' || n, ' ') FROM pessimistic_lock_many('row_lock_many.accounts',
        (SELECT array_agg(jsonb_build_object('id', n) ORDER BY n DESC) FROM generate_series(1,
            50) n)) WITH ORDINALITY AS l (outcome, row_data, n) WHERE (row_data ->> 'id')::int <> 51 - n),
    NULL, 'answers_are_in_the_order_of_the_array');
COMMIT;

-- The longest key that an index can have, and the same as the main key of a row that is named by another.
SELECT format('CREATE TABLE row_lock_many.longest (%s, name text NOT NULL UNIQUE, PRIMARY KEY (%s))',
        string_agg(format('c%s int', n), ', '), string_agg('c' || n, ', '))
  FROM generate_series(1, current_setting('max_index_keys')::int) n \gexec
SELECT format('INSERT INTO row_lock_many.longest VALUES (%s, ''one''), (%s, ''two'')', string_agg('1', ', '),
        string_agg(CASE WHEN n < current_setting('max_index_keys')::int THEN '1' ELSE '2' END, ', '))
  FROM generate_series(1, current_setting('max_index_keys')::int) n \gexec
BEGIN;
SELECT is((SELECT string_agg(outcome || ' ' || (row_data ->> 'name'), ', ') FROM pessimistic_lock_many('row_lock_many.longest',
        (SELECT array_agg(to_jsonb(l) - 'name' ORDER BY name DESC) FROM row_lock_many.longest l))),
    'locked two, locked one', 'longest_key');
COMMIT;
BEGIN;
SELECT is((SELECT string_agg(outcome || ' ' || (row_data ->> 'name'), ', ')
      FROM pessimistic_lock_many('row_lock_many.longest', ARRAY['{"name": "two"}', '{"name": "one"}']::jsonb[])),
    'locked two, locked one', 'main_key_is_the_longest');
COMMIT;
BEGIN;
SELECT count(*) FROM pessimistic_lock_many('row_lock_many.accounts', ARRAY['{"iban": "iban9"}', '{"id": 2}', '{"id": 9}',
    '{"id": 99}']::jsonb[]);
SELECT is(pg_temp.locked_rows(), '2 9', 'these_rows_are_locked_and_no_others');
SELECT is((SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'), 0::bigint, 'no_advisory_lock');
ROLLBACK;
-- All of them are locked, also when the caller reads but a part of the answers.
BEGIN;
SELECT outcome FROM pessimistic_lock_many('row_lock_many.accounts', ARRAY['{"id": 3}', '{"id": 2}', '{"id": 1}']::jsonb[]) LIMIT 1;
SELECT is(pg_temp.locked_rows(), '1 2 3', 'reading_one_answer_locks_all');
ROLLBACK;

-- Errors.
SELECT is(pg_temp.surprises(ARRAY[
    ['pessimistic_lock_many(NULL, ''{}'')', '22004'], ['pessimistic_lock_many(''row_lock_many.accounts'', NULL)', '22004'],
    ['pessimistic_lock_many(''row_lock_many.accounts'', ''{NULL}'')', '22004'],
        ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"{\"id\": 1}",NULL}'')', '22004'],
    ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"{\"id\": 1}","{\"id\": null}"}'')', '22004'],
    ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"{\"id\": 1}","[]"}'')', '22023'],
        ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"null"}'')', '22023'],
    ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"{\"id\": 1}","{}"}'')', '42P10'],
        ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"{\"country\": \"c1\"}"}'')', '42P10'],
    ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"{\"id\": 1}","{\"x\": 1}"}'')', '42703'],
        ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"{\"id\": 1}","{\"id\": \"x\"}"}'')', '22P02'],
    ['pessimistic_lock_many(''row_lock_many.accounts'', ''{"{\"id\": 1}"}'', ''-1 s'')', '22023'],
        ['pessimistic_lock_many(''row_lock_many.accounts'', ''{}'', ''-1 s'')', '22023']]), NULL, 'bad_arguments');

-- Without a primary key the first usable unique index gives the order; without one there is no key to begin with.
CREATE TABLE row_lock_many.keyless (a int, b int NOT NULL, c text NOT NULL);
INSERT INTO row_lock_many.keyless VALUES (1, 1, 'x'), (2, 2, 'y'), (NULL, 3, 'z');
SELECT is(pg_temp.state_of($$ SELECT * FROM pessimistic_lock_many('row_lock_many.keyless', '{"{\"b\": 1}"}') $$), '42P10',
    'no_unique_index');
CREATE UNIQUE INDEX ON row_lock_many.keyless (a);
CREATE UNIQUE INDEX ON row_lock_many.keyless (b) WHERE b > 0;
SELECT is(pg_temp.state_of($$ SELECT * FROM pessimistic_lock_many('row_lock_many.keyless', '{"{\"b\": 1}"}') $$), '42P10', 'no_usable_one');
CREATE UNIQUE INDEX ON row_lock_many.keyless (c);
CREATE UNIQUE INDEX ON row_lock_many.keyless (b);
SELECT is(pg_temp.brief(pg_temp.answers($$ SELECT outcome, row_data - 'a' || jsonb_build_object('id',
    row_data -> 'b') AS row_data FROM pessimistic_lock_many('row_lock_many.keyless',
        '{"{\"b\": 2}","{\"c\": \"x\"}","{\"b\": 3}"}') $$)), 'locked 2, locked 1, locked 3', 'unique_indexes_without_a_primary_key');

-- Equal keys in another spelling are one row.
CREATE TABLE row_lock_many.spelled (id numeric, at timestamptz, PRIMARY KEY (id, at));
INSERT INTO row_lock_many.spelled VALUES (1.50, '2024-01-01 00:00Z');
SELECT is(pg_temp.answers($$ SELECT outcome FROM pessimistic_lock_many('row_lock_many.spelled',
        ARRAY['{"id": 1.5, "at": "2024-01-01 00:00Z"}', '{"at": "2024-01-01 01:00+01", "id": "1.500"}']::jsonb[], '0') $$),
    '[{"outcome": "locked"}, {"outcome": "locked"}]', 'keys_in_another_spelling');

-- Partitions, heirs, read-only transactions.
CREATE TABLE row_lock_many.parted (id int PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE row_lock_many.parted_0 PARTITION OF row_lock_many.parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE row_lock_many.parted_1 PARTITION OF row_lock_many.parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO row_lock_many.parted SELECT generate_series(1, 20);
BEGIN;
SELECT is(
    (SELECT string_agg(row_data ->> 'id', ' ' ORDER BY n) FROM pessimistic_lock_many('row_lock_many.parted',
        (SELECT array_agg(jsonb_build_object('id', n) ORDER BY n DESC) FROM generate_series(0,
            5) n)) WITH ORDINALITY AS l (outcome, row_data, n)), '5 4 3 2 1', 'rows_of_a_partitioned_table');
COMMIT;
CREATE TABLE row_lock_many.heir () INHERITS (row_lock_many.accounts);
INSERT INTO row_lock_many.heir VALUES (1, 'heir', 'c', 1), (77, 'heir', 'c', 77);
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 77}', '{"id": 1}']::jsonb[] $$)), 'not_found, locked 1',
    'heirs_are_tables_of_their_own');
BEGIN READ ONLY;
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 1}']::jsonb[] $$)), '25006', 'read_only_transaction');
ROLLBACK;

-- Another holder.
SELECT current_setting('max_prepared_transactions')::int > 0 AS possible \gset
\if :possible
BEGIN;
SELECT count(*) FROM pessimistic_lock_many('row_lock_many.accounts', ARRAY['{"id": 4}', '{"id": 2}']::jsonb[]);
PREPARE TRANSACTION 'idem pgtap lock many';
SELECT is(pg_temp.many($$ ARRAY['{"id": 2}']::jsonb[], '0' $$), '[{"outcome": "busy", "row_data": null}]', 'locked_row_is_busy');
BEGIN;
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 3}', '{"id": 4}', '{"iban": "iban2"}', '{"id": 99}', '{"id": 1}',
    '{"id": 4}']::jsonb[], '0' $$)),
    'locked 3, busy, busy, not_found, locked 1, busy', 'each_key_has_its_answer');
ROLLBACK;
BEGIN;
SELECT count(*) FROM pessimistic_lock_many('row_lock_many.accounts', ARRAY['{"id": 3}', '{"id": 4}', '{"id": 1}']::jsonb[], '0');
SELECT is(pg_temp.locked_rows(), '1 2 3 4', 'what_is_said_to_be_locked_is');
ROLLBACK;
SELECT clock_timestamp() AS start \gset
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 2}']::jsonb[], '300 ms' $$)), 'busy', 'wait_that_is_used_up');
SELECT ok(clock_timestamp() - :'start'::timestamptz BETWEEN '0.3 s' AND '3 s', 'is_waited_for');
SET lock_timeout = '100 ms';
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 1}', '{"id": 2}']::jsonb[] $$)) || ' '
    || pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 1}', '{"id": 2}']::jsonb[], '20 s' $$)),
    '55P03 55P03', 'lock_timeout_is_the_users');
RESET lock_timeout;
ROLLBACK PREPARED 'idem pgtap lock many';
SELECT is(pg_temp.brief(pg_temp.many($$ ARRAY['{"id": 4}', '{"id": 2}']::jsonb[], '0' $$)), 'locked 4, locked 2',
    'rows_are_free_afterwards');
\else
SELECT skip(7, 'max_prepared_transactions is 0');
\endif

DROP SCHEMA row_lock_many CASCADE;
SELECT * FROM finish();
