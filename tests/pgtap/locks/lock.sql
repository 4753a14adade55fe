-- idem_lock, idem_lock_renew, idem_unlock: outcomes in one session. Waiting for others is in the isolation specs.
\ir ../include/helpers.psql
SELECT plan(49);
CALL pg_temp.clean('lock:');

CREATE FUNCTION pg_temp.timed(statement text, OUT result text, OUT took float8) LANGUAGE plpgsql AS $$
DECLARE
    start timestamptz := clock_timestamp();
BEGIN
    EXECUTE statement INTO result;
    took := extract(epoch FROM clock_timestamp() - start);
EXCEPTION WHEN query_canceled THEN
    result := SQLSTATE;
    took := extract(epoch FROM clock_timestamp() - start);
END $$;
CREATE FUNCTION pg_temp.lease_of(name text, scope text = '') RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz;
BEGIN
    SELECT l.lease_until INTO until FROM idem.idem_locks AS l WHERE l.key = lease_of.name AND l.scope = lease_of.scope;
    RETURN pg_temp.seconds_from_now(until);
END $$;

-- Taken, held, freed.
SELECT idem_lock('lock:a') AS a \gset
SELECT ok(:a > 0, 'free_lock_is_taken');
SELECT ok(pg_temp.lease_of('lock:a') BETWEEN 25 AND 30, 'lease_is_the_settings_by_default');
SELECT is(idem_lock('lock:a'), NULL, 'taken_lock_is_busy');
SELECT is(idem_lock('lock:a', owner => 'other'), NULL, 'for_another_owner_too');
SELECT is(idem_unlock('lock:a', :a), true, 'unlocked');
SELECT is(idem_unlock('lock:a', :a), false, 'unlocked_once');
SELECT is(idem_lock_renew('lock:a', :a), false, 'unlocked_lock_cannot_be_renewed');
SELECT idem_lock('lock:a', '1 hour') AS a2 \gset
SELECT ok(:a2 > :a, 'next_fence_is_greater');
SELECT ok(pg_temp.lease_of('lock:a') BETWEEN 3595 AND 3600, 'lease_has_its_length');

-- A stale fence changes nothing.
SELECT is(idem_unlock('lock:a', :a), false, 'unlock_with_an_old_fence');
SELECT is(idem_unlock('lock:a', :a2 + 1), false, 'unlock_with_a_fence_of_nobodys');
SELECT is(idem_lock_renew('lock:a', :a, '1 ms'), false, 'renew_with_an_old_fence');
SELECT is(idem_lock('lock:a'), NULL, 'holder_has_it_still');
SELECT ok(pg_temp.lease_of('lock:a') > 3590, 'with_its_lease');
SELECT is(idem_unlock('lock:never', 1), false, 'unlock_of_a_lock_that_never_was');
SELECT is(idem_lock_renew('lock:never', 1), false, 'renewal_of_a_lock_that_never_was');

-- Renewed.
SELECT is(idem_lock_renew('lock:a', :a2, '2 hours'), true, 'renewed');
SELECT ok(pg_temp.lease_of('lock:a') BETWEEN 7195 AND 7200, 'renewal_counts_from_now');
SELECT is(idem_lock_renew('lock:a', :a2), true, 'renewed_without_a_length');
SELECT ok(pg_temp.lease_of('lock:a') BETWEEN 25 AND 30, 'by_the_setting');

-- Re-entrant for the same owner, without a count.
SELECT idem_lock('lock:mine', '1 min', 'me') AS mine \gset
SELECT is(idem_lock('lock:mine', '1 hour', 'me'), :mine, 'same_owner_has_the_same_fence');
SELECT ok(pg_temp.lease_of('lock:mine') BETWEEN 3595 AND 3600, 'and_a_new_lease');
SELECT is(idem_lock('lock:mine', owner => 'you'), NULL, 'another_owner_has_to_wait');
SELECT is(idem_lock('lock:mine'), NULL, 'no_owner_is_nobody');
SELECT is(idem_unlock('lock:mine', :mine), true, 'one_unlock');
SELECT ok(idem_lock('lock:mine', owner => 'you') > :mine, 'frees');
SELECT is(idem_lock('lock:mine', owner => 'me'), NULL, 'the_owner_of_before_is_nobody_now');

