-- The settings: defaults, bad values, and what only a superuser may set.
-- The first test must come before anything that loads the library.
\ir ../include/helpers.psql
SELECT plan(14);

-- A setting that is not known yet is a placeholder that anybody may set; loading the library must not adopt it.
SELECT 'DROP ROLE tap_setter' FROM pg_roles WHERE rolname = 'tap_setter' \gexec
CREATE ROLE tap_setter;
SELECT pg_temp.state_as('tap_setter', 'SET SESSION idem.require_registered_scope = on') AS state \gset
SET client_min_messages = error;
SELECT idem_key('load');
RESET client_min_messages;
SELECT is(current_setting('idem.require_registered_scope'), 'off', 'plain_role_cannot_require_scopes_ahead_of_loading');
SELECT is(pg_temp.state_as('tap_setter', 'SET idem.require_registered_scope = on'), '42501', 'plain_role_cannot_require_scopes');
SELECT is(pg_temp.state_as('tap_setter', 'SET idem.require_registered_scope = off'), '42501', 'nor_lift_the_requirement');
DROP ROLE tap_setter;
CALL pg_temp.clean('settings:');

SELECT lives_ok($$ SET idem.require_registered_scope = on $$, 'superuser_requires_scopes');
SELECT is(
    (SELECT string_agg(call, ', ')
       FROM unnest(ARRAY['idem_claim(''k'', scope => ''settings:unknown'')', 'idem_try_claim(''k'', scope => ''settings:unknown'')',
                         'idem_claim_many(''{k}'', scope => ''settings:unknown'')',
                         'idem_begin(''k'', scope => ''settings:unknown'')',
                         'idem_begin(''k'', lease => ''1 s'', scope => ''settings:unknown'')',
                         'idem_execute(''k'', ''SELECT 1'', scope => ''settings:unknown'')',
                         'idem_hit(''k'', scope => ''settings:unknown'')']) AS call,
            pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state = 'ok' OR state LIKE 'XX%'),
    NULL, 'unknown_scope_is_refused');
SELECT idem_scope_set('settings:known', ttl => '1 hour');
SELECT is(idem_claim('k', scope => 'settings:known'), true, 'registered_scope_is_accepted');
SELECT is(idem_scope_drop('settings:known'), true, 'registered_scope_is_dropped');
SELECT isnt(pg_temp.state_of($$ SELECT idem_claim('k', scope => 'settings:known') $$), 'ok', 'dropped_scope_is_unknown_again');
RESET idem.require_registered_scope;
SELECT is(idem_claim('k', scope => 'settings:unknown'), true, 'scopes_need_no_registration_by_default');

-- Bad values never reach a claim.
SELECT throws_ok($$ SET idem.default_ttl = '0' $$, '22023', NULL, 'zero_ttl');
SELECT throws_ok($$ SET idem.default_ttl = '-1s' $$, '22023', NULL, 'negative_ttl');
SELECT throws_ok($$ SET idem.default_lease = '0' $$, '22023', NULL, 'zero_lease');
SELECT throws_ok($$ SET idem.max_response_size = '-1' $$, '22023', NULL, 'negative_size');
SELECT throws_ok($$ SET idem.default_ttl = 'soon' $$, '22023', NULL, 'ttl_that_is_no_time');

CALL pg_temp.clean('settings:');
SELECT * FROM finish();
