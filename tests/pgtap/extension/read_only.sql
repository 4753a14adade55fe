-- READ ONLY transactions: replays work, what would write is 25006.
\ir ../include/helpers.psql
SELECT plan(22);
CALL pg_temp.clean('readonly:');

CREATE FUNCTION pg_temp.message_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;

BEGIN;
SELECT outcome FROM idem_begin('readonly:done', idem_fingerprint('1'));
SELECT idem_complete('readonly:done', '"x"', 200);
COMMIT;
SELECT outcome FROM idem_execute('readonly:executed', 'SELECT 1 AS a');
SELECT fence FROM idem_begin('readonly:live', lease => '1 hour', owner => 'me') \gset
SELECT fence AS released FROM idem_begin('readonly:released', lease => '1 hour') \gset
SELECT idem_release('readonly:released', :released);
SELECT idem_scope_set('readonly:manual', on_lease_expiry => 'manual');
SELECT outcome FROM idem_begin('readonly:doubt', lease => '1 ms', scope => 'readonly:manual');
SELECT outcome FROM idem_begin('readonly:unasked', lease => '1 ms', scope => 'readonly:manual');
SELECT outcome FROM idem_begin('readonly:lapsed', lease => '1 ms');
SELECT idem_claim('readonly:expired', '1 ms');
SELECT set_config('tap.fence', :'fence', false);
CALL pg_temp.sleep('5 ms');
SELECT idem_try_claim('readonly:doubt', scope => 'readonly:manual');

BEGIN READ ONLY;
SELECT is(idem_claim('readonly:done'), false, 'claim_of_a_committed_key');
SELECT is(idem_try_claim('readonly:done'), 'completed', 'try_of_a_committed_key');
SELECT is((SELECT count(*) FROM idem_claim_many('{readonly:done,readonly:executed,readonly:done}')), 0::bigint, 'many_committed_keys');
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "status_code": 200, "response": "x"}', 'replay')
  FROM idem_begin('readonly:done', idem_fingerprint('1')) t;
SELECT is((SELECT outcome FROM idem_begin('readonly:done', lease => '1 hour', wait => '10 min')), 'completed', 'leased_replay');
SELECT is((SELECT outcome FROM idem_begin('readonly:done', idem_fingerprint('2'))), 'mismatch', 'mismatch');
SELECT is((SELECT outcome FROM idem_begin('readonly:live')), 'in_flight', 'in_flight');
SELECT is((SELECT outcome FROM idem_begin('readonly:live', lease => '1 hour', owner => 'other')), 'in_flight', 'leased_in_flight');
SELECT is(idem_try_claim('readonly:live'), 'in_flight', 'try_in_flight');
SELECT throws_ok($$ SELECT idem_claim('readonly:live') $$, 'ID005', NULL, 'claim_in_flight');
SELECT is((SELECT outcome FROM idem_begin('readonly:doubt', scope => 'readonly:manual')), 'in_doubt', 'in_doubt');
SELECT is((SELECT outcome FROM idem_begin('readonly:unasked', scope => 'readonly:manual')), 'in_doubt', 'in_doubt_before_anybody_asked');
SELECT is((SELECT response FROM idem_execute('readonly:executed', 'SELECT 1 AS a')), '[{"a": 1}]', 'execute_replays');
SELECT is((SELECT response FROM idem_lookup('readonly:done')), '"x"', 'lookup');
SELECT is((SELECT count(*) FROM idem_lookup('readonly:absent')), 0::bigint, 'lookup_of_nothing');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_claim(''readonly:new'')', 'idem_try_claim(''readonly:new'')', 'idem_begin(''readonly:new'')',
                         'idem_begin(''readonly:new'', lease => ''1 s'')', 'idem_claim_many(''{readonly:new}'')',
                         'idem_claim_many(''{readonly:done,readonly:new}'')', 'idem_execute(''readonly:new'', ''SELECT 1'')']) AS call,
            pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '25006'),
    NULL, 'fresh_keys_are_25006');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_claim(''readonly:expired'')', 'idem_begin(''readonly:expired'')', 'idem_claim(''readonly:lapsed'')',
                         'idem_begin(''readonly:lapsed'', lease => ''1 s'')', 'idem_try_claim(''readonly:lapsed'')',
                         'idem_claim(''readonly:released'')', 'idem_begin(''readonly:released'')',
                         'idem_claim_many(''{readonly:expired}'')', 'idem_execute(''readonly:lapsed'', ''SELECT 1'')',
                         'idem_begin(''readonly:live'', lease => ''1 s'', owner => ''me'')']) AS call,
            pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '25006'),
    NULL, 'takeovers_and_renewals_are_25006');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_renew(''readonly:live'', current_setting(''tap.fence'')::bigint)',
                         'idem_step(''readonly:live'', current_setting(''tap.fence'')::bigint, ''x'')',
                         'idem_complete(''readonly:live'', fence => current_setting(''tap.fence'')::bigint)',
                         'idem_release(''readonly:live'', current_setting(''tap.fence'')::bigint)']) AS call,
            pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '25006'),
    NULL, 'leased_changes_are_25006');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_hit(''readonly:new'')', 'idem_forget(''readonly:done'')',
                         'idem_resolve(''readonly:doubt'', ''released'', scope => ''readonly:manual'')',
                         'idem_scope_set(''readonly:scope'', ttl => ''1 hour'')', 'idem_scope_drop(''readonly:manual'')',
                         'idem_scope_reset(''readonly:manual'', ''ttl'')']) AS call,
            pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '25006'),
    NULL, 'other_changes_are_25006');
-- Whatever statement of the portable edition is refused.
SELECT is(
    (SELECT string_agg(format('%s: %s', call, message), '; ')
       FROM unnest(ARRAY['idem_claim(''readonly:new'')', 'idem_must_claim(''readonly:new'')', 'idem_try_claim(''readonly:new'')', 'idem_begin(''readonly:new'')',
                         'idem_begin(''readonly:new'', lease => ''1 s'')', 'idem_claim_many(''{readonly:new}'')', 'idem_execute(''readonly:new'', ''SELECT 1'')',
                         'idem_consume(''readonly'', ''readonly:new'')', 'idem_http_begin(''readonly'', ''POST'', ''/'', ''readonly:new'')',
                         'idem_claim(''readonly:expired'')', 'idem_renew(''readonly:live'', current_setting(''tap.fence'')::bigint)', 'idem_hit(''readonly:new'')',
                         'idem_lock(''readonly:new'')', 'idem_forget(''readonly:done'')', 'idem_scope_reset(''readonly:manual'', ''ttl'')']) AS call,
            pg_temp.message_of('SELECT * FROM ' || call) AS message
      WHERE message <> format('cannot execute %s() in a read-only transaction', substring(call, '\w+'))),
    NULL, 'messages_name_the_function');
SELECT is(idem_key('a', '1') || length(idem_fingerprint('{}')), 'a:133', 'pure_functions');
COMMIT;
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'readonly:new'), 0::bigint, 'nothing_was_written');

CALL pg_temp.clean('readonly:');
SELECT * FROM finish();
