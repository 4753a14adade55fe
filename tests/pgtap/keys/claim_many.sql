-- idem_claim_many: the keys that are new, each once, in input order.
\ir ../include/helpers.psql
SELECT plan(33);
CALL pg_temp.clean('many:');

CREATE FUNCTION pg_temp.claimed(keys text[], scope text = '') RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(string_agg(new, ' ' ORDER BY position), '')
      FROM idem.idem_claim_many(keys, scope => scope) WITH ORDINALITY AS claimed (new, position)
$$;

SELECT is(pg_temp.claimed('{many:3,many:1,many:2}'), 'many:3 many:1 many:2', 'new_keys_come_in_input_order');
SELECT is(pg_temp.claimed('{many:3,many:1,many:2}'), '', 'duplicates_are_left_out');
SELECT is(pg_temp.claimed('{many:5,many:1,many:4,many:2,many:0}'), 'many:5 many:4 many:0', 'mix_of_new_and_old');
SELECT is(pg_temp.claimed('{many:b,many:a,many:b,many:c,many:a,many:b}'), 'many:b many:a many:c',
    'duplicates_inside_the_array_come_once');
SELECT is(pg_temp.claimed('{many:1,many:2}', 'many:scope'), 'many:1 many:2', 'another_scope');
SELECT is(pg_temp.claimed('{}'), '', 'empty_array');
SELECT is(pg_temp.claimed('{many:single}'), 'many:single', 'single_key');
SELECT is(idem_claim('many:single'), false, 'many_and_claim_share_their_keys');
SELECT is((SELECT state FROM idem_lookup('many:0')), 'completed', 'keys_are_completed_at_commit');
SELECT is((SELECT count(*) FROM idem_claim_many(keys => '{many:n}', ttl => '1 hour', scope => 'many:scope')), 1::bigint,
    'arguments_by_name');
SELECT ok((SELECT expires_at - created_at BETWEEN interval '3599 s' AND interval '3601 s'
             FROM idem_lookup('many:n', scope => 'many:scope')), 'ttl_holds_for_each_key');

-- Bad input claims nothing.
SELECT throws_ok($$ SELECT * FROM idem_claim_many('{many:bad1,NULL}') $$, '22004', NULL, 'null_element');
SELECT throws_ok($$ SELECT * FROM idem_claim_many(ARRAY['many:bad1', '']) $$, '22023', NULL, 'empty_element');
SELECT throws_ok($$ SELECT * FROM idem_claim_many(ARRAY['many:bad1', repeat('x', 1025)]) $$, '22023', NULL, 'element_over_1024_bytes');
SELECT throws_ok($$ SELECT * FROM idem_claim_many(NULL) $$, '22004', NULL, 'null_array');
SELECT is(idem_try_claim('many:bad1'), 'acquired', 'failed_call_claims_nothing');
SELECT ok(
    pg_temp.state_of($$ SELECT * FROM idem_claim_many('{{many:p,many:q},{many:r,many:p}}') $$) LIKE '22%'
    OR pg_temp.claimed('{{many:t,many:s},{many:u,many:t}}') = 'many:t many:s many:u',
    'array_of_arrays_is_refused_or_read_in_order');
SELECT is(pg_temp.claimed('[5:6]={many:five,many:six}'), 'many:five many:six', 'lower_bound_does_not_matter');

-- Every state at once.
SELECT idem_claim('many:expired', '10 ms');
SELECT idem_claim('many:done');
SELECT fence AS released FROM idem_begin('many:released', lease => '1 hour') \gset
SELECT idem_release('many:released', :released);
SELECT fence AS lapsed FROM idem_begin('many:lapsed', lease => '1 ms') \gset
CALL pg_temp.sleep('20 ms');
SELECT is(pg_temp.claimed('{many:new,many:lapsed,many:done,many:released,many:expired,many:new}'),
    'many:new many:lapsed many:released many:expired', 'expired_lapsed_and_released_keys_are_new');