-- Lapsed but untaken, then taken.
SELECT idem_lock('lock:late', '1 ms') AS late \gset
SELECT idem_lock('lock:late-own', '1 ms', 'me') AS late_own \gset
SELECT idem_lock('lock:late-free', '1 ms') AS late_free \gset
CALL pg_temp.sleep('5 ms');
SELECT is(idem_lock('lock:late-own', '1 hour', 'me'), :late_own, 'lapsed_lock_is_its_owners_again');
SELECT is(idem_unlock('lock:late-free', :late_free), true, 'lapsed_lock_can_be_unlocked');
SELECT is(idem_lock_renew('lock:late', :late, '1 ms'), true, 'lapsed_lock_can_be_renewed');
CALL pg_temp.sleep('5 ms');
SELECT idem_lock('lock:late', '1 hour') AS taker \gset
SELECT ok(:taker > :late, 'lapsed_lock_is_taken_over');
SELECT is(idem_lock_renew('lock:late', :late), false, 'then_the_late_holder_cannot_renew');
SELECT is(idem_unlock('lock:late', :late), false, 'nor_unlock');
SELECT is(idem_lock('lock:late'), NULL, 'and_the_taker_has_it_still');

-- Rows outlive their lease, however short the retention of keys.
SELECT ok(expires_at - lease_until = '1 day', 'row_is_kept_a_day_beyond_the_lease')
  FROM idem_locks WHERE key = 'lock:late';
SET idem.max_lease = '30 d';
SELECT idem_lock_renew('lock:late', :taker, '30 days');
RESET idem.max_lease;
SELECT ok(expires_at - lease_until BETWEEN '23:59:59' AND '24:00:01', 'also_after_a_renewal')
  FROM idem_locks WHERE key = 'lock:late';

-- Scopes: names are apart, leases are theirs, and locks never are in doubt.
SELECT ok(idem_lock('lock:late', scope => 'lock:s') > 0, 'same_name_in_another_scope');
SELECT idem_scope_set('lock:s', lease => '10 min', on_lease_expiry => 'manual', keep_forever => true);
SELECT ok(idem_lock('lock:b', scope => 'lock:s') > 0, 'lock_in_a_scope');
SELECT ok(pg_temp.lease_of('lock:b', 'lock:s') BETWEEN 595 AND 600, 'lease_is_the_scopes');
SELECT idem_lock('lock:c', '1 ms', scope => 'lock:s') AS c \gset
CALL pg_temp.sleep('5 ms');
SELECT ok(idem_lock('lock:c', scope => 'lock:s') > :c, 'manual_policy_does_not_apply_to_locks');

-- Separate spaces: a key, a counter, a queue and a lock of one name know nothing of each other.
SELECT idem_lock('lock:same', '1 hour') AS same \gset
SELECT is(idem_claim('lock:same'), true, 'key_of_that_name_is_free');
SELECT is(pg_temp.state_of(format($$ SELECT idem_release('lock:same', %s) $$, :same)), 'ID001', 'release_does_not_free_the_lock');
SELECT is(idem_forget('lock:same'), true, 'forget_forgets_the_key');
SELECT is(idem_lock('lock:same'), NULL, 'not_the_lock');
SELECT fence AS leased FROM idem_begin('lock:leased', lease => '1 hour') \gset
SELECT is(idem_unlock('lock:leased', :leased), false, 'unlock_does_not_release_a_key');

-- Waiting for a lease. In one session only its end can end it.
SET statement_timeout = '10 s';
SELECT ok(result IS NULL AND took BETWEEN 0.2 AND 3, format('wait_is_used_up: %s, %s s', result, took))
  FROM pg_temp.timed($$ SELECT idem_lock('lock:same', wait => '200 ms') $$);
-- How long after the end of the lease: the least of three, as the machine may be busy.
CREATE PROCEDURE pg_temp.take_over(INOUT delay float8) LANGUAGE plpgsql AS $$
DECLARE
    ending bigint;
    ends timestamptz;
    taken bigint;
    late float8;
BEGIN
    FOR i IN 1 .. 3 LOOP
        ending := idem_lock('lock:ending', '200 ms');
        ends := lease_until FROM idem_locks WHERE key = 'lock:ending';
        COMMIT;
        taken := idem_lock('lock:ending', wait => '10 min');
        late := extract(epoch FROM clock_timestamp() - ends);
        ASSERT taken > ending AND late > 0;
        delay := least(delay, late);
        PERFORM idem_unlock('lock:ending', taken);
        COMMIT;
    END LOOP;
END $$;
CALL pg_temp.take_over(NULL) \gset
SELECT ok(:delay < 0.7, format('waiter_takes_over_at_the_end_of_the_lease: %s s', :delay));
RESET statement_timeout;

-- One transaction: its own lock is not waited for, and can be freed and taken again.
BEGIN;
SELECT idem_lock('lock:tx') AS first \gset
SELECT idem_lock('lock:tx', wait => '10 min') IS NULL AS waited_not, idem_unlock('lock:tx', :first) AS freed,
       idem_lock('lock:tx') > :first AS again \gset
COMMIT;
SELECT ok(:'waited_not' AND :'freed' AND :'again', 'one_transaction_locks_unlocks_and_locks');
SELECT is((SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), 0::bigint, 'no_place_in_a_queue_is_kept');

CALL pg_temp.clean('lock:');
SELECT * FROM finish();
