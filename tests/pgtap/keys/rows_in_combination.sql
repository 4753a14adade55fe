-- Rows of the state table that only show in combination: what one row says must not leak into another.
\ir ../include/helpers.psql
SELECT plan(25);
CALL pg_temp.clean('rows:');
SELECT idem_scope_set('rows-manual', on_lease_expiry => 'manual');

-- The manual policy keeps a doubt for ever, not a completed key.
SELECT ok(idem_claim('rows:1', '1 ms', 'rows-manual'), 'claimed_in_a_manual_scope');
SELECT pg_sleep(0.005);
SELECT ok(idem_claim('rows:1', scope => 'rows-manual'), 'completed_key_expires_in_a_manual_scope');

-- A completed leased key is not a transactional claim, not even in the transaction that made it.
BEGIN;
SELECT fence FROM idem_begin('rows:2', idem_fingerprint('1'), lease => '1 h') \gset own_
SELECT idem_complete('rows:2', fence => :own_fence);
SELECT is((SELECT outcome::text FROM idem_begin('rows:2', idem_fingerprint('2'))), 'mismatch', 'own_completed_lease_still_has_its_fingerprint');
SELECT throws_ok($$ SELECT idem_complete('rows:2', '1') $$, 'ID001', NULL, 'own_completed_lease_takes_no_response_without_a_fence');
COMMIT;

-- One's own leased claim is in flight while its lease is live, unless the begin is a leased one of the same owner. Then it is taken over as any other.
BEGIN;
SELECT is((SELECT outcome::text FROM idem_begin('rows:3', lease => '1 h', owner => 'me')), 'acquired', 'own_lease');
SELECT is((SELECT outcome::text FROM idem_begin('rows:3', owner => 'me')), 'in_flight', 'own_live_lease_begun_without_a_lease');
SELECT outcome FROM idem_begin('rows:3', lease => '1 ms', owner => 'me') \gset
SELECT pg_sleep(0.005);
SELECT is((SELECT outcome::text FROM idem_begin('rows:3', owner => 'me')), 'taken_over', 'own_lapsed_lease_begun_without_a_lease');
COMMIT;

-- A released key with a step still belongs to its request.
SELECT fence FROM idem_begin('rows:4', idem_fingerprint('1'), lease => '1 h') \gset released_
SELECT idem_step('rows:4', :released_fence, 'paid', '1');
SELECT idem_release('rows:4', :released_fence);
SELECT is((SELECT outcome::text FROM idem_begin('rows:4', idem_fingerprint('2'))), 'mismatch', 'released_key_with_another_fingerprint');
BEGIN;
SELECT is((SELECT outcome::text FROM idem_begin('rows:4', idem_fingerprint('1'))), 'acquired', 'released_key_with_its_fingerprint');
COMMIT;

-- In doubt, the holder may complete, and nothing else.
SELECT fence FROM idem_begin('rows:5', lease => '1 ms', scope => 'rows-manual') \gset doubt_
SELECT pg_sleep(0.005);
SELECT is(idem_try_claim('rows:5', scope => 'rows-manual')::text, 'in_doubt', 'lapsed_in_a_manual_scope');
SELECT throws_ok(format($$ SELECT idem_renew('rows:5', %s, scope => 'rows-manual') $$, :doubt_fence), 'ID001', NULL, 'doubt_is_not_renewed');
SELECT throws_ok(format($$ SELECT idem_step('rows:5', %s, 'p', scope => 'rows-manual') $$, :doubt_fence), 'ID001', NULL, 'doubt_takes_no_step');
SELECT throws_ok(format($$ SELECT idem_release('rows:5', %s, 'rows-manual') $$, :doubt_fence), 'ID001', NULL, 'doubt_is_not_released');
SELECT lives_ok(format($$ SELECT idem_complete('rows:5', '"late"', fence => %s, scope => 'rows-manual') $$, :doubt_fence), 'doubt_is_completed_late');

