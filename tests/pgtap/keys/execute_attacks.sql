-- idem_execute where another role has prepared the session, or may create objects in a schema of the caller's search_path.
\ir ../include/helpers.psql
SELECT plan(7);
CALL pg_temp.clean('attack:');

BEGIN;
CREATE SCHEMA tap_attack;
CREATE TABLE tap_attack.payment (amount int);
\set statement 'INSERT INTO tap_attack.payment VALUES ($1) RETURNING amount'

-- Statements that the session has prepared, under the names that an edition may once have given.
SELECT format('PREPARE %I (int) AS SELECT jsonb_build_array(jsonb_build_object(''amount'', 99)), json_build_object(''amount'', 99)', name)
  FROM unnest(ARRAY['_idem_rows_' || md5(:'statement'), '_idem_plain_' || md5(:'statement'), '_idem_' || md5(:'statement')]) AS name \gexec
SELECT is((SELECT response FROM idem_execute('attack:planted', :'statement', '[5]')), '[{"amount": 5}]', 'prepared_statements_of_the_session_are_not_run');
SELECT is((SELECT sum(amount) FROM tap_attack.payment), 5::bigint, 'the_statement_ran');

-- An operator of a schema in the path.
CREATE FUNCTION tap_attack.none(idem_outcome, idem_outcome) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'code of another role'; END $$;
CREATE OPERATOR tap_attack.= (LEFTARG = idem_outcome, RIGHTARG = idem_outcome, FUNCTION = tap_attack.none);
SET LOCAL search_path = tap_attack, idem, tap;
SELECT is(t.response, '[{"amount": 6}]', 'operators_in_the_path_are_not_called') FROM idem.idem_execute('attack:operator', :'statement', '[6]') t;
SELECT is(t.response, '[{"amount": 6}]', 'nor_for_a_duplicate') FROM idem.idem_execute('attack:operator', :'statement', '[6]') t;
SET LOCAL search_path = idem, tap, public;

-- Values are read as the type that the parameter has now.
CREATE TABLE tap_attack.visit (at date);
SELECT idem_execute('attack:date', 'INSERT INTO tap_attack.visit VALUES ($1)', '["2026-01-01 12:34:56"]');
ALTER TABLE tap_attack.visit ALTER at TYPE timestamp;
SELECT idem_execute('attack:timestamp', 'INSERT INTO tap_attack.visit VALUES ($1)', '["2026-01-01 12:34:56"]');
SELECT is((SELECT max(at) FROM tap_attack.visit), '2026-01-01 12:34:56', 'parameter_has_the_new_type_of_its_column');
SELECT is((SELECT count(*) FROM pg_prepared_statements WHERE name LIKE '\_idem\_%' AND statement NOT LIKE 'PREPARE \_idem\_% (int) AS SELECT jsonb_build_array%'), 0::bigint,
    'nothing_stays_prepared');
ROLLBACK;
SELECT is(idem_claim('attack:planted'), true, 'executions_are_rolled_back_with_their_transaction');
DEALLOCATE ALL;

CALL pg_temp.clean('attack:');
SELECT * FROM finish();
