-- Look-alike functions, operators, types and tables in front of everything, pg_catalog included.
-- Whatever idem looked up by name alone would end in one of them, and they all raise.
\ir ../include/helpers.psql
SELECT plan(26);
CALL pg_temp.clean('hostile:');

-- Keys in the states that matter.
SELECT idem_claim('hostile:done');
SELECT fence FROM idem_begin('hostile:held', idem_fingerprint('1'), lease => '1 hour', owner => 'me') \gset
SELECT fence AS held2 FROM idem_begin('hostile:held2', idem_fingerprint('1'), lease => '1 hour') \gset
SELECT idem_lock('hostile:lock', '1 hour') AS lock \gset
SELECT outcome FROM idem_begin('hostile:lapsed', lease => '1 ms');
SELECT outcome FROM idem_begin('hostile:abandoned', lease => '1 ms');
CALL pg_temp.sleep('5 ms');

-- Files that grant take turns: two sessions cannot change one function's privileges at the same time.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE SCHEMA tap_hostile;

CREATE FUNCTION pg_temp.trap(name text, arguments text, result text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE FUNCTION tap_hostile.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', name, arguments, result,
                   format('BEGIN RAISE EXCEPTION %L USING ERRCODE = ''XXTAP''; END', 'trapped in ' || name));
END $$;

-- Functions with the signatures of idem's own, and of pg_catalog's that such code might call.
SELECT pg_temp.trap(proname, pg_get_function_arguments(oid), pg_get_function_result(oid))
  FROM pg_proc
 WHERE prokind <> 'p' AND provariadic = 0 AND proargmodes IS NULL AND prorettype <> 'index_am_handler'::regtype
   AND (pronamespace = 'idem'::regnamespace
        OR pronamespace = 'pg_catalog'::regnamespace
           AND proname IN ('now', 'clock_timestamp', 'sha256', 'length', 'octet_length', 'convert_to', 'to_jsonb', 'row_to_json',
                           'quote_ident', 'quote_literal', 'md5', 'current_setting', 'set_config', 'pg_has_role', 'nextval',
                           'starts_with', 'replace', 'lower', 'pg_advisory_xact_lock', 'hashtext', 'pg_backend_pid',
                           'array_length', 'cardinality', 'array_to_string', 'jsonb_typeof'));

-- Operators.
SELECT pg_temp.trap('operator' || oid, format('%s, %s', oprleft::regtype, oprright::regtype), oprresult::regtype::text)
  FROM pg_operator
 WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprname IN ('=', '<>', '<', '<=', '>', '>=', '+', '-', '||', '->', '->>', '~')
   AND oprleft = ANY ('{text,bytea,bigint,integer,timestamptz,interval,jsonb,oid,boolean,name}'::regtype[])
   AND oprright = ANY ('{text,bytea,bigint,integer,timestamptz,interval,jsonb,oid,boolean,name}'::regtype[]);
SELECT format('CREATE OPERATOR tap_hostile.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = tap_hostile.operator%s)',
              o.oprname, o.oprleft::regtype, o.oprright::regtype, o.oid)
  FROM pg_operator o JOIN pg_proc p ON p.proname = 'operator' || o.oid AND p.pronamespace = 'tap_hostile'::regnamespace \gexec

-- Tables and types.
CREATE TABLE tap_hostile.idem_keys (scope text, key text);
CREATE TABLE tap_hostile.idem_locks (scope text, key text);
CREATE TABLE tap_hostile.idem_scopes (scope text);
CREATE TABLE tap_hostile.idem_counters (scope text, key text);
CREATE TABLE tap_hostile.pg_class (oid oid);
CREATE TABLE tap_hostile.pg_namespace (oid oid);
CREATE TABLE tap_hostile.pg_extension (oid oid);
CREATE TABLE tap_hostile.pg_proc (oid oid);
CREATE TABLE tap_hostile.t (a int);
CREATE TYPE tap_hostile.idem_outcome AS ENUM ('hostile');
CREATE TYPE tap_hostile.idem_ticket AS (hostile int);
CREATE TYPE tap_hostile.idem_key_info AS (hostile int);
CREATE DOMAIN tap_hostile.text AS text CHECK (false);
CREATE DOMAIN tap_hostile.jsonb AS jsonb CHECK (false);
CREATE DOMAIN tap_hostile.bytea AS bytea CHECK (false);
CREATE DOMAIN tap_hostile.timestamptz AS timestamptz CHECK (false);
CREATE DOMAIN tap_hostile.regrole AS regrole CHECK (false);

