-- idem_claim: every state of the key that it can meet in one session. Statements commit one by one.
\ir ../include/helpers.psql
SELECT plan(31);
CALL pg_temp.clean('claim:');

SELECT is(idem_claim('claim:a'), true, 'fresh_key_is_new');
SELECT is(idem_claim('claim:a'), false, 'claimed_key_is_a_duplicate');
SELECT is(idem_claim('claim:a', scope => 'claim:other'), true, 'same_key_in_another_scope_is_new');
SELECT is(idem_claim('claim:a', scope => 'claim:other'), false, 'and_a_duplicate_there');
SELECT is(idem_claim(key => 'claim:b', ttl => '1 hour', scope => ''), true, 'arguments_by_name');
SELECT is(idem_claim('claim:b'::varchar, NULL, 'claim:'::name::text), true, 'null_ttl_is_the_default');
SELECT is((SELECT state FROM idem_lookup('claim:a')), 'completed', 'claim_is_completed_at_commit');

-- Keys are compared bytewise.
SELECT is(
    (SELECT array_agg(idem_claim('claim:' || variant))
       FROM unnest(ARRAY['x', 'X', 'x ', ' x', E'x\n', E'x\t', 'x%', '''x''', '"x"', 'é', U&'e\0301', 'x\', 'null']) variant),
    array_fill(true, ARRAY[13]), 'keys_that_look_alike_are_different');
SELECT is(idem_claim('claim:x' COLLATE "POSIX"), false, 'collation_of_the_argument_does_not_matter');
SELECT is(idem_claim(E'claim:\U0001F511 key'), true, 'letters_outside_the_basic_plane');

-- One statement, many calls.
SELECT is((SELECT array_agg(idem_claim('claim:thrice')) FROM generate_series(1, 3)), '{t,f,f}', 'one_statement_sees_its_own_claim');
SELECT is((SELECT count(*) FROM generate_series(1, 1000) n WHERE idem_claim('claim:many' || n % 100)), 100::bigint,
    'claims_in_a_where_clause');

-- A leased key.
SELECT is((SELECT outcome FROM idem_begin('claim:leased', lease => '1 hour')), 'acquired', 'leased_key');
SELECT throws_ok($$ SELECT idem_claim('claim:leased') $$, 'ID005', NULL, 'claim_of_a_live_lease_has_no_outcome');
SELECT fence AS fence FROM idem_begin('claim:lapsed', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT is(idem_claim('claim:lapsed'), true, 'claim_takes_a_lapsed_lease_over');
SELECT is(idem_claim('claim:lapsed'), false, 'what_was_taken_over_is_completed');
SELECT throws_ok(format($$ SELECT idem_complete('claim:lapsed', fence => %s) $$, :fence), 'ID001', NULL,
    'holder_that_lost_its_lease_to_a_claim_is_stale');

SELECT idem_scope_set('claim:manual', on_lease_expiry => 'manual');
SELECT is((SELECT outcome FROM idem_begin('claim:k', lease => '1 ms', scope => 'claim:manual')), 'acquired',
    'leased_key_with_manual_policy');
CALL pg_temp.sleep('5 ms');
SELECT throws_ok($$ SELECT idem_claim('claim:k', scope => 'claim:manual') $$, 'ID005', NULL,
    'claim_of_a_key_in_doubt_has_no_outcome');

-- A released key.
SELECT fence AS fence FROM idem_begin('claim:released', lease => '1 hour') \gset
SELECT idem_release('claim:released', :fence);
SELECT is(idem_claim('claim:released'), true, 'released_key_is_free');
SELECT is((SELECT attempt FROM idem_lookup('claim:released')), 2, 'claim_after_a_release_is_the_next_attempt');

-- An expired key is taken over in place.
SELECT is(idem_claim('claim:expired', '20 ms'), true, 'key_with_a_short_retention');
SELECT created_at AS first_claim FROM idem_keys WHERE key = 'claim:expired' \gset
CALL pg_temp.sleep('30 ms');
SELECT clock_timestamp() AS before \gset
SELECT is(idem_claim('claim:expired', '1 hour'), true, 'expired_key_is_new_again');
SELECT is(idem_claim('claim:expired'), false, 'and_then_a_duplicate');
SELECT results_eq($$ SELECT state, attempt, response FROM idem_lookup('claim:expired') $$,
    $$ VALUES ('completed', 1, NULL::jsonb) $$, 'expired_key_starts_with_the_first_attempt');
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'claim:expired'), 1::bigint, 'expired_key_is_taken_over_in_place');
SELECT ok((SELECT expires_at - created_at BETWEEN interval '3599 s' AND interval '3601 s'
                  AND created_at BETWEEN :'before' AND clock_timestamp()
             FROM idem_lookup('claim:expired')),
    'expired_key_has_a_new_retention');

-- A duplicate as an error, for batches that cannot branch.
SELECT is(idem_must_claim('claim:must'), true, 'must_claim_of_a_new_key');
SELECT throws_ok($$ SELECT idem_must_claim('claim:must') $$, 'ID006', 'key "claim:must" was claimed before', 'must_claim_of_a_duplicate');
SELECT is(idem_must_claim('claim:must', NULL, 'claim:scope'), true, 'must_claim_in_another_scope');
SELECT idem_begin('claim:must leased', lease => '1 h');
SELECT throws_ok($$ SELECT idem_must_claim('claim:must leased') $$, 'ID005', NULL, 'must_claim_of_a_leased_key');

CALL pg_temp.clean('claim:');
SELECT * FROM finish();
