-- Parallel plans: what is parallel safe works in one, what writes refuses it, even behind a wrapper that is labelled wrongly.
\ir ../include/helpers.psql
SELECT plan(8);
CALL pg_temp.clean('parallel:');
SELECT outcome FROM idem_begin('parallel:done', lease => '1 hour');

CREATE FUNCTION pg_temp.parallel(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    -- The setting's name before and from PostgreSQL 16.
    PERFORM set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
    BEGIN
        EXECUTE statement INTO result;
    EXCEPTION WHEN OTHERS THEN
        result := SQLSTATE;
    END;
    PERFORM set_config(name, 'off', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
    RETURN result;
END $$;

-- Functions of another schema than pg_temp, whose functions no worker could see.
CREATE SCHEMA IF NOT EXISTS tap_parallel;
CREATE OR REPLACE FUNCTION tap_parallel.is_worker() RETURNS boolean LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT backend_type = 'parallel worker' FROM pg_stat_activity WHERE pid = pg_backend_pid() $$;
CREATE OR REPLACE FUNCTION tap_parallel.mislabelled(call text) RETURNS text LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
BEGIN
    EXECUTE 'SELECT FROM ' || call;
    RETURN 'ok';
END $$;

SELECT is(pg_temp.parallel('SELECT tap_parallel.is_worker()'), 'true', 'plans_are_parallel');
SELECT is(pg_temp.parallel('SELECT idem_key(''a'', 1, true, date ''2024-02-29'')'), 'a:1:true:2024-02-29', 'key');
SELECT is(pg_temp.parallel('SELECT idem_fingerprint(''{"a": [1.0]}'')'), idem_fingerprint('{"a": [1]}')::text, 'fingerprint');
SELECT is(pg_temp.parallel('SELECT state FROM idem_lookup(''parallel:done'')'), 'in_progress', 'lookup');
SELECT is(pg_temp.parallel('SELECT count(*) FROM idem_lookup(''parallel:absent'')'), '0', 'lookup_of_nothing');
SELECT is(pg_temp.parallel('SELECT outcome FROM idem_begin(''parallel:done'')'), 'in_flight', 'unsafe_function_makes_the_plan_serial');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_claim(''parallel:new'')', 'idem_try_claim(''parallel:new'')', 'idem_claim_many(''{parallel:new}'')',
                         'idem_begin(''parallel:new'')', 'idem_begin(''parallel:new'', lease => ''1 s'')',
                         'idem_execute(''parallel:new'', ''SELECT 1'')', 'idem_hit(''parallel:new'')', 'idem_forget(''parallel:done'')',
                         'idem_serialize(''parallel:new'')']) AS call,
            pg_temp.parallel(format('SELECT tap_parallel.mislabelled(%L)', call)) AS state
      WHERE state <> '25000'),
    NULL, 'writing_in_a_worker_is_25000');
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'parallel:new'), 0::bigint, 'nothing_was_written');

SET client_min_messages = warning;
DROP SCHEMA tap_parallel CASCADE;
CALL pg_temp.clean('parallel:');
SELECT * FROM finish();
