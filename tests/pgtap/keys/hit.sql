-- idem_hit: how often a key was seen within its ttl; counters and keys do not share names.
\ir ../include/helpers.psql
SELECT plan(26);
CALL pg_temp.clean('hit:');

SELECT is(idem_hit('hit:a'), 1::bigint, 'first_hit');
SELECT is(idem_hit('hit:a'), 2::bigint, 'second_hit');
SELECT is(idem_hit(key => 'hit:a', ttl => '1 hour', scope => 'hit:scope'), 1::bigint, 'another_scope_counts_for_itself');
SELECT is((SELECT array_agg(idem_hit('hit:row') ORDER BY n) FROM generate_series(1, 3) n), '{1,2,3}', 'hits_in_one_statement');
SELECT is((SELECT max(idem_hit('hit:many')) FROM generate_series(1, 2000)), 2000::bigint, 'two_thousand_hits_in_one_statement');

-- The window starts with the first hit and does not move.
SELECT is(idem_hit('hit:window', '1 hour'), 1::bigint, 'window_opens');
SELECT expires_at AS window_ends FROM idem_counters WHERE key = 'hit:window' \gset
CALL pg_temp.sleep('5 ms');
SELECT is(idem_hit('hit:window', '2 hours'), 2::bigint, 'hit_within_the_window');
SELECT is((SELECT expires_at FROM idem_counters WHERE key = 'hit:window'), :'window_ends', 'window_did_not_move_with_the_second_hit');
SELECT idem_hit('hit:short', '1 ms');
CALL pg_temp.sleep('5 ms');
SELECT is(idem_hit('hit:short', '1 hour'), 1::bigint, 'expired_window_opens_anew');
SELECT is((SELECT count(*) FROM idem_counters WHERE key = 'hit:short'), 1::bigint, 'expired_counter_is_taken_over_in_place');
SELECT is(idem_hit('hit:short', '1 hour'), 2::bigint, 'with_its_new_length');

-- Rolled back hits did not happen.
BEGIN;
SELECT idem_hit('hit:a');
SAVEPOINT s;
SELECT idem_hit('hit:a');
ROLLBACK TO s;
SELECT is(idem_hit('hit:a'), 4::bigint, 'savepoint_takes_its_hits_back');
ROLLBACK;
SELECT is(idem_hit('hit:a'), 3::bigint, 'rollback_takes_its_hits_back');

-- Separate spaces.
SELECT is(idem_claim('hit:a'), true, 'counter_is_not_a_claim');
SELECT is(idem_hit('hit:a'), 4::bigint, 'claim_is_not_a_hit');
SELECT idem_claim('hit:b');
SELECT is(idem_hit('hit:b'), 1::bigint, 'claimed_key_was_never_hit');
SELECT idem_forget('hit:a');
SELECT is(idem_hit('hit:a'), 5::bigint, 'forgetting_a_key_keeps_its_counter');
SELECT is(idem_forget('hit:row'), false, 'counter_cannot_be_forgotten');
SELECT is((SELECT count(*) FROM idem_lookup('hit:row')), 0::bigint, 'counter_is_not_found');

-- Read without counting.
SELECT is((SELECT hits FROM idem_hits('hit:a')), 5::bigint, 'hits_are_read');
SELECT is((SELECT hits FROM idem_hits('hit:a')), 5::bigint, 'and_not_counted_by_reading');
SELECT expires_at AS window_ends FROM idem_hits('hit:a') \gset
SELECT is((SELECT c.expires_at FROM idem_counters c WHERE key = 'hit:a' AND scope = ''), :'window_ends', 'with_the_end_of_the_window');
SELECT is_empty($$ SELECT FROM idem_hits('hit:never') $$, 'never_hit');
SELECT is_empty($$ SELECT FROM idem_hits('hit:a', 'hit:none') $$, 'nor_in_another_scope');
SELECT idem_hit('hit:over', '1 ms');
CALL pg_temp.sleep('5 ms');
SELECT is_empty($$ SELECT FROM idem_hits('hit:over') $$, 'window_is_over');
SELECT is((SELECT hits FROM idem_hits('hit:a', NULL)), 5::bigint, 'null_scope_is_not_given');

CALL pg_temp.clean('hit:');
SELECT * FROM finish();
