-- idem_assert_fence: who holds the lock may go on, anybody else is stopped. That it holds others off is in the isolation specs.
\ir ../include/helpers.psql
SELECT plan(19);
CALL pg_temp.clean('assert:');

CREATE FUNCTION pg_temp.asserted(name text, fence bigint) RETURNS text LANGUAGE sql AS $$
    SELECT pg_temp.state_of(format('SELECT idem.idem_assert_fence(%L, %s)', name, fence))
$$;

SELECT idem_lock('assert:a', '1 hour', 'me') AS a \gset
SELECT is(pg_temp.asserted('assert:a', :a), 'ok', 'holder_may_go_on');
BEGIN;
SELECT is(idem_assert_fence('assert:a', :a), true, 'the_answer_is_true');
COMMIT;
SELECT is(pg_temp.asserted('assert:a', :a), 'ok', 'again_and_again');
SELECT is(pg_temp.asserted('assert:a', :a - 1), 'ID001', 'smaller_fence');
SELECT is(pg_temp.asserted('assert:a', :a + 1), 'ID001', 'greater_fence');
SELECT is(pg_temp.asserted('assert:never', :a), 'ID001', 'lock_that_never_was');
SELECT idem_lock_renew('assert:a', :a, '1 min');
SELECT is(pg_temp.asserted('assert:a', :a), 'ok', 'after_a_renewal');
SELECT idem_unlock('assert:a', :a);
SELECT is(pg_temp.asserted('assert:a', :a), 'ID001', 'after_unlocking');
SELECT idem_lock('assert:a', '1 ms') AS b \gset
CALL pg_temp.sleep('5 ms');
SELECT is(pg_temp.asserted('assert:a', :b), 'ok', 'lapsed_but_untaken');
SELECT is(pg_temp.asserted('assert:a', :a), 'ID001', 'fence_of_an_earlier_holder');
SELECT idem_lock('assert:a', '1 hour') AS c \gset
SELECT is(pg_temp.asserted('assert:a', :b), 'ID001', 'taken_over');
SELECT is(pg_temp.asserted('assert:a', :c), 'ok', 'the_taker');
SELECT is((SELECT count(*) FROM idem_locks WHERE key = 'assert:a' AND fence = :c), 1::bigint, 'asserting_changes_nothing');

-- The fence of a key is not that of a lock.
SELECT fence AS keys FROM idem_begin('assert:key', lease => '1 hour') \gset
SELECT is(pg_temp.asserted('assert:key', :keys), 'ID001', 'fence_of_a_key');

-- What a stale holder wrote goes with the error.
CREATE TEMP TABLE work (n int);
SELECT is(pg_temp.state_of(format($$ INSERT INTO work SELECT 1; SELECT idem_assert_fence('assert:a', %s) $$, :b)), 'ID001', 'write_of_a_stale_holder');
SELECT is((SELECT count(*) FROM work), 0::bigint, 'is_undone');

-- In the transaction that took, renewed or will free the lock.
BEGIN;
SELECT idem_lock('assert:tx') AS tx \gset
SELECT pg_temp.asserted('assert:tx', :tx) || ' ' || idem_lock_renew('assert:tx', :tx) || ' ' || pg_temp.asserted('assert:tx', :tx)
       || ' ' || idem_unlock('assert:tx', :tx) || ' ' || pg_temp.asserted('assert:tx', :tx) AS states \gset
COMMIT;
SELECT is(:'states'::text, 'ok true ok true ID001', 'own_transaction_may_renew_and_free_what_it_asserts');

SELECT throws_like($$ SELECT idem_assert_fence('assert:a', 1) $$, 'lock "assert:a" is not held with this fence', 'message');
SELECT is(idem_unlock('assert:a', :c), true, 'assertion_ends_with_its_transaction');

CALL pg_temp.clean('assert:');
SELECT * FROM finish();
