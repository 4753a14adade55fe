-- idem_begin without a lease: claim, business rows and response commit together.
\ir ../include/helpers.psql
SELECT plan(26);
CALL pg_temp.clean('begin:');

BEGIN;
SELECT is(pg_temp.ticket(t), '{"outcome": "acquired", "attempt": 1}', 'fresh_key_is_acquired_without_a_fence')
  FROM idem_begin('begin:a') t;
COMMIT;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed"}', 'claim_is_completed_even_without_a_response')
  FROM idem_begin('begin:a') t;
SELECT is(t.response_omitted, false, 'response_that_never_was_is_not_omitted') FROM idem_begin('begin:a') t;
SELECT is(idem_claim('begin:a'), false, 'begin_and_claim_share_their_keys');
BEGIN;
SELECT is(pg_temp.ticket(t), '{"outcome": "acquired", "attempt": 1}', 'arguments_by_name')
  FROM idem_begin(key => 'begin:a', fingerprint => idem_fingerprint('{}'), ttl => '1 hour', lease => NULL,
                  owner => 'nonce', wait => '0', scope => 'begin:scope') t;
COMMIT;

-- The response commits with the claim and is replayed.
BEGIN;
SELECT is((SELECT outcome FROM idem_begin('begin:paid', idem_fingerprint('{"amount": 5}'))), 'acquired', 'request_runs');
SELECT idem_complete('begin:paid', '{"charge": 17}', 201);
COMMIT;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "status_code": 201, "response": {"charge": 17}}',
    'replay_carries_response_and_status_code')
  FROM idem_begin('begin:paid', idem_fingerprint('{"amount": 5.0}')) t;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "status_code": 201, "response": {"charge": 17}}',
    'replay_without_a_fingerprint') FROM idem_begin('begin:paid') t;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "status_code": 201, "response": {"charge": 17}}',
    'leased_begin_of_a_completed_key_replays') FROM idem_begin('begin:paid', lease => '1 hour', owner => 'late') t;
SELECT is(pg_temp.ticket(t), '{"outcome": "mismatch"}', 'other_request_with_this_key_learns_nothing')
  FROM idem_begin('begin:paid', idem_fingerprint('{"amount": 6}')) t;
SELECT ok(t.response_omitted IS NULL AND t.status_code IS NULL, 'mismatch_has_null_in_every_other_column')
  FROM idem_begin('begin:paid', idem_fingerprint('{"amount": 6}')) t;
SELECT is(pg_temp.ticket(t), '{"outcome": "mismatch"}', 'leased_begin_compares_too')
  FROM idem_begin('begin:paid', idem_fingerprint('{"amount": 6}'), lease => '1 hour') t;

-- JSON null is a response; SQL NULL is none.
BEGIN;
SELECT outcome FROM idem_begin('begin:null');
SELECT idem_complete('begin:null', 'null');
COMMIT;
SELECT is((SELECT response FROM idem_begin('begin:null')), 'null'::jsonb, 'json_null_is_a_response');
SELECT is((SELECT response FROM idem_begin('begin:a')), NULL, 'no_response_is_null');

-- The own transaction: the claim is as good as completed.
BEGIN;
SELECT is((SELECT outcome FROM idem_begin('begin:own', idem_fingerprint('1'), owner => 'me')), 'acquired', 'own_claim');
SELECT is((SELECT outcome FROM idem_begin('begin:own', idem_fingerprint('1'), owner => 'me')), 'completed', 'own_claim_again');
SELECT is((SELECT outcome FROM idem_begin('begin:own', idem_fingerprint('2'))), 'completed', 'own_claim_is_not_compared');
SELECT is((SELECT outcome FROM idem_begin('begin:own', lease => '1 hour')), 'completed', 'own_claim_begun_with_a_lease');
SELECT is(idem_claim('begin:own'), false, 'own_begin_claimed_again');
SELECT idem_complete('begin:own', '"done"');
SELECT is((SELECT response FROM idem_begin('begin:own')), '"done"', 'own_response_is_replayed_at_once');
ROLLBACK;
BEGIN;
SELECT is((SELECT outcome FROM idem_begin('begin:own')), 'acquired', 'rollback_gives_the_claim_back');
COMMIT;

-- Lease rows met by a transactional begin.
SELECT fence AS fence FROM idem_begin('begin:leased', lease => '1 hour', owner => 'me') \gset
SELECT is(pg_temp.ticket(t) - 'steps',
    '{"outcome": "in_flight", "attempt": 1, "lease_until": "set", "retry_after_ms": "set"}',
    'owner_of_a_lease_cannot_begin_without_one') FROM idem_begin('begin:leased', owner => 'me') t;
SELECT idem_step('begin:leased', :fence, 'charged');
SELECT idem_renew('begin:leased', :fence, '1 ms');
CALL pg_temp.sleep('5 ms');
BEGIN;
SELECT is(pg_temp.ticket(t), '{"outcome": "taken_over", "attempt": 2, "steps": {"charged": null}}',
    'transactional_takeover_has_no_fence') FROM idem_begin('begin:leased', owner => 'me') t;
COMMIT;
SELECT is((SELECT state FROM idem_lookup('begin:leased')), 'completed', 'transactional_takeover_is_completed_at_commit');

-- A retention ends.
BEGIN;
SELECT outcome FROM idem_begin('begin:expired', idem_fingerprint('1'), ttl => '10 ms');
COMMIT;
CALL pg_temp.sleep('20 ms');
BEGIN;
SELECT is(pg_temp.ticket(t), '{"outcome": "acquired", "attempt": 1}', 'expired_key_takes_any_request')
  FROM idem_begin('begin:expired', idem_fingerprint('2')) t;
COMMIT;
SELECT is((SELECT outcome FROM idem_begin('begin:expired', idem_fingerprint('1'))), 'mismatch',
    'expired_key_forgets_its_fingerprint');

CALL pg_temp.clean('begin:');
SELECT * FROM finish();
