-- idem_lookup: one row for a live committed key, none otherwise; neither fence nor owner.
\ir ../include/helpers.psql
SELECT plan(21);
CALL pg_temp.clean('lookup:');

CREATE FUNCTION pg_temp.info(i idem.idem_key_info) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_strip_nulls(to_jsonb(i) - 'response_omitted'
        || jsonb_build_object('created_at', CASE WHEN i.created_at IS NOT NULL THEN 'set' END,
                              'expires_at', CASE WHEN i.expires_at IS NOT NULL THEN 'set' END,
                              'lease_until', CASE WHEN i.lease_until IS NOT NULL THEN 'set' END))
$$;

SELECT is((SELECT count(*) FROM idem_lookup('lookup:absent')), 0::bigint, 'absent_key_has_no_row');

SELECT fence FROM idem_begin('lookup:a', ttl => '1 hour', lease => '1 min', owner => 'me') \gset
SELECT is(pg_temp.info(i), '{"state": "in_progress", "attempt": 1, "created_at": "set", "expires_at": "set", "lease_until": "set"}',
    'in_progress') FROM idem_lookup('lookup:a') i;
SELECT ok(pg_temp.seconds_from_now(created_at) BETWEEN -5 AND 0
          AND pg_temp.seconds_from_now(expires_at) BETWEEN 3595 AND 3600
          AND pg_temp.seconds_from_now(lease_until) BETWEEN 55 AND 60, 'times_are_those_of_the_claim') FROM idem_lookup('lookup:a');
SELECT idem_step('lookup:a', :fence, 'charged', '{"id": 7}');
SELECT is(pg_temp.info(i) -> 'steps', '{"charged": {"id": 7}}', 'steps') FROM idem_lookup('lookup:a') i;

-- Whose is it?
SELECT is(idem_is_owner('lookup:a', 'me'), true, 'holder_is_the_owner');
SELECT is(idem_is_owner('lookup:a', 'ME'), false, 'another_is_not');
SELECT is(idem_is_owner('lookup:a', 'me', 'lookup:other scope'), false, 'nor_in_another_scope');
SELECT outcome FROM idem_begin('lookup:nobody', lease => '1 min');
SELECT is(idem_is_owner('lookup:nobody', ''), false, 'nobody_owns_a_key_without_owner');
SELECT is(idem_is_owner('lookup:none', 'me'), false, 'nobody_owns_no_key');
SELECT is(pg_temp.state_of($$ SELECT idem_is_owner('lookup:a', NULL) $$), '22004', 'owner_is_required');

SELECT idem_complete('lookup:a', '{"x": 1}', 200, :fence);
SELECT is(pg_temp.info(i) - 'steps',
    '{"state": "completed", "attempt": 1, "status_code": 200, "response": {"x": 1}, "created_at": "set", "expires_at": "set"}',
    'completed') FROM idem_lookup('lookup:a') i;
SELECT is(response_omitted, false, 'stored_response_is_not_omitted') FROM idem_lookup('lookup:a');

-- A client that lost the reply to its COMMIT looks whether it was its own.
BEGIN;
SELECT outcome FROM idem_begin('lookup:commit', owner => 'nonce');
COMMIT;
SELECT is(idem_is_owner(key => 'lookup:commit', owner => 'nonce', scope => NULL), true, 'owner_of_a_committed_claim_knows_it_again');
SELECT is(idem_is_owner('lookup:commit', 'other'), false, 'another_client_does_not');

SELECT fence FROM idem_begin('lookup:released', lease => '1 min') \gset
SELECT idem_release('lookup:released', :fence);
SELECT is(pg_temp.info(i), '{"state": "released", "attempt": 1, "created_at": "set", "expires_at": "set"}', 'released')
  FROM idem_lookup('lookup:released') i;

SELECT idem_scope_set('lookup:manual', on_lease_expiry => 'manual');
SELECT outcome FROM idem_begin('lookup:lapsed', lease => '1 ms');
SELECT outcome FROM idem_begin('lookup:doubt', lease => '1 ms', scope => 'lookup:manual');
SELECT idem_claim('lookup:expired', '1 ms');
CALL pg_temp.sleep('5 ms');
SELECT is(state, 'in_progress', 'lapsed_lease_is_still_in_progress') FROM idem_lookup('lookup:lapsed');
SELECT is(idem_try_claim('lookup:doubt', scope => 'lookup:manual'), 'in_doubt', 'lapsed_manual_lease_is_in_doubt');
SELECT is(state, 'in_doubt', 'once_somebody_asked') FROM idem_lookup('lookup:doubt', scope => 'lookup:manual');
SELECT is((SELECT count(*) FROM idem_lookup('lookup:expired')), 0::bigint, 'expired_key_has_no_row');
SELECT is((SELECT count(*) FROM idem_lookup('lookup:a', scope => 'lookup:other')), 0::bigint, 'key_of_another_scope_has_no_row');
SELECT is((SELECT string_agg(state, ' ' ORDER BY key)
             FROM unnest('{lookup:released,lookup:a,lookup:none}'::text[]) key, idem_lookup(key)),
    'completed released', 'lookup_of_each_row');

CALL pg_temp.clean('lookup:');
SELECT * FROM finish();