SELECT throws_ok(format($$ SELECT idem_complete('many:lapsed', fence => %s) $$, :lapsed), 'ID001', NULL,
    'holder_that_lost_its_lease_is_stale');
SELECT results_eq($$ SELECT key, attempt FROM unnest('{many:expired,many:lapsed,many:new,many:released}'::text[]) key,
                            idem_lookup(key) $$,
    $$ VALUES ('many:expired', 1), ('many:lapsed', 2), ('many:new', 1), ('many:released', 2) $$,
    'attempts_are_counted_as_for_single_claims');

-- A key without an outcome fails the whole call.
SELECT fence AS live FROM idem_begin('many:live', lease => '1 hour') \gset
SELECT throws_ok($$ SELECT * FROM idem_claim_many('{many:beside live,many:live}') $$, 'ID005', NULL, 'live_lease_has_no_outcome');
SELECT is(idem_try_claim('many:beside live'), 'acquired', 'nothing_was_claimed_beside_a_live_lease');
SELECT idem_scope_set('many:manual', on_lease_expiry => 'manual');
SELECT fence AS doubtful FROM idem_begin('many:doubtful', lease => '1 ms', scope => 'many:manual') \gset
CALL pg_temp.sleep('5 ms');
SELECT throws_ok($$ SELECT * FROM idem_claim_many('{many:doubtful}', scope => 'many:manual') $$, 'ID005', NULL,
    'key_in_doubt_has_no_outcome');

-- In one transaction.
BEGIN;
SELECT is(idem_claim('many:mine'), true, 'own_claim');
SELECT is(pg_temp.claimed('{many:mine,many:first}'), 'many:first', 'own_claim_is_a_duplicate');
SELECT is(pg_temp.claimed('{many:first,many:second}'), 'many:second', 'own_batch_is_a_duplicate');
ROLLBACK;
SELECT is(pg_temp.claimed('{many:second,many:first,many:mine}'), 'many:second many:first many:mine',
    'rollback_gives_the_keys_back');

-- In bulk.
SELECT is(
    (SELECT array_agg(new ORDER BY position)
       FROM idem_claim_many((SELECT array_agg('many:bulk' || md5(n::text) ORDER BY n) FROM generate_series(1, 5000) n))
            WITH ORDINALITY AS claimed (new, position)),
    (SELECT array_agg('many:bulk' || md5(n::text) ORDER BY n) FROM generate_series(1, 5000) n),
    'five_thousand_keys_in_input_order');
SELECT is(
    (SELECT array_agg(new ORDER BY position)
       FROM idem_claim_many((SELECT array_agg('many:bulk' || md5((n % 5100)::text) ORDER BY n)
                               FROM generate_series(1, 9000) n))
            WITH ORDINALITY AS claimed (new, position)),
    (SELECT array_agg('many:bulk' || md5((n % 5100)::text) ORDER BY n) FROM generate_series(5001, 5100) n),
    'a_hundred_new_keys_among_nine_thousand');
SELECT is((SELECT count(*) FROM idem_keys WHERE starts_with(key, 'many:bulk')), 5100::bigint, 'one_row_for_each_key');

-- Keys that must be claimed singly (here: they have expired) lie between those that are new. Each run of new ones is a subtransaction, of which
-- other sessions can see 64 in a transaction without looking them up.
SELECT count(*) FROM idem_claim_many((SELECT array_agg('many:runs:' || i) FROM generate_series(1, 2000, 10) i), ttl => '1 us') \gset dropped_
BEGIN;
SELECT count(*) AS new FROM idem_claim_many((SELECT array_agg('many:runs:' || i) FROM generate_series(1, 2000) i)) \gset
SELECT count(DISTINCT xmin::text) AS transactions FROM idem_keys WHERE starts_with(key, 'many:runs:') \gset
COMMIT;
SELECT is(:new, 2000, 'expired_keys_between_new_ones');
SELECT cmp_ok(:transactions, '<', 65, 'do_not_make_too_many_subtransactions');
DELETE FROM idem_keys WHERE starts_with(key, 'many:runs:');

CALL pg_temp.clean('many:');
SELECT * FROM finish();
