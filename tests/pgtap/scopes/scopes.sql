-- idem_scope_set, idem_scope_reset, idem_scope_drop: what a scope decides, and what beats what.
\ir ../include/helpers.psql
SELECT plan(48);
CALL pg_temp.clean('scope:');

-- Retention of a fresh claim in seconds; infinite when it never ends.
CREATE FUNCTION pg_temp.retention(key text, scope text) RETURNS float8 LANGUAGE sql AS $$
    SELECT CASE WHEN coalesce(expires_at, 'infinity') = 'infinity' THEN 'infinity'
                ELSE round(extract(epoch FROM expires_at - created_at)) END::float8
      FROM idem.idem_lookup(key, scope => scope)
$$;

-- Retention: explicit, then the scope's, then the setting's.
SELECT lives_ok($$ SELECT idem_scope_set('scope:a', ttl => '2 hours') $$, 'scope_is_registered');
SELECT idem_claim('k1', scope => 'scope:a');
SELECT is(pg_temp.retention('k1', 'scope:a'), 7200::float8, 'ttl_of_the_scope');
SELECT idem_claim('k2', '3 hours', 'scope:a');
SELECT is(pg_temp.retention('k2', 'scope:a'), 10800::float8, 'explicit_ttl_beats_the_scopes');
SELECT idem_claim('k1', scope => 'scope:unregistered');
SELECT is(pg_temp.retention('k1', 'scope:unregistered'), 86400::float8, 'unregistered_scope_has_the_default_ttl');
SET idem.default_ttl = '1h';
SELECT idem_claim('k2', scope => 'scope:unregistered');
SELECT is(pg_temp.retention('k2', 'scope:unregistered'), 3600::float8, 'setting_is_the_default_ttl');
SELECT idem_claim('k3', scope => 'scope:a');
SELECT is(pg_temp.retention('k3', 'scope:a'), 7200::float8, 'ttl_of_the_scope_beats_the_setting');
RESET idem.default_ttl;
BEGIN;
SELECT outcome FROM idem_begin('k4', scope => 'scope:a');
COMMIT;
SELECT outcome FROM idem_begin('k5', lease => '1 min', scope => 'scope:a');
SELECT * FROM idem_claim_many('{k6}', scope => 'scope:a');
SELECT idem_try_claim('k7', scope => 'scope:a');
SELECT outcome FROM idem_execute('k8', 'SELECT 1', scope => 'scope:a');
SELECT is((SELECT string_agg(pg_temp.retention(key, 'scope:a')::text, ' ') FROM unnest('{k4,k5,k6,k7,k8}'::text[]) key),
    '7200 7200 7200 7200 7200', 'ttl_of_the_scope_holds_for_every_kind_of_claim');

-- NULL leaves as is.
SELECT idem_scope_set('scope:a', lease => '5 min');
SELECT idem_claim('k9', scope => 'scope:a');
SELECT is(pg_temp.retention('k9', 'scope:a'), 7200::float8, 'null_leaves_the_ttl');
SELECT idem_scope_set('scope:a', ttl => '1 hour');
SELECT idem_claim('k10', scope => 'scope:a');
SELECT is(pg_temp.retention('k10', 'scope:a'), 3600::float8, 'ttl_is_changed');
SELECT fence FROM idem_begin('lease', lease => '1 min', scope => 'scope:a') \gset
SELECT ok(pg_temp.seconds_from_now(idem_renew('lease', :fence, scope => 'scope:a')) BETWEEN 295 AND 300, 'null_leaves_the_lease');
SELECT lives_ok($$ SELECT idem_scope_set('scope:a') $$, 'scope_set_of_nothing');
SELECT ok(pg_temp.seconds_from_now(idem_renew('lease', :fence, scope => 'scope:a')) BETWEEN 295 AND 300, 'changes_nothing');

