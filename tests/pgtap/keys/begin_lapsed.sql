-- idem_begin when a lease, or the retention, has run out: takeover, doubt, expiry.
\ir ../include/helpers.psql
SELECT plan(36);
CALL pg_temp.clean('lapse:');

-- Takeover, the default policy.
SELECT fence AS first FROM idem_begin('lapse:a', idem_fingerprint('1'), lease => '1 ms', owner => 'one') \gset
SELECT idem_step('lapse:a', :first, 'charged');
CALL pg_temp.sleep('5 ms');
SELECT is(pg_temp.ticket(t), '{"outcome": "mismatch"}', 'lapsed_key_still_belongs_to_its_request')
  FROM idem_begin('lapse:a', idem_fingerprint('2'), lease => '1 hour') t;
SELECT fence AS second FROM idem_begin('lapse:a', idem_fingerprint('1'), lease => '1 ms', owner => 'two') \gset
SELECT ok(:second > :first, 'takeover_draws_a_greater_fence');
CALL pg_temp.sleep('5 ms');
SELECT is(pg_temp.ticket(t),
    '{"outcome": "taken_over", "attempt": 3, "fence": "set", "lease_until": "set", "steps": {"charged": null}}',
    'takeover_carries_the_steps') FROM idem_begin('lapse:a', lease => '1 hour', owner => 'three') t;
SELECT is(
    (SELECT string_agg(call || ': ' || state, ', ')
       FROM unnest(ARRAY[:first, :second]) fence,
            unnest(ARRAY['idem_renew(%L, %s)', 'idem_step(%L, %s, ''x'')', 'idem_complete(%L, fence => %s)',
                         'idem_release(%L, %s)']) call,
            pg_temp.state_of('SELECT ' || format(call, 'lapse:a', fence)) AS state
      WHERE state <> 'ID001'),
    NULL, 'holders_that_were_taken_over_are_stale');
SELECT is((SELECT outcome FROM idem_begin('lapse:a', lease => '1 hour', owner => 'one')), 'in_flight',
    'owner_that_was_taken_over_does_not_enter_again');
SELECT is((SELECT attempt FROM idem_lookup('lapse:a')), 3, 'stale_holders_changed_nothing');

-- What the holder before left behind.
SELECT outcome FROM idem_begin('lapse:anew', lease => '1 ms', owner => 'one');
SELECT created_at AS before FROM idem_lookup('lapse:anew') \gset
CALL pg_temp.sleep('5 ms');
SELECT is((SELECT outcome FROM idem_begin('lapse:anew', lease => '1 hour')), 'taken_over', 'takeover_without_an_owner');
SELECT ok(created_at > :'before', 'created_at_is_when_the_current_attempt_was_claimed') FROM idem_lookup('lapse:anew');
SELECT is((SELECT outcome FROM idem_begin('lapse:anew', lease => '1 hour', owner => 'one')), 'in_flight',
    'takeover_without_an_owner_ends_the_ownership_before');
SELECT is(idem_is_owner('lapse:anew', 'one'), false, 'and_is_owner_knows');

-- The owner comes back before anybody else.
SELECT fence FROM idem_begin('lapse:back', lease => '1 ms', owner => 'me') \gset
CALL pg_temp.sleep('5 ms');
SELECT is(pg_temp.ticket(t), '{"outcome": "acquired", "attempt": 1, "fence": "set", "lease_until": "set"}',
    'owner_enters_its_lapsed_lease_again') FROM idem_begin('lapse:back', lease => '1 hour', owner => 'me') t;
SELECT is((SELECT fence FROM idem_begin('lapse:back', lease => '1 hour', owner => 'me')), :fence, 'and_keeps_its_fence');

