-- A scope with an owner is for roles that have the owner's privileges, in every function.
\ir ../include/helpers.psql
SELECT plan(29);
CALL pg_temp.clean('owned:');

-- Files that grant take turns: two sessions cannot change one function's privileges at the same time.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_tenant;
CREATE ROLE tap_stranger;
CREATE ROLE tap_member IN ROLE tap_tenant;
CREATE ROLE tap_loner NOINHERIT IN ROLE tap_tenant;
SELECT idem_grant(role, true) FROM unnest('{tap_tenant,tap_stranger,tap_member,tap_loner}'::regrole[]) role;
GRANT USAGE ON SCHEMA idem TO tap_tenant, tap_stranger, tap_member, tap_loner;

-- Keys that are there before the scope gets its owner.
SELECT idem_claim('done', scope => 'owned:s');
SELECT idem_claim('again', scope => 'owned:s');
SELECT fence FROM idem_begin('held', lease => '1 hour', scope => 'owned:s') \gset
SELECT fence AS held2 FROM idem_begin('held2', lease => '1 hour', scope => 'owned:s') \gset
SELECT outcome FROM idem_begin('lapsed', lease => '1 ms', scope => 'owned:s');
SELECT lives_ok($$ SELECT idem_scope_set('owned:s', owner => 'tap_tenant') $$, 'scope_gets_an_owner');
CALL pg_temp.sleep('5 ms');

CREATE TEMP TABLE uses (call text);
INSERT INTO uses SELECT format(call, :fence, :held2) FROM (VALUES
    ('idem_claim(''new1'', scope => ''owned:s'')'),
    ('idem_claim(''done'', scope => ''owned:s'')'),
    ('idem_try_claim(''new2'', scope => ''owned:s'')'),
    ('idem_try_claim(''done'', scope => ''owned:s'')'),
    ('idem_claim_many(''{new3,done}'', scope => ''owned:s'')'),
    ('idem_claim_many(''{}'', scope => ''owned:s'')'),
    ('idem_begin(''new4'', scope => ''owned:s'')'),
    ('idem_begin(''new5'', lease => ''1 hour'', owner => ''o'', scope => ''owned:s'')'),
    ('idem_begin(''done'', scope => ''owned:s'')'),
    ('idem_step(''held'', %1$s, ''x'', scope => ''owned:s'')'),
    ('idem_renew(''held'', %1$s, ''1 hour'', ''owned:s'')'),
    ('idem_complete(''held'', ''1'', fence => %1$s, scope => ''owned:s'')'),
    ('idem_release(''held2'', %2$s, ''owned:s'')'),
    ('idem_lookup(''done'', scope => ''owned:s'')'),
    ('idem_lookup(''absent'', scope => ''owned:s'')'),
    ('idem_execute(''new6'', ''SELECT 1'', scope => ''owned:s'')'),
    ('idem_execute(''done'', ''SELECT 1'', scope => ''owned:s'')'),
    ('idem_hit(''k'', scope => ''owned:s'')'),
    ('idem_hits(''k'', ''owned:s'')'),
    ('idem_serialize(''k'', ''owned:s'')'),
    ('idem_forget(''again'', ''owned:s'')'),
    ('idem_forget(''absent'', ''owned:s'')'),
    ('idem_redact(''done'', ''owned:s'')'),
    ('idem_resolve(''lapsed'', ''released'', scope => ''owned:s'')'),
    ('idem_http_begin(''owned:s'', ''POST'', ''/'', ''new7'')'),
    ('idem_http_begin(''owned:s'', ''GET'', ''/'', NULL)'),
    ('idem_http_complete(''owned:s'', NULL, 200, NULL, NULL)'),
    ('idem_http_scope_set(''owned:s'', mismatch_status => 409)'),
    ('idem_scope_reset(''owned:s'', ''ttl'')'),
    ('idem_scope_set(''owned:s'', ttl => ''1 hour'')')) AS template (call);

CREATE FUNCTION pg_temp.others(role name, expected text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', call, state), '; ')
      FROM uses, pg_temp.state_as(role, 'SELECT * FROM idem.' || call) AS state
     WHERE state <> expected
$$;

SELECT is(pg_temp.others('tap_stranger', '42501'), NULL, 'stranger_is_refused_everywhere');
SELECT is(pg_temp.others('tap_loner', '42501'), NULL, 'member_that_does_not_inherit_is_a_stranger');
SELECT is((SELECT count(*) FROM idem_keys WHERE scope = 'owned:s'), 5::bigint, 'refused_calls_wrote_nothing');
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.idem_scope_drop('owned:s') $$), '42501', 'stranger_cannot_drop_the_scope');
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.idem_scope_set('owned:s', owner => 'tap_stranger') $$), '42501',
    'stranger_cannot_seize_the_scope');
SAVEPOINT s;
SELECT is(pg_temp.others('tap_tenant', 'ok'), NULL, 'owner_passes_everywhere');
ROLLBACK TO s;
SELECT is(pg_temp.others('tap_member', 'ok'), NULL, 'member_of_the_owner_passes_everywhere');
ROLLBACK TO s;
SELECT is(pg_temp.others('postgres', 'ok'), NULL, 'superuser_passes_everywhere');
ROLLBACK TO s;
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.idem_claim('new1', scope => 'owned:other') $$), 'ok',
    'other_scopes_stay_open');
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.idem_claim('owned:new1') $$), 'ok', 'so_does_the_empty_scope');