-- A takeover's fence exceeds the last one, wherever that came from.
SELECT is((SELECT outcome::text FROM idem_begin('rows:6', lease => '1 ms')), 'acquired', 'to_be_taken_over');
UPDATE idem_keys SET fence = fence + 60000000 WHERE key = 'rows:6' RETURNING fence \gset raised_
SELECT pg_sleep(0.005);
SELECT cmp_ok((SELECT fence FROM idem_begin('rows:6', lease => '1 h')), '>', :raised_fence::bigint, 'takeover_exceeds_the_last_fence');

-- Each attempt has the retention that its claim asked for.
SELECT fence FROM idem_begin('rows:7', ttl => '1 h', lease => '1 ms') \gset first_
SELECT pg_sleep(0.005);
SELECT fence FROM idem_begin('rows:7', ttl => '2 h', lease => '1 h') \gset second_
SELECT ok(expires_at - clock_timestamp() BETWEEN '1:59' AND '2:00', 'retention_of_the_takeover') FROM idem_lookup('rows:7');
SELECT idem_release('rows:7', :second_fence);
BEGIN;
SELECT is((SELECT outcome::text FROM idem_begin('rows:7', ttl => '3 h')), 'acquired', 'released_and_begun_again');
COMMIT;
SELECT ok(expires_at - clock_timestamp() BETWEEN '2:59' AND '3:00', 'retention_after_a_release') FROM idem_lookup('rows:7');

-- A fingerprint that comes with a later begin counts from then on.
SELECT count(*) FROM idem_begin('rows:8', lease => '1 h', owner => 'me');
SELECT count(*) FROM idem_begin('rows:8', idem_fingerprint('1'), lease => '1 h', owner => 'me');
SELECT is((SELECT outcome::text FROM idem_begin('rows:8', idem_fingerprint('2'))), 'mismatch', 'fingerprint_given_when_begun_again');
SELECT count(*) FROM idem_begin('rows:9', lease => '1 ms');
SELECT pg_sleep(0.005);
SELECT count(*) FROM idem_begin('rows:9', idem_fingerprint('1'), lease => '1 h');
SELECT is((SELECT outcome::text FROM idem_begin('rows:9', idem_fingerprint('2'))), 'mismatch', 'fingerprint_given_at_takeover');

-- Rows that moved to other pages, long keys and many versions are found as any other.
SELECT count(*) FROM generate_series(1, 200) n, idem_begin('rows:moved:' || n, lease => '1 h') t,
       LATERAL (SELECT idem_step('rows:moved:' || n, t.fence, 'long', to_jsonb(repeat(md5(n::text), 60)))) c;
SELECT is((SELECT count(*) FROM generate_series(1, 200) n WHERE idem_try_claim('rows:moved:' || n) = 'in_flight'), 200::bigint, 'rows_that_moved');
SELECT is((SELECT count(*) FROM generate_series(1, 200) n WHERE idem_try_claim('rows:' || repeat('ab', 500) || n) = 'acquired'), 200::bigint,
    'long_keys_are_claimed');
SELECT is((SELECT count(*) FROM generate_series(1, 200) n WHERE idem_try_claim('rows:' || repeat('ab', 500) || n) = 'completed'), 200::bigint,
    'long_keys_are_found');
SELECT fence FROM idem_begin('rows:busy', lease => '1 h') \gset busy_
SELECT count(*) FROM generate_series(1, 300) n, LATERAL (SELECT idem_renew('rows:busy', :busy_fence)) r,
       LATERAL (SELECT idem_step('rows:busy', :busy_fence, n::text, to_jsonb(n))) c;
SELECT is(idem_try_claim('rows:busy')::text, 'in_flight', 'hundreds_of_versions');

SELECT idem_scope_drop('rows-manual');
CALL pg_temp.clean('rows:');
SELECT * FROM finish();
