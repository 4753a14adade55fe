-- idem_begin with a lease, while the lease is live: in flight, re-entrance, mismatch.
\ir ../include/helpers.psql
SELECT plan(33);
CALL pg_temp.clean('lease:');

SELECT is(pg_temp.ticket(t), '{"outcome": "acquired", "attempt": 1, "fence": "set", "lease_until": "set"}',
    'fresh_key_is_acquired_with_a_fence') FROM idem_begin('lease:a', lease => '1 hour') t;
SELECT ok(pg_temp.seconds_from_now(t.lease_until) BETWEEN 3599 AND 3600, 'lease_ends_when_it_was_asked_to')
  FROM idem_begin('lease:hour', lease => '1 hour') t;
SELECT is(pg_temp.ticket(t) - 'steps',
    '{"outcome": "in_flight", "attempt": 1, "lease_until": "set", "retry_after_ms": "set"}',
    'live_lease_is_in_flight_without_fence_or_response') FROM idem_begin('lease:hour') t;
SELECT ok(t.retry_after_ms BETWEEN 3590000 AND 3600000
          AND abs(pg_temp.seconds_from_now(t.lease_until) - t.retry_after_ms / 1000.0) < 5,
    'retry_after_is_what_is_left_of_the_lease') FROM idem_begin('lease:hour') t;
SELECT is((SELECT outcome FROM idem_begin('lease:hour', lease => '1 hour')), 'in_flight',
    'two_callers_without_owner_are_two');
SELECT is((SELECT outcome FROM idem_begin('lease:hour', lease => '1 hour', owner => 'x')), 'in_flight',
    'owner_does_not_enter_a_lease_without_owner');
SELECT throws_ok($$ SELECT idem_begin('lease:anybody', lease => '1 hour', owner => '') $$, '22023', 'owner must not be empty', 'owner_has_a_name');
SELECT is((SELECT outcome FROM idem_begin('lease:hour', scope => 'lease:scope', lease => '1 hour')), 'acquired', 'another_scope');

-- Re-entrance: the owner whose reply got lost asks again.
SELECT fence, lease_until FROM idem_begin('lease:own', idem_fingerprint('1'), lease => '1 min', owner => 'me') \gset
SELECT idem_step('lease:own', :fence, 'half way');
SELECT is(pg_temp.ticket(t),
    '{"outcome": "acquired", "attempt": 1, "fence": "set", "lease_until": "set", "steps": {"half way": null}}',
    'owner_enters_again') FROM idem_begin('lease:own', idem_fingerprint('1'), lease => '1 hour', owner => 'me') t;
SELECT is(t.fence, :fence, 'owner_keeps_its_fence') FROM idem_begin('lease:own', lease => '1 hour', owner => 'me') t;
SELECT ok(pg_temp.seconds_from_now(t.lease_until) BETWEEN 7190 AND 7200, 'owner_renews_its_lease')
  FROM idem_begin('lease:own', lease => '2 hours', owner => 'me') t;
SELECT ok(pg_temp.seconds_from_now(lease_until) BETWEEN 7190 AND 7200, 'renewed_lease_is_stored') FROM idem_lookup('lease:own');
SELECT is((SELECT outcome FROM idem_begin('lease:own', lease => '1 hour', owner => 'other')), 'in_flight', 'another_owner_waits');
SELECT is((SELECT outcome FROM idem_begin('lease:own', lease => '1 hour')), 'in_flight', 'no_owner_waits');
SELECT is((SELECT outcome FROM idem_begin('lease:own', lease => '1 hour', owner => 'ME')), 'in_flight', 'owners_are_case_sensitive');
SELECT is((SELECT outcome FROM idem_begin('lease:own', lease => '1 hour', owner => 'me ')), 'in_flight', 'owners_keep_their_blanks');

-- Another request with the same key.
SELECT is(pg_temp.ticket(t), '{"outcome": "mismatch"}', 'mismatch_reveals_nothing_of_a_running_request')
  FROM idem_begin('lease:own', idem_fingerprint('2')) t;
SELECT is(pg_temp.ticket(t), '{"outcome": "mismatch"}', 'owner_does_not_enter_with_another_request')
  FROM idem_begin('lease:own', idem_fingerprint('2'), lease => '1 hour', owner => 'me') t;

-- Which fingerprints are compared.
SELECT outcome FROM idem_begin('lease:v1', '\x01'::bytea || sha256('a'), lease => '1 hour');
SELECT is((SELECT outcome FROM idem_begin('lease:v1', '\x02'::bytea || sha256('b'))), 'in_flight',
    'fingerprints_of_another_version_are_not_compared');
SELECT is((SELECT outcome FROM idem_begin('lease:v1', '\x01'::bytea || sha256('b'))), 'mismatch',
    'fingerprints_of_one_version_are_compared');
SELECT is((SELECT outcome FROM idem_begin('lease:v1', sha256('a'))), 'mismatch', 'fingerprints_of_the_callers_own_are_compared');
SELECT is((SELECT outcome FROM idem_begin('lease:v1', '\x01'::bytea || sha256('a'))), 'in_flight', 'same_fingerprint');
SELECT is((SELECT outcome FROM idem_begin('lease:long', decode(repeat('ab', 255), 'hex'), lease => '1 hour')), 'acquired',
    'fingerprint_of_255_bytes');
SELECT is((SELECT outcome FROM idem_begin('lease:long', decode(repeat('ab', 254) || 'ac', 'hex'))), 'mismatch',
    'last_byte_of_a_fingerprint_counts');
SELECT is((SELECT outcome FROM idem_begin('lease:long', decode(repeat('ab', 254), 'hex'))), 'mismatch',
    'prefix_of_a_fingerprint_is_another');

-- The own transaction.
BEGIN;
SELECT fence AS own FROM idem_begin('lease:mine', idem_fingerprint('1'), lease => '1 hour', owner => 'me') \gset
SELECT is((SELECT outcome FROM idem_begin('lease:mine', lease => '1 hour')), 'in_flight', 'own_lease_begun_without_owner');
SELECT is((SELECT outcome FROM idem_begin('lease:mine', idem_fingerprint('2'), lease => '1 hour', owner => 'other')), 'in_flight',
    'own_lease_begun_by_another_owner_is_not_compared');
SELECT is((SELECT fence FROM idem_begin('lease:mine', lease => '1 hour', owner => 'me')), :own, 'own_lease_entered_again');
SELECT throws_ok($$ SELECT idem_claim('lease:mine') $$, 'ID005', NULL, 'own_lease_claimed');
SELECT lives_ok(format($$ SELECT idem_complete('lease:mine', '1', fence => %s) $$, :own), 'own_lease_completed');
SELECT is((SELECT outcome FROM idem_begin('lease:mine')), 'completed', 'own_completion_is_seen');
ROLLBACK;

-- Fences.
SELECT ok(fence > :own, 'fence_of_a_rolled_back_claim_is_not_given_out_again') FROM idem_begin('lease:mine', lease => '1 hour');
SELECT ok(bool_and(coalesce(fence > before, true)), 'fences_grow')
  FROM (SELECT t.fence, lag(t.fence) OVER (ORDER BY n) AS before
          FROM generate_series(1, 1000) n, idem_begin('lease:n' || n, lease => '1 hour') t) AS drawn;

CALL pg_temp.clean('lease:');
SELECT * FROM finish();
