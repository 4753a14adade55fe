-- idem_execute: an error frees the key and reaches the caller as it is.
\ir ../include/helpers.psql
SELECT plan(26);
CALL pg_temp.clean('failing:');

SET client_min_messages = warning;
DROP SCHEMA IF EXISTS tap_failing CASCADE;
CREATE SCHEMA tap_failing;
CREATE TABLE tap_failing.parent (id int PRIMARY KEY);
CREATE TABLE tap_failing.t (
    id int PRIMARY KEY CHECK (id > 0),
    parent int REFERENCES tap_failing.parent,
    later int REFERENCES tap_failing.parent DEFERRABLE INITIALLY DEFERRED,
    required int NOT NULL DEFAULT 1);
INSERT INTO tap_failing.t VALUES (1);
CREATE FUNCTION tap_failing.fail(code text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the user''s own' USING ERRCODE = code;
END $$;

-- Each statement runs with a key of its own, so that none can hide behind another.
CREATE FUNCTION pg_temp.executed(statement text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.state_of(format('SELECT * FROM idem.idem_execute(%L, %L)', 'failing:' || md5(statement), statement))
$$;

SELECT is(
    (SELECT string_agg(format('%s: %s, not %s', statement, state, code), '; ')
       FROM (VALUES
           ('INSERT INTO tap_failing.t VALUES (1)', '23505'),
           ('INSERT INTO tap_failing.t VALUES (-1)', '23514'),
           ('INSERT INTO tap_failing.t VALUES (2, 99)', '23503'),
           ('INSERT INTO tap_failing.t VALUES (2, NULL, NULL, NULL)', '23502'),
           ('SELECT 1 / 0 AS a', '22012'),
           ('SELECT tap_failing.fail(''P0001'')', 'P0001'),
           ('SELECT tap_failing.fail(''AB123'')', 'AB123'),
           ('SELECT tap_failing.fail(''40001'')', '40001'),
           ('SELECT tap_failing.fail(''40P01'')', '40P01'),
           ('SELECT tap_failing.fail(''ID001'')', 'ID001'),
           ('SELECT no_such_column', '42703'),
           ('SELECT * FROM tap_failing.no_such_table', '42P01'),
           ('SELECT tap_failing.no_such_function()', '42883'),
           ('SELEKT 1', '42601'),
           ('SELECT 1 AS a, 2 AS a', '42701'),
           ('SELECT 1, 2', '42701'),
           ('SELECT 1 AS a, 2 AS a WHERE false', '42701'),
           ('SELECT x.id, y.id FROM tap_failing.t x, tap_failing.t y', '42701'),
           ('SELECT 1 AS a; SELECT 2 AS a', '42601'),
           ('INSERT INTO tap_failing.t VALUES (50); INSERT INTO tap_failing.t VALUES (51)', '42601'),
           -- Texts that fit into parentheses of somebody else's.
           ('SELECT 1 AS a), _other AS (SELECT 2', '42601'),
           ('SELECT 1 AS a) SELECT 2 AS b', '42601'),
           ('SELECT 1 AS a) SELECT NULL::jsonb, NULL::json; INSERT INTO tap_failing.t VALUES (52); WITH _idem_rows AS (SELECT 1 AS a', '42601'),
           ('SELECT 1 AS a) SELECT 2; INSERT INTO tap_failing.t VALUES (53); --', '42601'),
           ('SELECT 1 AS a; /*', '42601'),
           -- Texts that leave a literal open.
           ('SELECT ''', '42601'),
           ('WITH z AS (SELECT $a$', '42601'),
           ('WITH z AS (SELECT $a$a$a$); INSERT INTO tap_failing.t VALUES (54) -- $a$', '42601')
       ) AS failing (statement, code), pg_temp.executed(statement) AS state
      WHERE state <> code),
    NULL, 'errors_keep_their_sqlstate');
SELECT is((SELECT count(*) FROM idem_keys WHERE starts_with(key, 'failing:')), 0::bigint, 'errors_free_the_key');
SELECT is((SELECT count(*) FROM tap_failing.t), 1::bigint, 'errors_undo_the_statement');
SELECT throws_ok($$ SELECT * FROM idem_execute('failing:message', 'SELECT tap_failing.fail(''P0001'')') $$, 'P0001', 'the user''s own',
    'errors_keep_their_message');

-- After an error the same key runs the repaired statement, in the same transaction too.
BEGIN;
SAVEPOINT before;
SELECT throws_ok($$ SELECT * FROM idem_execute('failing:retry', 'INSERT INTO tap_failing.t VALUES (1) RETURNING id') $$, '23505', NULL,
    'first_attempt_fails');
SELECT is((SELECT response FROM idem_execute('failing:retry', 'INSERT INTO tap_failing.t VALUES (2) RETURNING id')), '[{"id": 2}]',
    'second_attempt_succeeds_in_the_same_transaction');
COMMIT;
SELECT is((SELECT response FROM idem_execute('failing:retry', 'SELECT 1')), '[{"id": 2}]', 'and_is_replayed');

-- A constraint that is checked at the end of the transaction.
SELECT throws_ok($$ SELECT * FROM idem_execute('failing:deferred', 'INSERT INTO tap_failing.t VALUES (3, NULL, 99)');
                    SET CONSTRAINTS ALL IMMEDIATE $$, '23503', NULL, 'deferred_constraint_fails');
SELECT is(idem_try_claim('failing:deferred'), 'acquired', 'deferred_constraint_frees_the_key');
\setenv PGHOST :HOST
\setenv PGPORT :PORT
\setenv PGUSER :USER
\setenv PGDATABASE :DBNAME
\setenv PATH `echo "$PATH:$(pg_config --bindir)"`
\set commit `psql -XqAt -c "SELECT outcome FROM idem.idem_execute('failing:at commit', 'INSERT INTO tap_failing.t VALUES (3, NULL, 99)')" 2>&1`
SELECT matches(:'commit'::text, 'violates foreign key constraint', 'failure_of_the_commit');
SELECT is(idem_try_claim('failing:at commit'), 'acquired', 'failure_of_the_commit_frees_the_key');

-- A failure in a takeover leaves the holder in place.
SELECT fence FROM idem_begin('failing:lapsed', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT throws_ok($$ SELECT * FROM idem_execute('failing:lapsed', 'SELECT 1 / 0 AS a') $$, '22012', NULL, 'failing_takeover');
SELECT lives_ok(format($$ SELECT idem_complete('failing:lapsed', fence => %s) $$, :fence), 'failing_takeover_leaves_the_holder');

-- No statement.
SELECT throws_ok($$ SELECT * FROM idem_execute('failing:null', NULL) $$, '22004', NULL, 'null_statement');
SELECT matches(pg_temp.executed(''), '^(42601|22023)$', 'empty_statement_is_an_error');
SELECT matches(pg_temp.executed(' -- nothing'), '^(42601|22023)$', 'comment_is_no_statement');

-- Transactions are the caller's.
SELECT is(
    (SELECT string_agg(statement, ', ')
       FROM unnest(ARRAY['COMMIT', 'ROLLBACK', 'BEGIN', 'SAVEPOINT s', 'ROLLBACK TO before', 'PREPARE TRANSACTION ''x''', 'ABORT',
                         'START TRANSACTION', 'VACUUM', 'COPY tap_failing.t TO STDOUT', 'COPY tap_failing.t FROM STDIN']) AS statement,
            pg_temp.executed(statement) AS state
      WHERE state = 'ok' OR state LIKE 'XX%'),
    NULL, 'transaction_control_and_copy_are_refused');
CREATE PROCEDURE tap_failing.committing() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$;
SELECT isnt(pg_temp.executed('CALL tap_failing.committing()'), 'ok', 'procedure_that_commits_is_refused');

-- A utility statement either runs wholly or is refused wholly.
SELECT ok(state <> 'ok' AND state NOT LIKE 'XX%' AND to_regclass('tap_failing.made') IS NULL
          OR state = 'ok' AND to_regclass('tap_failing.made') IS NOT NULL, 'create_table_runs_or_is_refused: ' || state)
  FROM (SELECT pg_temp.executed('CREATE TABLE tap_failing.made (a int)') AS state OFFSET 0) AS run;
SELECT unalike(pg_temp.executed('EXPLAIN SELECT 1'), 'XX%', 'explain_is_no_internal_error');
SELECT unalike(pg_temp.executed('SHOW server_version'), 'XX%', 'show_is_no_internal_error');
SELECT unalike(pg_temp.executed('SELECT 1 AS a INTO tap_failing.into'), 'XX%', 'select_into_is_no_internal_error');
SELECT unalike(pg_temp.executed('DECLARE c CURSOR FOR SELECT 1'), 'XX%', 'cursor_is_no_internal_error');
SELECT unalike(pg_temp.executed('DROP TABLE tap_failing.parent CASCADE'), 'XX%', 'drop_is_no_internal_error');
SELECT unalike(pg_temp.executed('DO ''BEGIN END'''), 'XX%', 'do_is_no_internal_error');
SELECT is((SELECT response FROM idem_execute('failing:after all', 'SELECT 1 AS a')), '[{"a": 1}]', 'session_works_on');

DROP SCHEMA tap_failing CASCADE;
CALL pg_temp.clean('failing:');
SELECT * FROM finish();