-- keep_forever beats all.
SELECT idem_scope_set('scope:forever', ttl => '1 hour', keep_forever => true);
SELECT idem_claim('k1', scope => 'scope:forever');
SELECT is(pg_temp.retention('k1', 'scope:forever'), 'infinity', 'keep_forever_beats_the_ttl_of_the_scope');
SELECT idem_claim('k2', '1 ms', 'scope:forever');
SELECT is(pg_temp.retention('k2', 'scope:forever'), 'infinity', 'keep_forever_beats_an_explicit_ttl');
SELECT fence AS kept FROM idem_begin('k3', ttl => '1 ms', lease => '1 ms', scope => 'scope:forever') \gset
CALL pg_temp.sleep('5 ms');
SELECT is(idem_claim('k2', '1 ms', 'scope:forever'), false, 'kept_key_does_not_expire');
SELECT idem_complete('k3', fence => :kept, scope => 'scope:forever');
SELECT is(pg_temp.retention('k3', 'scope:forever'), 'infinity', 'completion_keeps_forever_too');
SELECT idem_scope_set('scope:forever', lease => '1 min');
SELECT idem_claim('k4', scope => 'scope:forever');
SELECT is(pg_temp.retention('k4', 'scope:forever'), 'infinity', 'null_leaves_keep_forever');
SELECT idem_scope_set('scope:forever', keep_forever => false);
SELECT idem_claim('k5', scope => 'scope:forever');
SELECT is(pg_temp.retention('k5', 'scope:forever'), 3600::float8, 'keep_forever_can_be_ended');

-- Lease: the default of renew only. Begin without a lease stays transactional.
BEGIN;
SELECT is(pg_temp.ticket(t), '{"outcome": "acquired", "attempt": 1}', 'lease_of_the_scope_does_not_make_a_begin_leased')
  FROM idem_begin('no lease', scope => 'scope:a') t;
COMMIT;
SELECT fence AS plain FROM idem_begin('lease', lease => '1 min', scope => 'scope:plain') \gset
SELECT ok(pg_temp.seconds_from_now(idem_renew('lease', :plain, scope => 'scope:plain')) BETWEEN 25 AND 30, 'default_lease');
SET idem.default_lease = '2min';
SELECT ok(pg_temp.seconds_from_now(idem_renew('lease', :plain, scope => 'scope:plain')) BETWEEN 115 AND 120, 'setting_is_the_default_lease');
SELECT ok(pg_temp.seconds_from_now(idem_renew('lease', :fence, scope => 'scope:a')) BETWEEN 295 AND 300, 'lease_of_the_scope_beats_the_setting');
SELECT ok(pg_temp.seconds_from_now(idem_renew('lease', :fence, '7 min', 'scope:a')) BETWEEN 415 AND 420, 'explicit_lease_beats_the_scopes');
RESET idem.default_lease;

-- What happens at the end of a lease.
SELECT outcome FROM idem_begin('policy', lease => '1 ms', scope => 'scope:a');
SELECT idem_scope_set('scope:policy', on_lease_expiry => 'manual');
SELECT idem_scope_set('scope:policy', ttl => '1 hour');
SELECT outcome FROM idem_begin('policy', lease => '1 ms', scope => 'scope:policy');
CALL pg_temp.sleep('5 ms');
SELECT is((SELECT outcome FROM idem_begin('policy', lease => '1 min', scope => 'scope:a')), 'taken_over', 'default_policy');
SELECT is((SELECT outcome FROM idem_begin('policy', lease => '1 min', scope => 'scope:policy')), 'in_doubt', 'manual_policy_stays');
SELECT idem_scope_set('scope:policy', on_lease_expiry => 'takeover');
SELECT outcome FROM idem_begin('policy2', lease => '1 ms', scope => 'scope:policy');
CALL pg_temp.sleep('5 ms');
SELECT is((SELECT outcome FROM idem_begin('policy2', lease => '1 min', scope => 'scope:policy')), 'taken_over', 'policy_is_changed_back');

