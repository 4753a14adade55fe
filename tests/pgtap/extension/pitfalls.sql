-- What went wrong elsewhere, as far as it concerns keys and shows in one session. Named after the behaviour.
\ir ../include/helpers.psql
SELECT plan(31);
CALL pg_temp.clean('pitfall:');

-- Leases and zombies.
SELECT outcome FROM idem_begin('pitfall:crashed', ttl => '1 day', lease => '1 ms');
CALL pg_temp.sleep('5 ms');
SELECT is((SELECT outcome FROM idem_begin('pitfall:crashed', lease => '1 hour')), 'taken_over',
    'worker_that_timed_out_does_not_hold_for_the_whole_retention');

SELECT idem_scope_set('pitfall:withdrawals', on_lease_expiry => 'manual');
SELECT outcome FROM idem_begin('withdraw', lease => '1 ms', scope => 'pitfall:withdrawals');
CALL pg_temp.sleep('5 ms');
SELECT is((SELECT outcome FROM idem_begin('withdraw', lease => '1 hour', scope => 'pitfall:withdrawals')), 'in_doubt',
    'withdrawal_is_not_run_again_when_its_lease_ends');

SELECT idem_claim('pitfall:no deadline');
SELECT is((SELECT outcome FROM idem_begin('pitfall:no deadline', lease => '1 hour')), 'completed',
    'key_without_a_lease_is_no_orphan');

