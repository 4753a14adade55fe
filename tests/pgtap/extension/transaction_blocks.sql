-- Calls whose effect ends with their transaction: alone in a transaction they protect nothing, so that they are 25P01 at the commit.
\ir ../include/helpers.psql
SELECT plan(33);
CALL pg_temp.clean('block:');

SET client_min_messages = warning;
DROP SCHEMA IF EXISTS tap_block CASCADE;
CREATE SCHEMA tap_block;
CREATE TABLE tap_block.item (id int PRIMARY KEY, note text);
INSERT INTO tap_block.item SELECT n FROM generate_series(1, 3) n;
CREATE FUNCTION tap_block.begin_in_sql(key text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT outcome FROM idem.idem_begin(key));
END $$;
SELECT idem_lock('block:lock', '1 h') AS fence \gset
\set ON_ERROR_STOP off

-- A driver under autocommit.
SELECT outcome FROM idem_begin('block:begin');
SELECT is(:'SQLSTATE'::text, '25P01', 'begin_alone');
SELECT is(:'LAST_ERROR_MESSAGE'::text, 'idem_begin() can only be used in transaction blocks', 'message_names_the_function');
SELECT is((SELECT count(*) FROM idem_lookup('block:begin')), 0::bigint, 'and_is_undone');
SELECT idem_begin('block:begin');
SELECT is(:'SQLSTATE'::text, '25P01', 'begin_in_a_target_list');
SELECT action FROM idem_http_begin('block', 'POST', '/', 'block:http');
SELECT is(:'SQLSTATE'::text, '25P01', 'http_begin_alone');
SELECT idem_serialize('block:serialize');
SELECT is(:'SQLSTATE'::text, '25P01', 'serialize_alone');
SELECT idem_assert_fence('block:lock', :fence);
SELECT is(:'SQLSTATE'::text, '25P01', 'assert_fence_alone');
SELECT outcome FROM pessimistic_lock('tap_block.item', '{"id": 1}');
SELECT is(:'SQLSTATE'::text, '25P01', 'pessimistic_lock_alone');
SELECT outcome FROM pessimistic_lock_many('tap_block.item', ARRAY['{"id": 1}']::jsonb[]);
SELECT is(:'SQLSTATE'::text, '25P01', 'pessimistic_lock_many_alone');
PREPARE begin_prepared AS SELECT outcome FROM idem_begin($1);
EXECUTE begin_prepared('block:prepared');
SELECT is(:'SQLSTATE'::text, '25P01', 'prepared_begin_alone');
WITH t AS (SELECT outcome FROM idem_begin('block:with')) SELECT outcome FROM t;
SELECT is(:'SQLSTATE'::text, '25P01', 'begin_within_a_reading_with');
SELECT (SELECT outcome FROM idem_begin('block:subselect'));
SELECT is(:'SQLSTATE'::text, '25P01', 'begin_in_a_subselect');
SELECT outcome FROM idem_begin('block:wal'), (SELECT count(*) FROM tap_block.item) AS reads;
SELECT is(:'SQLSTATE'::text, '25P01', 'begin_beside_reads');

-- What has work, or needs none.
SELECT outcome FROM idem_begin('block:leased', lease => '1 min');
SELECT is(:'SQLSTATE'::text, '00000', 'leased_begin');
SELECT idem_claim('block:claim');
SELECT is(:'SQLSTATE'::text, '00000', 'claim_means_at_most_once');
SELECT outcome FROM idem_execute('block:execute', 'SELECT 1');
SELECT is(:'SQLSTATE'::text, '00000', 'execute');
SELECT outcome FROM idem_begin('block:execute');
SELECT is(:'SQLSTATE'::text, '00000', 'begin_of_what_is_done');
SELECT outcome FROM pessimistic_lock('tap_block.item', '{"id": 9}');
SELECT is(:'SQLSTATE'::text, '00000', 'lock_of_no_row');
SELECT outcome FROM pessimistic_lock_many('tap_block.item', ARRAY['{"id": 9}', '{"id": 8}']::jsonb[]);
SELECT is(:'SQLSTATE'::text, '00000', 'lock_of_no_rows');
SELECT outcome FROM pessimistic_lock_many('tap_block.item', '{}');
SELECT is(:'SQLSTATE'::text, '00000', 'lock_of_an_empty_list');
SELECT action FROM idem_http_begin('block', 'GET', '/', NULL);
SELECT is(:'SQLSTATE'::text, '00000', 'http_request_without_a_key');
BEGIN;
SELECT outcome FROM idem_begin('block:explicit');
COMMIT;
SELECT is(:'SQLSTATE'::text, '00000', 'explicit_block');
SELECT outcome FROM idem_begin('block:implicit') \; SELECT 1;
SELECT is(:'SQLSTATE'::text, '00000', 'implicit_block');
SELECT 1 \; SELECT outcome FROM idem_begin('block:implicit last');
SELECT is(:'SQLSTATE'::text, '00000', 'implicit_block_that_ends_with_it');
WITH t AS (SELECT outcome FROM idem_begin('block:insert')) INSERT INTO tap_block.item SELECT 10 FROM t WHERE outcome = 'acquired';
SELECT is(:'SQLSTATE'::text, '00000', 'one_statement_that_claims_and_works');
WITH t AS (SELECT outcome FROM idem_begin('block:modify')), made AS (INSERT INTO tap_block.item SELECT 11 FROM t RETURNING id) SELECT id FROM made;
SELECT is(:'SQLSTATE'::text, '00000', 'data_modifying_with');
SELECT tap_block.begin_in_sql('block:function');
SELECT is(:'SQLSTATE'::text, '00000', 'within_a_function');
DO $$ BEGIN PERFORM idem.idem_begin('block:do'); END $$;
SELECT is(:'SQLSTATE'::text, '00000', 'within_a_do_block');
SELECT outcome, (conditional_update('tap_block.item', '{"id": 1}', '{"id": 1}', '{"note": "x"}')).outcome AS work FROM idem_begin('block:work');
SELECT is(:'SQLSTATE'::text, '00000', 'select_that_works_itself');
SELECT is((SELECT count(*) FROM unnest('{explicit,implicit,implicit last,insert,modify,function,do,work}'::text[]) k, idem_lookup('block:' || k)), 8::bigint,
    'those_claims_stand');

-- The error leaves nothing in the session.
SELECT outcome FROM idem_begin('block:again');
SELECT 1;
SELECT is(:'SQLSTATE'::text, '00000', 'next_statement_is_as_ever');
BEGIN;
SAVEPOINT s;
SELECT outcome FROM idem_begin('block:savepoint');
ROLLBACK TO s;
COMMIT;
SELECT is(:'SQLSTATE'::text, '00000', 'savepoint_in_a_block');
SELECT is((SELECT string_agg(key, ', ') FROM idem_keys WHERE key IN ('block:begin', 'block:http', 'block:prepared', 'block:with', 'block:subselect', 'block:wal', 'block:again')), NULL,
    'no_refused_claim_stands');

\set ON_ERROR_STOP on
DROP SCHEMA tap_block CASCADE;
CALL pg_temp.clean('block:');
SELECT * FROM finish();