-- Lapsed but untaken: the holder may go on.
SELECT fence FROM idem_begin('lapse:late', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT lives_ok(format($$ SELECT idem_step('lapse:late', %s, 'x') $$, :fence), 'lapsed_lease_takes_a_step');
SELECT ok(pg_temp.seconds_from_now(idem_renew('lapse:late', :fence, '1 ms')) < 1, 'lapsed_lease_can_be_renewed');
CALL pg_temp.sleep('5 ms');
SELECT lives_ok(format($$ SELECT idem_complete('lapse:late', '"late"', fence => %s) $$, :fence), 'lapsed_lease_can_be_completed');
SELECT is((SELECT response FROM idem_begin('lapse:late')), '"late"', 'late_completion_is_replayed');

-- The policy manual: nobody but its holder, its owner or an operator touches it.
SELECT idem_scope_set('lapse:manual', on_lease_expiry => 'manual');
SELECT fence FROM idem_begin('lapse:m', idem_fingerprint('1'), lease => '1 ms', owner => 'me', scope => 'lapse:manual') \gset
SELECT is((SELECT outcome FROM idem_begin('lapse:live', lease => '1 hour', scope => 'lapse:manual')), 'acquired', 'manual_fresh');
SELECT is((SELECT outcome FROM idem_begin('lapse:live', lease => '1 hour', scope => 'lapse:manual')), 'in_flight', 'manual_live');
CALL pg_temp.sleep('5 ms');
SELECT is(pg_temp.ticket(t) - '{attempt,lease_until,steps}'::text[], '{"outcome": "in_doubt"}',
    'lapsed_manual_key_is_in_doubt_and_reveals_no_fence')
  FROM idem_begin('lapse:m', lease => '1 hour', owner => 'other', scope => 'lapse:manual') t;
SELECT is((SELECT outcome FROM idem_begin('lapse:m', scope => 'lapse:manual')), 'in_doubt', 'transactional_begin_is_told_too');
SELECT is(pg_temp.ticket(t), '{"outcome": "mismatch"}', 'other_request_learns_nothing_of_the_doubt')
  FROM idem_begin('lapse:m', idem_fingerprint('2'), scope => 'lapse:manual') t;
SELECT lives_ok(format($$ SELECT idem_complete('lapse:m', '"after all"', fence => %s, scope => 'lapse:manual') $$, :fence),
    'holder_resolves_the_doubt_by_completing');
SELECT is((SELECT response FROM idem_begin('lapse:m', scope => 'lapse:manual')), '"after all"', 'and_its_response_is_replayed');

SELECT fence FROM idem_begin('lapse:m2', lease => '1 ms', owner => 'me', scope => 'lapse:manual') \gset
CALL pg_temp.sleep('5 ms');
SELECT is((SELECT fence FROM idem_begin('lapse:m2', lease => '1 hour', owner => 'me', scope => 'lapse:manual')), :fence,
    'owner_enters_its_lapsed_manual_lease_again');

-- Lease and retention are two durations.
SELECT fence FROM idem_begin('lapse:short ttl', ttl => '5 ms', lease => '1 hour') \gset
SELECT outcome FROM idem_begin('lapse:both', idem_fingerprint('1'), ttl => '5 ms', lease => '1 ms', owner => 'me');
SELECT outcome FROM idem_begin('lapse:doubt', ttl => '5 ms', lease => '1 ms', scope => 'lapse:manual');
CALL pg_temp.sleep('20 ms');
SELECT is((SELECT outcome FROM idem_begin('lapse:short ttl', lease => '1 hour')), 'in_flight',
    'key_with_a_live_lease_does_not_expire');
SELECT is((SELECT state FROM idem_lookup('lapse:short ttl')), 'in_progress', 'and_is_found');
SELECT lives_ok(format($$ SELECT idem_complete('lapse:short ttl', fence => %s) $$, :fence), 'and_can_be_completed');
SELECT is((SELECT count(*) FROM idem_lookup('lapse:doubt', scope => 'lapse:manual')), 1::bigint,
    'lapsed_manual_key_does_not_expire_before_anybody_asked');
SELECT is((SELECT outcome FROM idem_begin('lapse:doubt', scope => 'lapse:manual')), 'in_doubt', 'key_in_doubt_does_not_expire');
SELECT is((SELECT state FROM idem_lookup('lapse:doubt', scope => 'lapse:manual')), 'in_doubt', 'and_is_found');
SELECT is((SELECT count(*) FROM idem_lookup('lapse:both')), 0::bigint, 'expired_key_is_not_found');
SELECT is(pg_temp.ticket(t), '{"outcome": "acquired", "attempt": 1, "fence": "set", "lease_until": "set"}',
    'expired_key_is_acquired_not_taken_over')
  FROM idem_begin('lapse:both', idem_fingerprint('2'), lease => '1 hour', owner => 'you') t;

-- A takeover that is rolled back leaves the holder in place.
SELECT fence FROM idem_begin('lapse:undone', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
BEGIN;
SELECT is((SELECT outcome FROM idem_begin('lapse:undone', lease => '1 hour')), 'taken_over', 'takeover_in_a_transaction');
ROLLBACK;
SELECT lives_ok(format($$ SELECT idem_complete('lapse:undone', fence => %s) $$, :fence), 'rolled_back_takeover_leaves_the_holder');

-- Released: free, but the next attempt.
SELECT fence AS first FROM idem_begin('lapse:released', idem_fingerprint('1'), lease => '1 hour', owner => 'me') \gset
SELECT idem_step('lapse:released', :first, 'reserved');
SELECT idem_release('lapse:released', :first);
SELECT is(pg_temp.ticket(t),
    '{"outcome": "acquired", "attempt": 2, "fence": "set", "lease_until": "set", "steps": {"reserved": null}}',
    'released_key_is_acquired_for_the_next_attempt')
  FROM idem_begin('lapse:released', idem_fingerprint('1'), lease => '1 hour', owner => 'me') t;
SELECT throws_ok(format($$ SELECT idem_complete('lapse:released', fence => %s) $$, :first), 'ID001', NULL,
    'fence_of_the_released_attempt_is_stale');

CALL pg_temp.clean('lapse:');
SELECT * FROM finish();