SELECT fence AS zombie FROM idem_begin('pitfall:zombie', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT fence AS successor FROM idem_begin('pitfall:zombie', lease => '1 hour') \gset
SELECT idem_complete('pitfall:zombie', '"successor"', fence => :successor);
SELECT throws_ok(format($$ SELECT idem_complete('pitfall:zombie', '"zombie"', fence => %s) $$, :zombie), 'ID001', NULL,
    'late_completion_does_not_overwrite_the_successors');
SELECT is((SELECT response FROM idem_begin('pitfall:zombie')), '"successor"', 'result_of_the_successor_stands');

SELECT fence AS first FROM idem_begin('pitfall:limit', lease => '1 hour') \gset
SELECT idem_release('pitfall:limit', :first);
SELECT outcome FROM idem_begin('pitfall:limit', lease => '1 hour');
SELECT is(
    (SELECT string_agg(DISTINCT pg_temp.state_of(format($$ SELECT idem_release('pitfall:limit', %s) $$, :first)), ' ')
       FROM generate_series(1, 10)),
    'ID001', 'second_release_of_a_zombie_frees_nothing');
SELECT is((SELECT outcome FROM idem_begin('pitfall:limit', lease => '1 hour')), 'in_flight', 'its_successor_still_holds');

SELECT fence AS gone FROM idem_begin('pitfall:gone', ttl => '1 ms', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT idem_claim('pitfall:gone');
SELECT throws_ok(format($$ SELECT idem_release('pitfall:gone', %s) $$, :gone), 'ID001', NULL, 'release_after_expiry_is_not_silent');

SELECT outcome FROM idem_begin('pitfall:secret', idem_fingerprint('1'), lease => '1 hour', owner => 'holder');
SELECT is(
    (SELECT string_agg(DISTINCT coalesce(fence::text, 'none'), ' ')
       FROM (SELECT fence FROM idem_begin('pitfall:secret')
             UNION ALL SELECT fence FROM idem_begin('pitfall:secret', lease => '1 s')
             UNION ALL SELECT fence FROM idem_begin('pitfall:secret', lease => '1 s', owner => 'zombie')
             UNION ALL SELECT fence FROM idem_begin('pitfall:secret', idem_fingerprint('2'), owner => 'holder')
             UNION ALL SELECT fence FROM idem_execute('pitfall:secret', 'SELECT 1')) AS tickets),
    'none', 'fence_is_given_to_its_holder_only');

BEGIN;
CALL pg_temp.sleep('60 ms');
SELECT clock_timestamp() AS before \gset
SELECT ok(lease_until >= :'before'::timestamptz + interval '50 ms', 'lease_shorter_than_the_transaction_so_far_begins_now')
  FROM idem_begin('pitfall:clock', lease => '50 ms');
COMMIT;
BEGIN;
SELECT outcome FROM idem_begin('pitfall:stale now', lease => '30 ms');
CALL pg_temp.sleep('40 ms');
SELECT is((SELECT state FROM idem_lookup('pitfall:crashed')), 'in_progress', 'transaction_that_goes_on_for_a_while');
COMMIT;
SELECT is((SELECT outcome FROM idem_begin('pitfall:stale now', lease => '1 hour')), 'taken_over', 'lease_runs_during_its_own_transaction');

SET TimeZone = 'America/New_York';
SELECT outcome FROM idem_begin('pitfall:zone', lease => '30 min');
SET TimeZone = 'Asia/Kathmandu';
SELECT ok(t.outcome = 'in_flight' AND t.retry_after_ms BETWEEN 29 * 60000 AND 30 * 60000, 'leases_do_not_depend_on_the_time_zone')
  FROM idem_begin('pitfall:zone', lease => '1 hour') t;
RESET TimeZone;

-- Races, as far as they need no second session.
BEGIN;
SELECT idem_claim('pitfall:lost job');
ROLLBACK;
SELECT is(idem_try_claim('pitfall:lost job'), 'acquired', 'duplicate_is_never_reported_of_a_claim_that_rolled_back');

SELECT idem_claim('pitfall:found', '1 ms');
CALL pg_temp.sleep('5 ms');
BEGIN;
SELECT is((SELECT outcome FROM idem_begin('pitfall:found')), 'acquired', 'claim_always_has_an_outcome');
COMMIT;

SELECT fence AS mine FROM idem_begin('pitfall:retried', lease => '1 hour', owner => 'nonce') \gset
SELECT is((SELECT fence FROM idem_begin('pitfall:retried', lease => '1 hour', owner => 'nonce')), :mine,
    'retried_claim_does_not_conflict_with_itself');

-- Transactions.
BEGIN;
SELECT idem_claim('pitfall:aborted');
SELECT idem_claim('pitfall:aborted');
SELECT is((SELECT 1), 1, 'duplicate_key_does_not_abort_the_transaction');
COMMIT;
SELECT is((SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'), 0::bigint,
    'no_session_lock_is_left_for_a_pooler_to_strand');
BEGIN;
SELECT outcome FROM idem_begin('pitfall:commit', owner => 'nonce');
COMMIT;
SELECT ok(idem_is_owner('pitfall:commit', 'nonce'), 'commit_in_doubt_is_resolved_by_asking_whose_the_key_is');

-- Fingerprints and replies.
SELECT is(idem_fingerprint('{"amount": 1, "to": "x"}'), idem_fingerprint('{"to": "x", "amount": 1}'), 'json_key_order_does_not_change_the_hash');
SELECT isnt(idem_fingerprint('[1, 2, 3]'), idem_fingerprint('[3, 2, 1]'), 'arrays_are_not_sorted_for_hashing');
SELECT fence AS hashed FROM idem_begin('pitfall:hash', idem_fingerprint('1'), lease => '1 hour') \gset
SELECT idem_complete('pitfall:hash', fence => :hashed);
SELECT is((SELECT outcome FROM idem_begin('pitfall:hash', idem_fingerprint('2'))), 'mismatch', 'completion_does_not_drop_the_hash');
SELECT idem_scope_set('pitfall:small', max_response_size => 10);
SET client_min_messages = error;
SELECT outcome FROM idem_execute('large', 'SELECT repeat(''x'', 1000) AS x', scope => 'pitfall:small');
RESET client_min_messages;
SELECT is((SELECT outcome FROM idem_execute('large', 'SELECT 1 / 0', scope => 'pitfall:small')), 'completed',
    'oversized_reply_does_not_run_the_handler_again');
BEGIN;
SELECT idem_claim('pitfall:402');
SELECT idem_complete('pitfall:402', '{"error": "card declined"}', 402);
COMMIT;
SELECT is((SELECT status_code FROM idem_begin('pitfall:402')), 402, 'replayed_failure_is_marked_by_its_status_code');

-- Operating it.
SELECT is(idem_claim('pitfall:' || (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 31) n)), true,
    'longest_keys_fit_the_index');
SELECT idem_claim('pitfall:quiet');
SELECT ctid AS before FROM idem_keys WHERE key = 'pitfall:quiet' \gset
SELECT count(idem_claim('pitfall:quiet')) FROM generate_series(1, 100);
SELECT is((SELECT ctid FROM idem_keys WHERE key = 'pitfall:quiet'), :'before'::tid, 'duplicates_do_not_write');
SELECT is(
    (SELECT count(*) FROM idem_claim_many((SELECT array_agg('pitfall:batch' || n) FROM generate_series(1, 1000) n))), 1000::bigint,
    'thousand_keys');
SELECT ok(count(DISTINCT xmin::text) < 64, 'a_batch_does_not_fall_off_the_cliff_of_64_subtransactions')
  FROM idem_keys WHERE starts_with(key, 'pitfall:batch');

-- In the articles that started this project.
SELECT is((SELECT string_agg(idem_claim('pitfall:inverted')::text, ' ') FROM generate_series(1, 2)), 'true false', 'true_means_new');
BEGIN;
SELECT idem_claim('pitfall:token');
SELECT throws_ok('SELECT 1 / 0', '22012', NULL, 'business_fails');
ROLLBACK;
SELECT is(idem_claim('pitfall:token'), true, 'failed_business_does_not_burn_the_key');

CALL pg_temp.clean('pitfall:');
SELECT * FROM finish();