-- Size of responses.
CREATE FUNCTION pg_temp.is_omitted(key text, scope text, size int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM idem.idem_claim(key, scope => scope);
    PERFORM idem.idem_complete(key, to_jsonb(repeat('x', size)), scope => scope);
    RETURN (SELECT response_omitted FROM idem.idem_begin(key, scope => scope));
END $$;
SET client_min_messages = error;
SELECT idem_scope_set('scope:size', max_response_size => 1000);
SELECT is(pg_temp.is_omitted('s1', 'scope:size', 500), false, 'response_below_the_limit_of_the_scope');
SELECT is(pg_temp.is_omitted('s2', 'scope:size', 2000), true, 'response_above_the_limit_of_the_scope');
SELECT is(pg_temp.is_omitted('s3', 'scope:plain', 1000000), false, 'response_below_the_default_limit');
SELECT is(pg_temp.is_omitted('s4', 'scope:plain', 1100000), true, 'response_above_the_default_limit');
SET idem.max_response_size = '100kB';
SELECT is(pg_temp.is_omitted('s5', 'scope:plain', 110000), true, 'setting_is_the_default_limit');
SELECT idem_scope_set('scope:size', max_response_size => 200000);
SELECT is(pg_temp.is_omitted('s6', 'scope:size', 110000), false, 'limit_of_the_scope_beats_the_setting');
RESET idem.max_response_size;
SELECT idem_scope_set('scope:size', max_response_size => 0);
SELECT is(pg_temp.is_omitted('s7', 'scope:size', 1), true, 'limit_of_nothing_stores_nothing');
SELECT idem_claim('s8', scope => 'scope:size');
SELECT is((SELECT response_omitted FROM idem_begin('s8', scope => 'scope:size')), false, 'no_response_is_never_over_the_limit');
RESET client_min_messages;

-- Resetting.
SELECT idem_scope_set('scope:reset', ttl => '1 hour', keep_forever => true, lease => '5 min', on_lease_expiry => 'manual', max_response_size => 10, owner => 'pg_monitor');
SELECT idem_http_scope_set('scope:reset', mismatch_status => 409, stored_headers => '{ETag}');
SELECT is(idem_scope_reset('scope:reset', 'keep_forever', 'mismatch_status'), true, 'settings_are_reset');
SELECT is((SELECT to_jsonb(s) - 'scope' FROM idem_scopes s WHERE scope = 'scope:reset'),
    jsonb_object_agg(attname, NULL) || '{"ttl": "01:00:00", "lease": "00:05:00", "on_lease_expiry": "manual", "max_response_size": 10, "owner": "pg_monitor", "stored_headers": ["ETag"]}',
    'and_no_others')
  FROM pg_attribute WHERE attrelid = 'idem_scopes'::regclass AND attnum > 1;
SELECT idem_claim('r1', scope => 'scope:reset');
SELECT is(pg_temp.retention('r1', 'scope:reset'), 3600::float8, 'reset_holds_at_once');
SELECT idem_scope_reset('scope:reset', VARIADIC array_agg(attname::text)) FROM pg_attribute WHERE attrelid = 'idem_scopes'::regclass AND attnum > 1;
SELECT is((SELECT to_jsonb(s) - 'scope' FROM idem_scopes s WHERE scope = 'scope:reset'), jsonb_object_agg(attname, NULL), 'every_setting_can_be_reset')
  FROM pg_attribute WHERE attrelid = 'idem_scopes'::regclass AND attnum > 1;
SELECT is(idem_scope_reset('scope:reset', 'ttl', 'ttl'), true, 'setting_that_has_its_default');
SELECT is(idem_scope_reset('scope:reset', VARIADIC '{}'), true, 'no_setting_at_all');
SELECT is(idem_scope_reset('scope:reset', VARIADIC '{{ttl,lease},{owner,ring}}'), true, 'settings_in_two_dimensions');
SELECT is(idem_scope_reset('scope:unregistered', 'ttl'), false, 'absent_scope_has_the_defaults');
SELECT is((SELECT count(*) FROM idem_scopes WHERE scope = 'scope:unregistered'), 0::bigint, 'and_is_not_registered_by_that');
SELECT throws_ok($$ SELECT idem_scope_reset('scope:reset', 'ttl', 'TTL') $$, '22023', 'a scope has no setting "TTL"', 'unknown_setting');
SELECT is((SELECT string_agg(state, ' ' ORDER BY n)
             FROM unnest(ARRAY['''scope:reset'', ''scope''', '''scope:reset'', ''''', '''scope:unregistered'', ''x''', 'NULL, ''ttl''', '''scope:reset'', ''ttl'', NULL',
                               '''scope:reset'', VARIADIC NULL', 'repeat(''s'', 256), ''ttl''']) WITH ORDINALITY AS v (arguments, n),
                  pg_temp.state_of(format('SELECT idem_scope_reset(%s)', arguments)) AS state),
    '22023 22023 22023 22004 22004 22004 22023', 'bad_arguments_of_reset');

-- Dropping.
SELECT is(idem_scope_drop('scope:a'), true, 'scope_is_dropped');
SELECT is(idem_scope_drop('scope:a'), false, 'absent_scope_cannot_be_dropped');
SELECT idem_claim('k20', scope => 'scope:a');
SELECT is(pg_temp.retention('k20', 'scope:a') || ' ' || idem_claim('k1', scope => 'scope:a'), '86400 false',
    'dropped_scope_keeps_its_keys_but_not_its_ttl');

CALL pg_temp.clean('scope:');
SELECT * FROM finish();