-- pgTAP cannot run under such a path: what is called there is judged afterwards.
CREATE FUNCTION pg_temp.under_attack(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'tap_hostile, pg_catalog, idem', true);
    BEGIN
        EXECUTE statement INTO result;
    EXCEPTION WHEN OTHERS THEN
        result := SQLERRM;
    END;
    PERFORM pg_catalog.set_config('search_path', 'idem, tap, public', true);
    RETURN result;
END $$;

SELECT is(pg_temp.under_attack('SELECT now()'), 'trapped in now', 'functions_are_armed');
SELECT is(pg_temp.under_attack('SELECT idem_claim(''x'')'), 'trapped in idem_claim', 'functions_of_the_same_name_are_armed');
SELECT matches(pg_temp.under_attack('SELECT true = true'), '^trapped in operator', 'operators_are_armed');

CREATE TEMP TABLE attack (n int GENERATED ALWAYS AS IDENTITY, name text, statement text, expected text);
INSERT INTO attack (name, statement, expected) VALUES
    ('key', 'SELECT idem.idem_key(''a''::pg_catalog.text, 1, 1.50, pg_catalog.date(''2024-02-29''))', 'a:1:1.5:2024-02-29'),
    ('fingerprint', 'SELECT pg_catalog.get_byte(idem.idem_fingerprint(''{"b": [1.0], "a": {}}''), 0)', '1'),
    ('fingerprint_text', 'SELECT pg_catalog.get_byte(idem.idem_fingerprint_text(''x''), 0)', '1'),
    ('fingerprint_bytes', 'SELECT pg_catalog.get_byte(idem.idem_fingerprint_bytes(''x''), 0)', '1'),
    ('claim', 'SELECT idem.idem_claim(''hostile:new'')', 'true'),
    ('claim_of_a_duplicate', 'SELECT idem.idem_claim(''hostile:new'')', 'false'),
    ('try_claim', 'SELECT idem.idem_try_claim(''hostile:done'')', 'completed'),
    ('claim_many', 'SELECT pg_catalog.array_agg(k) FROM idem.idem_claim_many(''{hostile:m2,hostile:done,hostile:m1,hostile:m2}'') k',
     '{hostile:m2,hostile:m1}'),
    ('begin', 'SELECT outcome FROM idem.idem_begin(''hostile:lapsed'', ''\x01'', lease => ''1 hour'', owner => ''x'')', 'taken_over'),
    ('step, renew',
     format('SELECT pg_catalog.isfinite(idem.idem_renew(''hostile:held'', %1$s)), idem.idem_step(''hostile:held'', %1$s, ''x'')',
            :fence), 'true'),
    ('complete', format('SELECT idem.idem_complete(''hostile:held'', ''{"a": 1}'', 200, %s)', :fence), 'true'),
    ('release', format('SELECT idem.idem_release(''hostile:held2'', %s)', :held2), 'true'),
    ('execute', 'SELECT response FROM idem.idem_execute(''hostile:execute'', ''INSERT INTO t VALUES ($1) RETURNING a'', ''[7]'')',
     '[{"a": 7}]'),
    ('hit, serialize', 'SELECT idem.idem_hit(''hostile:hit''), idem.idem_serialize(''hostile:queue'')', '1'),
    ('lock', 'SELECT pg_catalog.int8gt(idem.idem_lock(''hostile:free'', ''1 hour'', ''x'', NULL), 0)', 'true'),
    ('assert, renew, unlock',
     format('SELECT pg_catalog.concat(idem.idem_assert_fence(''hostile:lock'', %1$s), idem.idem_lock_renew(''hostile:lock'', %1$s), '
            'idem.idem_unlock(''hostile:lock'', %1$s))', :lock), 'ttt'),
    ('redact', 'SELECT idem.idem_redact(''hostile:done'')', 'false'),
    ('forget', 'SELECT idem.idem_forget(''hostile:done'')', 'true'),
    ('resolve', 'SELECT idem.idem_resolve(''hostile:abandoned'', ''completed'', ''{}'')', ''),
    ('scopes', 'SELECT idem.idem_scope_set(''hostile:s'', ttl => ''1 hour'', owner => ''pg_monitor''), idem.idem_scope_reset(''hostile:s'', ''ttl'', ''owner''), idem.idem_scope_drop(''hostile:s'')', ''),
    ('version', 'SELECT edition FROM idem.idem_version()', 'c'),
    ('grants', 'SELECT idem.idem_grant(''pg_monitor'', true), idem.idem_revoke(''pg_monitor'')', '');
SELECT is(pg_temp.under_attack(statement), expected, name || ' under_a_hostile_search_path') FROM attack ORDER BY n;
ROLLBACK;
SELECT is((SELECT outcome FROM idem_begin('hostile:held', idem_fingerprint('1'))), 'in_flight', 'all_of_it_is_rolled_back');

CALL pg_temp.clean('hostile:');
SELECT * FROM finish();
