-- What an ALTER of one of the extension's objects does: the functions that need the object raise 55000 or answer right, and those of
-- other features do not notice. All of it is rolled back.
\ir ../include/helpers.psql
SELECT plan(23);
CALL pg_temp.clean('altered:');
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));
SET lock_timeout = '20 s';
SELECT idem_claim('altered:done');

CREATE FUNCTION pg_temp.states(VARIADIC calls text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(pg_temp.state_of('SELECT * FROM ' || call), ' ' ORDER BY n) FROM unnest(calls) WITH ORDINALITY AS c (call, n)
$$;

-- Sessions of other tests end with functions of their own on these types, while ALTER TYPE looks such functions up: PostgreSQL then
-- fails with "cache lookup failed". They are given a moment to end.
DO $$ BEGIN
    FOR i IN 1 .. 500 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
                               WHERE d.classid = 'pg_proc'::regclass AND d.refobjid IN ('idem_ticket'::regtype, 'idem_key_info'::regtype)
                                 AND p.pronamespace IN (SELECT oid FROM pg_namespace WHERE starts_with(nspname, 'pg_temp_'))
                                 AND p.pronamespace <> pg_my_temp_schema());
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;

-- The types of answers. A row of another shape than the library fills in would be read past its end.
BEGIN;
ALTER TYPE idem_key_info ADD ATTRIBUTE added text;
SELECT is(pg_temp.states($$ idem_lookup('altered:done') $$), '55000', 'lookup_with_one_more_column');
ROLLBACK;
BEGIN;
ALTER TYPE idem_key_info ALTER ATTRIBUTE attempt TYPE text;
SELECT is(pg_temp.states($$ idem_lookup('altered:done') $$), '55000', 'lookup_with_a_column_of_another_type');
ROLLBACK;
BEGIN;
ALTER TYPE idem_ticket ADD ATTRIBUTE added jsonb;
SELECT is(pg_temp.states($$ idem_begin('altered:k') $$, $$ idem_execute('altered:k', 'SELECT 1') $$), '55000 55000',
    'ticket_with_one_more_column');
ROLLBACK;
BEGIN;
ALTER TYPE idem_ticket ALTER ATTRIBUTE attempt TYPE text;
SELECT is(pg_temp.states($$ idem_begin('altered:k') $$, $$ idem_execute('altered:k', 'SELECT 1') $$), '55000 55000',
    'ticket_with_a_column_of_another_type');
ROLLBACK;
BEGIN;
ALTER TYPE idem_ticket DROP ATTRIBUTE retry_after_ms;
SELECT is(pg_temp.states($$ idem_begin('altered:k') $$, $$ idem_execute('altered:k', 'SELECT 1') $$), '55000 55000',
    'ticket_without_its_last_column');
ROLLBACK;
BEGIN;
ALTER TYPE idem_http_answer ALTER ATTRIBUTE status TYPE text;
SELECT is(pg_temp.states($$ idem_http_begin('altered:s', 'POST', '/', 'altered:http') $$,
                         $$ idem_http_begin('altered:s', 'GET', '/', NULL) $$), '55000 55000',
    'http_answer_with_a_column_of_another_type');
ROLLBACK;
BEGIN;
ALTER TYPE idem_outcome RENAME VALUE 'completed' TO 'finished';
SELECT ok(pg_temp.state_of($$ SELECT idem_try_claim('altered:done') $$) IN ('55000', 'ok'), 'renamed_outcome');
ROLLBACK;
SELECT is((SELECT outcome FROM idem_begin('altered:done')), 'completed', 'answers_are_whole_after_the_rollbacks');

-- Functions of a newer version may have more columns than the library knows.
BEGIN;
ALTER EXTENSION idem DROP FUNCTION idem_id_parts(bigint);
DROP FUNCTION idem_id_parts(bigint) CASCADE;
CREATE FUNCTION idem.idem_id_parts(id bigint, OUT at timestamptz, OUT node integer, OUT seq integer, OUT added text)
    RETURNS record LANGUAGE c AS '$libdir/idem';
SELECT is(pg_temp.states('idem_id_parts(1)'), '55000', 'function_with_one_more_column');
ROLLBACK;

-- Primary keys that are not quite those of the installation.
BEGIN;
ALTER TABLE idem_keys DROP CONSTRAINT idem_keys_pkey, ADD PRIMARY KEY (scope, key) INCLUDE (attempt);
SELECT is(pg_temp.states($$ idem_claim('altered:k') $$, $$ idem_claim_many('{altered:k}') $$, $$ idem_lookup('altered:done') $$),
    '55000 55000 55000', 'primary_key_with_included_columns');
ROLLBACK;
BEGIN;
ALTER TABLE idem_outbox_parked DROP CONSTRAINT idem_outbox_parked_pkey, ADD PRIMARY KEY (id) INCLUDE (topic);
SELECT is(pg_temp.states($$ idem_outbox_retry('{1}') $$), '55000', 'primary_key_of_dead_letters_with_included_columns');
ROLLBACK;

