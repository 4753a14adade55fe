-- idem_execute: the statement runs with the caller's search_path, privileges and row-level security.
\ir ../include/helpers.psql
SELECT plan(17);
CALL pg_temp.clean('caller:');

-- Files that grant take turns: two sessions cannot change one function's privileges at the same time.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE SCHEMA tap_one;
CREATE SCHEMA tap_two;
CREATE TABLE tap_one.t (a int);
CREATE TABLE tap_two.t (a text);
CREATE ROLE tap_caller;
CREATE ROLE tap_reader;
GRANT USAGE ON SCHEMA idem, tap_one TO tap_caller, tap_reader;
SELECT idem_grant('tap_caller');
SELECT idem_grant('tap_reader');

-- search_path.
SET LOCAL search_path = tap_one, idem, tap;
SELECT is(t.response, '[{"a": 1}]', 'unqualified_name_is_looked_up_in_the_callers_path')
  FROM idem.idem_execute('caller:1', 'INSERT INTO t VALUES ($1) RETURNING a', '[1]') t;
SET LOCAL search_path = tap_two, idem, tap;
SELECT is(t.response, '[{"a": "1"}]', 'same_text_under_another_path_is_another_statement')
  FROM idem.idem_execute('caller:2', 'INSERT INTO t VALUES ($1) RETURNING a', '[1]') t;
SELECT is(t.response, '[{"search_path": "tap_two, idem, tap"}]', 'path_is_visible_to_the_statement')
  FROM idem.idem_execute('caller:3', $$ SELECT current_setting('search_path') AS search_path $$) t;
SET LOCAL search_path = idem, tap, public;
SELECT is((SELECT count(*) FROM tap_one.t) || ' ' || (SELECT count(*) FROM tap_two.t), '1 1', 'each_table_got_its_row');

CREATE FUNCTION tap_one.within(key text) RETURNS jsonb LANGUAGE sql SET search_path = tap_one
AS $$ SELECT response FROM idem.idem_execute(key, 'SELECT a FROM t') $$;
SELECT is(tap_one.within('caller:4'), '[{"a": 1}]', 'path_of_the_calling_function');

CREATE FUNCTION tap_one.path_of_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.a := length(current_setting('search_path'));
    RETURN NEW;
END $$;
CREATE TRIGGER path BEFORE INSERT ON tap_one.t FOR EACH ROW EXECUTE FUNCTION tap_one.path_of_trigger();
SELECT is(t.response, jsonb_build_array(jsonb_build_object('a', length(current_setting('search_path')))),
    'triggers_see_the_callers_path') FROM idem_execute('caller:5', 'INSERT INTO tap_one.t VALUES (0) RETURNING a') t;
DROP TRIGGER path ON tap_one.t;

-- Role.
SELECT is(
    pg_temp.state_as('tap_caller', $$ SELECT * FROM idem.idem_execute('caller:6', 'INSERT INTO tap_one.t VALUES (2)') $$),
    '42501', 'statement_has_no_more_privileges_than_its_caller');
SELECT is(
    pg_temp.state_as('tap_caller', $$ SELECT * FROM idem.idem_execute('caller:7', 'SELECT * FROM idem.idem_keys') $$),
    '42501', 'key_table_is_closed_to_the_statement');
SELECT is(
    pg_temp.state_as('tap_caller', $$ SELECT * FROM idem.idem_execute('caller:8', 'DELETE FROM idem.idem_keys') $$),
    '42501', 'and_cannot_be_changed_by_it');
GRANT SELECT, INSERT ON tap_one.t TO tap_caller, tap_reader;
SELECT is(
    pg_temp.state_as('tap_caller', $$ SELECT * FROM idem.idem_execute('caller:6', 'INSERT INTO tap_one.t VALUES (2)') $$),
    'ok', 'refused_statement_left_its_key_free');
CREATE FUNCTION pg_temp.executed_as(role name, key text, statement text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    result jsonb;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    SELECT response INTO result FROM idem.idem_execute(key, statement);
    RESET ROLE;
    RETURN result;
END $$;
SELECT is(pg_temp.executed_as('tap_caller', 'caller:9', 'SELECT current_user'), '[{"current_user": "tap_caller"}]',
    'statement_runs_as_the_current_role');
-- Row-level security, with one text for both roles.
ALTER TABLE tap_one.t ENABLE ROW LEVEL SECURITY;
CREATE POLICY small ON tap_one.t TO tap_caller USING (a < 2) WITH CHECK (a < 2);
CREATE POLICY large ON tap_one.t TO tap_reader USING (a >= 2);
SELECT is(pg_temp.executed_as('tap_caller', 'caller:12', 'SELECT max(a) FROM tap_one.t'), '[{"max": 1}]', 'policy_of_one_role');
SELECT ok((pg_temp.executed_as('tap_reader', 'caller:13', 'SELECT min(a) FROM tap_one.t') #>> '{0,min}')::int >= 2, 'policy_of_the_other');
SELECT ok((pg_temp.executed_as('tap_reader', 'caller:14', 'SELECT max(a) FROM tap_one.t') #>> '{0,max}')::int >= 2,
    'same_text_is_planned_for_each_role');
SELECT is((SELECT response FROM idem_execute('caller:15', 'SELECT min(a) FROM tap_one.t')), '[{"min": 1}]', 'superuser_sees_all');
SELECT is(
    pg_temp.state_as('tap_caller', $$ SELECT * FROM idem.idem_execute('caller:16', 'INSERT INTO tap_one.t VALUES (3)') $$),
    '42501', 'policy_checks_what_is_written');
ROLLBACK;
SELECT is(idem_claim('caller:1'), true, 'executions_are_rolled_back_with_their_transaction');

CALL pg_temp.clean('caller:');
SELECT * FROM finish();