-- It is the current role that counts.
SELECT is(
    (SELECT string_agg(pg_temp.state_as('tap_stranger', format(
                       'SET LOCAL ROLE %1$s; SELECT idem.idem_claim(%1$L, scope => ''owned:s'')', role)), ' ')
       FROM unnest('{tap_tenant,tap_stranger}'::text[]) role),
    'ok 42501', 'set_role_is_honoured');
CREATE SCHEMA owned_by_tenant AUTHORIZATION tap_tenant;
CREATE FUNCTION owned_by_tenant.claims(key text) RETURNS boolean LANGUAGE sql SECURITY DEFINER
AS $$ SELECT idem.idem_claim(key, scope => 'owned:s') $$;
ALTER FUNCTION owned_by_tenant.claims OWNER TO tap_tenant;
GRANT USAGE ON SCHEMA owned_by_tenant TO tap_stranger;
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT owned_by_tenant.claims('definer') $$), 'ok', 'security_definer_function_of_the_owner');
ALTER FUNCTION owned_by_tenant.claims OWNER TO tap_stranger;
SELECT is(pg_temp.state_as('tap_tenant', $$ SELECT owned_by_tenant.claims('definer2') $$), '42501',
    'security_definer_function_of_a_stranger');

-- Membership that comes and goes counts at once.
GRANT tap_tenant TO tap_stranger;
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.idem_claim('granted', scope => 'owned:s') $$), 'ok', 'new_member_passes');
REVOKE tap_tenant FROM tap_stranger;
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.idem_claim('revoked', scope => 'owned:s') $$), '42501', 'former_member_does_not');

-- So does the owner.
SELECT idem_scope_set('owned:s', owner => 'tap_stranger');
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.idem_claim('new owner', scope => 'owned:s') $$), 'ok', 'new_owner_passes');
SELECT is(pg_temp.state_as('tap_tenant', $$ SELECT idem.idem_claim('old owner', scope => 'owned:s') $$), '42501', 'former_owner_does_not');
SELECT idem_scope_set('owned:s', ttl => '1 hour');
SELECT is(pg_temp.state_as('tap_tenant', $$ SELECT idem.idem_claim('old owner', scope => 'owned:s') $$), '42501', 'null_leaves_the_owner');
SELECT idem_scope_drop('owned:s');
SELECT is(pg_temp.state_as('tap_tenant', $$ SELECT idem.idem_claim('open again', scope => 'owned:s') $$), 'ok', 'dropped_scope_is_open');

-- An owner that is dropped leaves a scope that only a superuser can use, or give a new owner.
CREATE ROLE tap_leaver;
SELECT idem_scope_set('owned:left', owner => 'tap_leaver');
SELECT oid AS leaver FROM pg_roles WHERE rolname = 'tap_leaver' \gset
DROP ROLE tap_leaver;
CREATE FUNCTION pg_temp.refusal(role name, call text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    message text;
    detail  text;
    hint    text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    EXECUTE 'SELECT * FROM idem.' || call;
    RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN ARRAY[message, detail, hint];
END $$;
SELECT is(pg_temp.refusal('tap_tenant', call),
    ARRAY['permission denied for scope "owned:left"', 'The scope''s owner, the role with OID ' || :'leaver' || ', was dropped.',
          'A superuser can give the scope a new owner: SELECT idem_scope_set(''owned:left'', owner => ''...'').'],
    'dropped_owner_is_reported_by_' || substring(call, '^\w+'))
  FROM unnest(ARRAY['idem_claim(''k'', scope => ''owned:left'')', 'idem_try_claim(''k'', scope => ''owned:left'')',
                    'idem_scope_set(''owned:left'', owner => ''tap_tenant'')', 'idem_scope_drop(''owned:left'')']) AS call;
SELECT is(idem_claim('k', scope => 'owned:left'), true, 'superuser_uses_the_scope');
SELECT idem_scope_set('owned:left', owner => 'tap_tenant');
SELECT is(pg_temp.state_as('tap_tenant', $$ SELECT idem.idem_try_claim('k', scope => 'owned:left') $$), 'ok', 'scope_gets_a_new_owner');
SELECT is(pg_temp.refusal('tap_stranger', 'idem_claim(''k'', scope => ''owned:left'')'),
    ARRAY['permission denied for scope "owned:left"', 'Only roles that have the privileges of the scope''s owner may use it.', ''],
    'and_is_closed_to_others_again');

-- The empty scope can be owned like any other. Other files use it, but do not see this uncommitted owner.
SELECT idem_scope_set('', owner => 'tap_tenant');
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.idem_claim('owned:empty') $$) || ' '
          || pg_temp.state_as('tap_member', $$ SELECT idem.idem_claim('owned:empty') $$), '42501 ok', 'empty_scope_can_be_owned');
ROLLBACK;
SELECT is(idem_claim('owned:empty'), true, 'empty_scope_is_open_after_the_rollback');

CALL pg_temp.clean('owned:');
SELECT * FROM finish();
