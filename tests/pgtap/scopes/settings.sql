-- The settings: what they change. Bad values and rights: settings_of_the_library.sql.
\ir ../include/helpers.psql
SELECT plan(11);

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

-- A lease in the wrong unit is an error, not a key or a lock that is held for years.
SELECT is((SELECT string_agg(call, ', ') FROM unnest(ARRAY[
        $$ idem_begin('settings:lease', lease => '30000000') $$, $$ idem_begin('settings:lease', lease => '951 years') $$,
        $$ idem_begin('settings:lease', lease => '1 day 1 us') $$, $$ idem_renew('settings:lease', 1, '25 h') $$,
        $$ idem_lock('settings:lease', '30000000') $$, $$ idem_lock_renew('settings:lease', 1, '25 h') $$,
        $$ idem_outbox_take('settings', lease => '25 h') $$, $$ idem_scope_set('settings:lease', lease => '25 h') $$]) AS call
      WHERE pg_temp.state_of('SELECT ' || call) <> '22023'), NULL, 'longer_leases_are_refused');
SELECT is(pg_temp.hint_of($$ SELECT idem_lock('settings:lease', '30000000') $$),
    'A number without a unit is seconds: ''30000'' is over eight hours. Say ''30 s'' or ''500 ms'', or raise idem.max_lease.',
    'the_hint_says_that_a_number_is_seconds');
SELECT lives_ok($$ SELECT idem_begin('settings:lease', lease => '1 day') $$, 'a_day_is_not_too_long');
SET idem.max_lease = '5s';
SELECT throws_ok($$ SELECT idem_begin('settings:short', lease => '6 s') $$, '22023', 'lease is longer than idem.max_lease', 'a_shorter_bound_holds_at_once');
SELECT lives_ok($$ SELECT idem_begin('settings:short', lease => '5 s') $$, 'up_to_the_bound');
RESET idem.max_lease;

CALL pg_temp.clean('settings:');
SELECT * FROM finish();
