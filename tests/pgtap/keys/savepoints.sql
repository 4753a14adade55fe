-- Rollback, savepoints and exception blocks: what is undone was never claimed.
\ir ../include/helpers.psql
SELECT plan(32);
CALL pg_temp.clean('savepoint:');

-- Rollback of everything.
BEGIN;
SELECT is(idem_claim('savepoint:a'), true, 'claim_in_a_transaction');
SELECT is(idem_claim('savepoint:a'), false, 'own_claim_is_a_duplicate');
ROLLBACK;
SELECT is(idem_claim('savepoint:a'), true, 'key_reuse_after_rollback');

-- Savepoints.
BEGIN;
SAVEPOINT s;
SELECT is(idem_claim('savepoint:b'), true, 'claim_after_a_savepoint');
SELECT is(idem_claim('savepoint:b'), false, 'is_a_duplicate_there');
ROLLBACK TO s;
SELECT is(idem_claim('savepoint:b'), true, 'rollback_to_a_savepoint_gives_it_back');
ROLLBACK TO s;
SELECT is(idem_try_claim('savepoint:b'), 'acquired', 'every_time');
SAVEPOINT inner_one;
SELECT is(idem_claim('savepoint:b'), false, 'outer_claim_is_seen_within');
SELECT is(idem_claim('savepoint:c'), true, 'claim_of_an_inner_savepoint');
RELEASE inner_one;
SELECT is(idem_claim('savepoint:c'), false, 'released_savepoint_keeps_its_claim');
ROLLBACK TO s;
SELECT is(pg_temp.ticket(t), '{"outcome": "acquired", "attempt": 1, "fence": "set", "lease_until": "set"}',
    'claim_of_a_released_savepoint_is_given_back_with_the_outer_one') FROM idem_begin('savepoint:c', lease => '1 hour') t;
RELEASE s;
COMMIT;
SELECT results_eq($$ SELECT key, state FROM unnest('{savepoint:b,savepoint:c}'::text[]) key, idem_lookup(key) $$,
    $$ VALUES ('savepoint:c', 'in_progress') $$, 'only_what_was_not_rolled_back_commits');

-- Leased changes are undone too.
SELECT fence FROM idem_begin('savepoint:leased', lease => '1 hour') \gset
BEGIN;
SELECT idem_step('savepoint:leased', :fence, 'kept');
SAVEPOINT s;
SELECT idem_step('savepoint:leased', :fence, 'undone');
SELECT idem_complete('savepoint:leased', '"undone"', fence => :fence);
SELECT is((SELECT outcome FROM idem_begin('savepoint:leased')), 'completed', 'completion_after_a_savepoint');
ROLLBACK TO s;
SELECT is((SELECT outcome FROM idem_begin('savepoint:leased')), 'in_flight', 'completion_is_undone');
SELECT idem_release('savepoint:leased', :fence);
SELECT is(idem_claim('savepoint:leased'), true, 'released_and_claimed_after_a_savepoint');
ROLLBACK TO s;
SELECT lives_ok(format($$ SELECT idem_renew('savepoint:leased', %s) $$, :fence), 'release_is_undone');
SAVEPOINT t;
SELECT idem_forget('savepoint:leased');
ROLLBACK TO t;
SELECT lives_ok(format($$ SELECT idem_complete('savepoint:leased', '"done"', fence => %s) $$, :fence), 'forgetting_is_undone');
COMMIT;
SELECT results_eq($$ SELECT state, response, steps FROM idem_lookup('savepoint:leased') $$,
    $$ VALUES ('completed', '"done"'::jsonb, '{"kept": null}'::jsonb) $$, 'last_completion_commits');

-- A response attached to an outer claim.
BEGIN;
SELECT idem_claim('savepoint:response');
SAVEPOINT s;
SELECT idem_complete('savepoint:response', '"undone"', 500);
ROLLBACK TO s;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed"}', 'response_is_undone_and_the_claim_is_not')
  FROM idem_begin('savepoint:response') t;
SAVEPOINT s2;
SELECT lives_ok($$ SELECT idem_complete('savepoint:response', '"kept"', 200) $$, 'outer_claim_takes_a_response_within');
RELEASE s2;
COMMIT;
SELECT is((SELECT response FROM idem_begin('savepoint:response')), '"kept"', 'which_commits');

-- A takeover, and an expired key that is taken over in place.
SELECT fence FROM idem_begin('savepoint:lapsed', lease => '1 ms') \gset
BEGIN;
SELECT idem_claim('savepoint:expired', '1 ms');
SELECT idem_complete('savepoint:expired', '"old"');
COMMIT;
CALL pg_temp.sleep('5 ms');
BEGIN;
SAVEPOINT s;
SELECT is(idem_claim('savepoint:lapsed') AND idem_claim('savepoint:expired', '1 hour'), true, 'takeovers_after_a_savepoint');
ROLLBACK TO s;
SELECT lives_ok(format($$ SELECT idem_step('savepoint:lapsed', %s, 'still mine') $$, :fence), 'takeover_is_undone');
SELECT is((SELECT outcome FROM idem_begin('savepoint:expired')), 'acquired', 'expired_key_is_expired_again');
COMMIT;

-- PL/pgSQL: the usual "try the next one" loop.
CREATE FUNCTION pg_temp.work(key text, fails boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT idem.idem_claim(key) THEN
        RETURN 'duplicate';
    END IF;
    IF fails THEN
        RAISE division_by_zero;
    END IF;
    RETURN 'done';
EXCEPTION WHEN division_by_zero THEN
    RETURN 'failed';
END $$;
SELECT is(
    (SELECT string_agg(pg_temp.work('savepoint:plpgsql', fails), ' ' ORDER BY n)
       FROM unnest('{t,t,f,t,f}'::boolean[]) WITH ORDINALITY AS call (fails, n)),
    'failed failed done duplicate duplicate', 'exception_block_gives_its_claim_back');
BEGIN;
SELECT is(
    (SELECT string_agg(pg_temp.work('savepoint:block' || n, n % 3 = 0), ' ' ORDER BY n) FROM generate_series(1, 6) n),
    'done done failed done done failed', 'blocks_of_one_statement_are_undone_one_by_one');
COMMIT;
SELECT is((SELECT string_agg(right(key, 1), '' ORDER BY key) FROM idem_keys WHERE starts_with(key, 'savepoint:block')), '1245',
    'the_others_commit');

-- An error of a claim itself does not harm the claims around it.
BEGIN;
SELECT idem_claim('savepoint:around');
SELECT throws_ok($$ SELECT idem_claim('savepoint:inner'), idem_claim('') $$, '22023', NULL, 'statement_with_an_error');
SELECT is(idem_claim('savepoint:inner'), true, 'claim_of_the_failed_statement_is_given_back');
SELECT is(idem_claim('savepoint:around'), false, 'claim_around_it_stays');
COMMIT;

-- Many subtransactions.
BEGIN;
DO $$ BEGIN
    FOR n IN 1..200 LOOP
        BEGIN
            PERFORM idem.idem_claim('savepoint:many' || n);
            IF n % 2 = 0 THEN
                RAISE division_by_zero;
            END IF;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
END $$;
SELECT is((SELECT count(*) FROM generate_series(1, 200) n WHERE idem_claim('savepoint:many' || n)), 100::bigint,
    'two_hundred_subtransactions');
ROLLBACK;
SELECT is(idem_claim('savepoint:many1'), true, 'end_with_the_transaction');

CALL pg_temp.clean('savepoint:');
SELECT * FROM finish();
