-- The operator's functions on keys: idem_forget and idem_resolve.
\ir ../include/helpers.psql
SELECT plan(35);
CALL pg_temp.clean('operator:');
SELECT idem_scope_set('operator:manual', on_lease_expiry => 'manual');

-- Forget.
SELECT idem_claim('operator:a');
SELECT is(idem_forget('operator:a', 'operator:scope'), false, 'key_of_another_scope_is_not_forgotten');
SELECT is(idem_forget(key => 'operator:a', scope => ''), true, 'live_key_is_forgotten');
SELECT is(idem_forget('operator:a'), false, 'absent_key_cannot_be_forgotten');
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'operator:a'), 0::bigint, 'forgetting_deletes');
SELECT is(idem_claim('operator:a'), true, 'forgotten_key_is_new');
SELECT idem_claim('operator:expired', '1 ms');
CALL pg_temp.sleep('5 ms');
SELECT is(idem_forget('operator:expired'), false, 'expired_key_was_not_live');

SELECT fence AS first FROM idem_begin('operator:leased', lease => '1 hour') \gset
SELECT is(idem_forget('operator:leased'), true, 'live_lease_is_forgotten');
SELECT throws_ok(format($$ SELECT idem_complete('operator:leased', fence => %s) $$, :first), 'ID001', NULL,
    'forgotten_holder_is_stale');
SELECT ok(t.fence > :first AND t.attempt = 1, 'fence_grows_across_forgetting')
  FROM idem_begin('operator:leased', lease => '1 hour') t;

SELECT fence FROM idem_begin('operator:doubt', lease => '1 ms', scope => 'operator:manual') \gset
CALL pg_temp.sleep('5 ms');
SELECT is(idem_forget('operator:doubt', 'operator:manual'), true, 'key_in_doubt_is_forgotten');

-- Forget and claim in one transaction.
SELECT idem_claim('operator:again');
BEGIN;
SELECT is(idem_forget('operator:again'), true, 'forget_in_a_transaction');
SELECT is(idem_claim('operator:again'), true, 'forgotten_key_is_new_in_the_same_transaction');
SELECT is(idem_claim('operator:again'), false, 'and_claimed_once');
SELECT is(idem_forget('operator:again'), true, 'own_claim_is_forgotten');
SELECT is((SELECT outcome FROM idem_begin('operator:again', lease => '1 hour')), 'acquired', 'and_begun_anew');
COMMIT;
SELECT is((SELECT state FROM idem_lookup('operator:again')), 'in_progress', 'last_of_it_commits');
BEGIN;
SELECT idem_forget('operator:again');
ROLLBACK;
SELECT is((SELECT state FROM idem_lookup('operator:again')), 'in_progress', 'rolled_back_forgetting_did_not_happen');

-- Resolve as completed.
SELECT fence FROM idem_begin('operator:r1', idem_fingerprint('1'), lease => '1 ms', scope => 'operator:manual') \gset
SELECT idem_step('operator:r1', :fence, 'charged', scope => 'operator:manual');
CALL pg_temp.sleep('5 ms');
SELECT lives_ok($$ SELECT idem_resolve(key => 'operator:r1', resolution => 'completed', response => '{"charge": 1}',
                                       status_code => 200, scope => 'operator:manual') $$, 'key_in_doubt_is_resolved');
SELECT is(pg_temp.ticket(t) - 'attempt' - 'steps',
    '{"outcome": "completed", "status_code": 200, "response": {"charge": 1}}', 'resolution_is_replayed')
  FROM idem_begin('operator:r1', idem_fingerprint('1'), scope => 'operator:manual') t;
SELECT is((SELECT outcome FROM idem_begin('operator:r1', idem_fingerprint('2'), scope => 'operator:manual')), 'mismatch',
    'resolution_keeps_the_fingerprint');
SELECT throws_ok(format($$ SELECT idem_complete('operator:r1', '{"charge": 1}', 200, %s, 'operator:manual') $$, :fence),
    'ID001', NULL, 'resolution_draws_a_new_fence');

-- Resolve as released.
SELECT fence FROM idem_begin('operator:r2', lease => '1 ms', scope => 'operator:manual') \gset
SELECT idem_step('operator:r2', :fence, 'charged', scope => 'operator:manual');
CALL pg_temp.sleep('5 ms');
SELECT lives_ok($$ SELECT idem_resolve('operator:r2', 'released', scope => 'operator:manual') $$, 'key_in_doubt_is_released');
SELECT is((SELECT state FROM idem_lookup('operator:r2', scope => 'operator:manual')), 'released', 'and_stored_so');
SELECT throws_ok(format($$ SELECT idem_renew('operator:r2', %s, scope => 'operator:manual') $$, :fence), 'ID001', NULL,
    'holder_in_doubt_is_stale_after_the_resolution');
SELECT ok(pg_temp.ticket(t) = '{"outcome": "acquired", "attempt": 2, "fence": "set", "lease_until": "set",
                                "steps": {"charged": null}}' AND t.fence > :fence, 'released_by_an_operator_is_acquired')
  FROM idem_begin('operator:r2', lease => '1 hour', scope => 'operator:manual') t;

-- Resolve an abandoned key of the default policy.
SELECT fence FROM idem_begin('operator:abandoned', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT lives_ok($$ SELECT idem_resolve('operator:abandoned', 'completed') $$, 'abandoned_key_is_resolved');
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed"}', 'resolution_without_a_response')
  FROM idem_begin('operator:abandoned') t;

-- What cannot be resolved.
SELECT outcome FROM idem_begin('operator:live', lease => '1 hour');
SELECT throws_ok($$ SELECT idem_resolve('operator:live', 'completed') $$, 'ID005', NULL, 'live_lease_is_not_resolved');
SELECT throws_ok($$ SELECT idem_resolve('operator:absent', 'completed') $$, '55000', NULL, 'absent_key_is_not_resolved');
SELECT throws_ok($$ SELECT idem_resolve('operator:a', 'released') $$, '55000', NULL, 'completed_key_is_not_resolved');
SELECT fence FROM idem_begin('operator:released', lease => '1 hour') \gset
SELECT idem_release('operator:released', :fence);
SELECT throws_ok($$ SELECT idem_resolve('operator:released', 'completed') $$, '55000', NULL, 'released_key_is_not_resolved');
SELECT outcome FROM idem_begin('operator:bad', lease => '1 ms');
CALL pg_temp.sleep('5 ms');
SELECT is(
    (SELECT string_agg(pg_temp.state_of(format('SELECT idem_resolve(''operator:bad'', %L)', resolution)), ' ')
       FROM unnest(ARRAY['', 'Completed', 'completed ', 'in_doubt', 'forgotten']) resolution),
    '22023 22023 22023 22023 22023', 'unknown_resolution');
SELECT throws_ok($$ SELECT idem_resolve('operator:bad', NULL) $$, '22004', NULL, 'null_resolution');
SELECT throws_ok($$ SELECT idem_resolve('operator:bad', 'released', '{}') $$, '22023', NULL, 'released_key_takes_no_response');
SELECT throws_ok($$ SELECT idem_resolve('operator:bad', 'released', NULL, 200) $$, '22023', NULL, 'released_key_takes_no_status_code');

CALL pg_temp.clean('operator:');
SELECT * FROM finish();
