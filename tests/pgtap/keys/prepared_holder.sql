-- An uncommitted holder, here a prepared transaction: it holds on without a session, so that one session can play both sides.
\ir ../include/helpers.psql
SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE starts_with(gid, 'idem pgtap ') \gexec
SELECT current_setting('max_prepared_transactions')::int > 1 AS possible \gset
\if :possible
SELECT plan(47);
\else
SELECT plan(1);
SELECT skip(1, 'max_prepared_transactions is 0');
SELECT * FROM finish();
\quit
\endif
CALL pg_temp.clean('prepared:');
-- A file that needs the tables for itself would wait for the prepared transactions, and this one behind it.
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));

-- Every way of asking that must not block; lock_timeout would turn a block into an error.
CREATE FUNCTION pg_temp.asked(key text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT concat_ws(' ', idem.idem_try_claim(key),
                          (SELECT outcome FROM idem.idem_begin(key)),
                          (SELECT outcome FROM idem.idem_begin(key, lease => '1 hour', owner => 'other')),
                          (SELECT outcome FROM idem.idem_execute(key, 'SELECT 1')))
$$;
CREATE FUNCTION pg_temp.blocked(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '50 ms', true);
    RETURN pg_temp.state_of(statement);
END $$;

-- An uncommitted transactional claim.
BEGIN;
SELECT idem_claim('prepared:a');
PREPARE TRANSACTION 'idem pgtap a';
SELECT is(pg_temp.asked('prepared:a'), 'in_flight in_flight in_flight in_flight', 'uncommitted_claim_is_in_flight');
SELECT is(pg_temp.ticket(t), '{"outcome": "in_flight"}', 'ticket_knows_nothing_of_an_uncommitted_holder') FROM idem_begin('prepared:a') t;
SELECT is((SELECT outcome FROM idem_begin('prepared:a', wait => '100 ms')), 'in_flight', 'wait_is_used_up');
SELECT is((SELECT count(*) FROM idem_lookup('prepared:a')), 0::bigint, 'uncommitted_key_is_not_found');
SELECT is(pg_temp.blocked($$ SELECT idem_claim('prepared:a') $$), '55P03', 'claim_waits');
SELECT is(pg_temp.blocked($$ SELECT * FROM idem_claim_many('{prepared:beside,prepared:a}') $$), '55P03', 'claim_many_waits');
SELECT is(pg_temp.blocked($$ SELECT * FROM idem_begin('prepared:a', wait => '10 min') $$), '55P03', 'begin_without_bound_waits');
SELECT is(pg_temp.blocked($$ SELECT * FROM idem_begin('prepared:a', lease => '1 s', wait => '10 s') $$), '55P03',
    'lock_timeout_counts_within_a_bounded_wait');
SELECT is(pg_temp.blocked($$ SELECT idem_forget('prepared:a') $$), '55P03', 'forget_waits');
SELECT is(idem_try_claim('prepared:beside'), 'acquired', 'interrupted_batch_claimed_nothing');
SET statement_timeout = '2 s'; -- for the wait, and not for what comes before it
SELECT is(pg_temp.state_of($$ SELECT idem_claim('prepared:a') $$), '57014', 'wait_of_a_claim_can_be_cancelled');
SELECT is(pg_temp.state_of($$ SELECT * FROM idem_begin('prepared:a', wait => '10 min') $$), '57014', 'wait_of_a_begin_can_be_cancelled');
RESET statement_timeout;
BEGIN READ ONLY;
SELECT is(idem_try_claim('prepared:a'), 'in_flight', 'in_flight_in_a_read_only_transaction');
COMMIT;
BEGIN;
SELECT outcome FROM idem_begin('prepared:a');
SELECT pg_current_xact_id_if_assigned() IS NULL AS quiet \gset
COMMIT;
SELECT is(:'quiet'::boolean, true, 'in_flight_assigns_no_xid');
COMMIT PREPARED 'idem pgtap a';
SELECT is(pg_temp.asked('prepared:a'), 'completed completed completed completed', 'committed_claim_is_completed');
SELECT is(idem_claim('prepared:a'), false, 'and_a_duplicate');

-- A holder that rolls back: nobody was told "duplicate", and the key is free.
BEGIN;
SELECT idem_claim('prepared:back');
PREPARE TRANSACTION 'idem pgtap back';
SELECT is(idem_try_claim('prepared:back'), 'in_flight', 'loser_is_not_told_duplicate');
ROLLBACK PREPARED 'idem pgtap back';
SELECT is(idem_claim('prepared:back'), true, 'rolled_back_holder_frees_the_key');

-- An uncommitted leased claim.
BEGIN;
SELECT outcome FROM idem_begin('prepared:leased', idem_fingerprint('1'), lease => '1 ms', owner => 'me');
PREPARE TRANSACTION 'idem pgtap leased';
CALL pg_temp.sleep('5 ms');
SELECT is(pg_temp.asked('prepared:leased'), 'in_flight in_flight in_flight in_flight', 'uncommitted_lease_is_in_flight');
SELECT is((SELECT outcome FROM idem_begin('prepared:leased', idem_fingerprint('2'), lease => '1 hour', owner => 'me')), 'in_flight',
    'uncommitted_fingerprint_is_not_compared');
COMMIT PREPARED 'idem pgtap leased';
SELECT is((SELECT outcome FROM idem_begin('prepared:leased', lease => '1 hour', owner => 'other')), 'taken_over',
    'its_lease_ran_meanwhile');

-- An uncommitted takeover of a released, a lapsed and an expired key.
SELECT fence AS released FROM idem_begin('prepared:released', lease => '1 hour') \gset
SELECT idem_release('prepared:released', :released);
SELECT fence AS lapsed FROM idem_begin('prepared:lapsed', lease => '1 ms') \gset
SELECT idem_claim('prepared:expired', '1 ms');
CALL pg_temp.sleep('5 ms');
BEGIN;
SELECT idem_claim('prepared:released'), idem_claim('prepared:lapsed'), idem_claim('prepared:expired', '1 hour');
PREPARE TRANSACTION 'idem pgtap takeover';
SELECT is(pg_temp.asked('prepared:released'), 'in_flight in_flight in_flight in_flight', 'uncommitted_claim_of_a_released_key');
SELECT is(pg_temp.asked('prepared:lapsed'), 'in_flight in_flight in_flight in_flight', 'uncommitted_takeover');
SELECT is(pg_temp.asked('prepared:expired'), 'in_flight in_flight in_flight in_flight', 'uncommitted_claim_of_an_expired_key');
SELECT is(pg_temp.blocked($$ SELECT idem_claim('prepared:released') $$), '55P03', 'claim_waits_for_the_claim_of_a_released_key');
SELECT is(pg_temp.blocked($$ SELECT idem_claim('prepared:lapsed') $$), '55P03', 'claim_waits_for_a_takeover');
SELECT is(pg_temp.blocked($$ SELECT * FROM idem_claim_many('{prepared:lapsed}') $$), '55P03', 'claim_many_waits_for_a_takeover');
SELECT is(pg_temp.blocked($$ SELECT idem_claim('prepared:expired') $$), '55P03', 'claim_waits_for_the_claim_of_an_expired_key');
SELECT isnt(pg_temp.blocked(format($$ SELECT idem_complete('prepared:lapsed', fence => %s) $$, :lapsed)), 'ok',
    'old_holder_cannot_slip_past_an_uncommitted_takeover');
SELECT is((SELECT state FROM idem_lookup('prepared:lapsed')), 'in_progress', 'lookup_sees_what_is_committed');
ROLLBACK PREPARED 'idem pgtap takeover';
SELECT lives_ok(format($$ SELECT idem_complete('prepared:lapsed', fence => %s) $$, :lapsed), 'rolled_back_takeover_leaves_the_holder');
SELECT is(idem_claim('prepared:released') AND idem_claim('prepared:expired'), true, 'and_the_others_free');

-- An uncommitted completion and an uncommitted release.
SELECT fence AS done FROM idem_begin('prepared:done', lease => '1 hour') \gset
SELECT fence AS given FROM idem_begin('prepared:given', lease => '1 hour') \gset
BEGIN;
SELECT idem_complete('prepared:done', '"x"', 200, :done);
SELECT idem_release('prepared:given', :given);
PREPARE TRANSACTION 'idem pgtap completion';
SELECT is(pg_temp.asked('prepared:done'), 'in_flight in_flight in_flight in_flight', 'uncommitted_completion_is_in_flight');
SELECT is((SELECT response FROM idem_begin('prepared:done')), NULL, 'its_response_is_not_shown');
SELECT is(pg_temp.asked('prepared:given'), 'in_flight in_flight in_flight in_flight', 'uncommitted_release_is_in_flight');
SELECT is(pg_temp.blocked($$ SELECT idem_claim('prepared:done') $$), '55P03', 'claim_waits_for_a_completion');
SELECT is(pg_temp.blocked($$ SELECT idem_claim('prepared:given') $$), '55P03', 'claim_waits_for_a_release');
COMMIT PREPARED 'idem pgtap completion';
SELECT is((SELECT response FROM idem_begin('prepared:done')), '"x"', 'committed_response_is_replayed');
SELECT is(idem_try_claim('prepared:given'), 'acquired', 'released_key_is_free');

-- An uncommitted delete.
SELECT idem_claim('prepared:forgotten');
BEGIN;
SELECT idem_forget('prepared:forgotten');
PREPARE TRANSACTION 'idem pgtap forget';
SELECT is(pg_temp.asked('prepared:forgotten'), 'in_flight in_flight in_flight in_flight', 'uncommitted_delete_is_in_flight');
SELECT is(pg_temp.blocked($$ SELECT idem_claim('prepared:forgotten') $$), '55P03', 'claim_waits_for_a_delete');
SELECT is((SELECT state FROM idem_lookup('prepared:forgotten')), 'completed', 'lookup_still_finds_the_key');
ROLLBACK PREPARED 'idem pgtap forget';
SELECT is(idem_claim('prepared:forgotten'), false, 'rolled_back_delete_did_not_happen');

-- Counters, queues and other keys.
BEGIN;
SELECT idem_hit('prepared:hit'), idem_serialize('prepared:queue');
PREPARE TRANSACTION 'idem pgtap others';
SELECT is(pg_temp.blocked($$ SELECT idem_serialize('prepared:queue') $$), '55P03', 'prepared_transaction_keeps_its_place_in_the_queue');
SELECT is(pg_temp.blocked($$ SELECT idem_serialize('prepared:other queue') $$), 'ok', 'another_queue_is_free');
SELECT is(idem_claim('prepared:hit') AND idem_claim('prepared:queue'), true, 'neither_blocks_a_claim');
ROLLBACK PREPARED 'idem pgtap others';
SELECT is(idem_hit('prepared:hit'), 1::bigint, 'rolled_back_hit_did_not_happen');

CALL pg_temp.clean('prepared:');
SELECT * FROM finish();