-- A parent's owner could delete keys.
BEGIN;
CREATE TABLE idem.parent (scope text COLLATE "C");
ALTER TABLE idem_keys INHERIT idem.parent;
SELECT is(pg_temp.states($$ idem_claim('altered:k') $$, $$ idem_claim_many('{altered:k}') $$, $$ idem_lookup('altered:done') $$,
    $$ idem_lock('altered:lock') $$), '55000 55000 55000 ok', 'keys_that_inherit');
ROLLBACK;
BEGIN;
CREATE TABLE idem.parent (topic text COLLATE "C");
ALTER TABLE idem_outbox INHERIT idem.parent;
SELECT is(pg_temp.states($$ idem_publish('altered:t', '1') $$, $$ idem_claim('altered:k') $$), '55000 ok', 'outbox_that_inherits');
ROLLBACK;

-- Foreign keys are kept by triggers, which neither a claim nor a sweep fires.
BEGIN;
CREATE TABLE idem.referencing (scope text COLLATE "C", key text COLLATE "C", FOREIGN KEY (scope, key) REFERENCES idem.idem_keys);
SELECT is(pg_temp.states($$ idem_claim('altered:k') $$, $$ idem_forget('altered:done') $$), '55000 55000', 'foreign_key_to_the_keys');
ROLLBACK;
BEGIN;
CREATE TABLE idem.referenced (scope text COLLATE "C" PRIMARY KEY);
INSERT INTO idem.referenced SELECT DISTINCT scope FROM idem.idem_keys;
ALTER TABLE idem_keys ADD FOREIGN KEY (scope) REFERENCES idem.referenced;
SELECT is(pg_temp.states($$ idem_claim('altered:k', scope => 'altered:unknown') $$), '55000', 'foreign_key_of_the_keys');
ROLLBACK;
SELECT is(idem_claim('altered:done'), false, 'keys_are_whole_after_the_rollbacks');

-- A fault in one feature's table is no other feature's.
CREATE FUNCTION pg_temp.others(but text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', feature, state), '; ')
      FROM (VALUES ('keys', $call$ idem_claim('altered:keys') $call$), ('tokens', $call$ idem_token_redeem(idem_token_issue()) $call$),
                   ('locks', $call$ idem_lock('altered:lock') $call$), ('counters', $call$ idem_hit('altered:hit') $call$),
                   ('rates', $call$ idem_allow('altered:rate', 1, 1) $call$), ('ids', 'idem_next_id()'),
                   ('outbox', $call$ idem_publish('altered:t', '1') $call$), ('outbox', $call$ idem_outbox_take('altered:t') $call$),
                   ('requests', $call$ idem_verify_request('{}', '00', 'k', now(), 'altered:n') $call$),
                   ('webhooks', $call$ idem_webhook_receive('altered:s', '{}', '') $call$),
                   ('machines', $call$ idem_machine_define('altered:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}') $call$)) AS used (feature, call),
           pg_temp.state_of('SELECT * FROM ' || call) AS state
     WHERE feature <> but AND state <> 'ok'
$$;
BEGIN;
ALTER TABLE idem_transition_log ADD added text;
SELECT is(pg_temp.others('log'), NULL, 'column_added_to_the_log');
ROLLBACK;
BEGIN;
ALTER TABLE idem_keys RENAME TO idem_keys_of_old;
SELECT is(pg_temp.states($$ idem_lock('altered:lock') $$, $$ idem_allow('altered:rate', 1, 1) $$, $$ idem_publish('altered:t', '1') $$),
    'ok ok ok', 'keys_renamed');
ROLLBACK;
BEGIN;
ALTER TABLE idem_outbox ADD added int;
SELECT is(pg_temp.others('outbox'), NULL, 'column_added_to_the_outbox');
ROLLBACK;
BEGIN;
ALTER TABLE idem_rates SET UNLOGGED;
SELECT is(pg_temp.others('rates'), NULL, 'rates_not_logged');
ROLLBACK;
BEGIN;
DROP TRIGGER idem_definitions_changed ON idem_machines;
ALTER TABLE idem_machines RENAME definition TO graph;
SELECT is(pg_temp.others('machines'), NULL, 'machines_altered');
SELECT is(pg_temp.states($$ idem_machine_define('altered:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}') $$), '55000', 'which_are_not_defined_then');
ROLLBACK;
SELECT is(pg_temp.others('none'), NULL, 'everything_works_after_the_rollbacks');

SELECT idem_machine_drop('altered:m') \g /dev/null
DELETE FROM idem_outbox WHERE topic = 'altered:t';
DELETE FROM idem_outbox_leases WHERE topic = 'altered:t';
CALL pg_temp.clean('altered:');
SELECT * FROM finish();
