-- idem_sweep: what it deletes and what it does not, its batches, its errors, who may call it.
\ir ../include/helpers.psql
SELECT plan(42);
CALL pg_temp.clean('sweep:');
SET client_min_messages = warning;
SELECT idem_scope_set('sweep:manual', on_lease_expiry => 'manual');
SELECT idem_scope_set('sweep:forever', keep_forever => true);

-- The state that the last statement of the script ended with; CALL cannot be made within a function.
\set ON_ERROR_STOP off

-- One key of each kind; a retention of a millisecond is over when the sweep comes.
SELECT idem_claim('sweep:live');
SELECT idem_claim('sweep:expired', '1 ms');
SELECT idem_claim('sweep:forever', '1 ms', 'sweep:forever');
SELECT outcome FROM idem_begin('sweep:leased', ttl => '1 ms', lease => '1 hour');
SELECT outcome FROM idem_begin('sweep:lapsed', ttl => '1 hour', lease => '1 ms');
SELECT outcome FROM idem_begin('sweep:lapsed and expired', ttl => '1 ms', lease => '1 ms');
SELECT outcome FROM idem_begin('sweep:undecided', ttl => '1 ms', lease => '1 ms', scope => 'sweep:manual');
SELECT outcome FROM idem_begin('sweep:doubt', ttl => '1 ms', lease => '1 ms', scope => 'sweep:manual');
SELECT outcome FROM idem_begin('sweep:manual and leased', ttl => '1 ms', lease => '1 hour', scope => 'sweep:manual');
SELECT idem_claim('sweep:manual and completed', '1 ms', 'sweep:manual');
SELECT fence FROM idem_begin('sweep:released', ttl => '1 ms', lease => '1 hour') \gset
SELECT idem_release('sweep:released', :fence);
SELECT outcome FROM idem_execute('sweep:answered', $$ SELECT string_agg(md5(i::text), '') AS s FROM generate_series(1, 2000) i $$, ttl => '1 ms');
CALL pg_temp.sleep('5 ms');
SELECT is((SELECT outcome FROM idem_try_claim('sweep:doubt', scope => 'sweep:manual') AS outcome), 'in_doubt', 'a_key_is_in_doubt');

CALL idem_sweep();
SELECT is(:'SQLSTATE'::text, '00000', 'sweeps_outside_of_a_block');
SELECT set_eq($$ SELECT key FROM idem_keys WHERE starts_with(key, 'sweep:') $$,
    ARRAY['sweep:live', 'sweep:forever', 'sweep:leased', 'sweep:lapsed', 'sweep:undecided', 'sweep:doubt', 'sweep:manual and leased'],
    'what_has_expired_is_deleted_and_nothing_else');
SELECT is((SELECT outcome FROM idem_begin('sweep:undecided', scope => 'sweep:manual')), 'in_doubt', 'lapsed_key_that_is_an_operators_is_still_in_doubt');
SELECT is((SELECT count(*) FROM pg_catalog.pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid = 7651), 0::bigint,
    'no_lock_stays_behind');
SELECT ok(fence > :fence, 'fence_grows_across_a_sweep') FROM idem_begin('sweep:released', lease => '1 hour');

-- Once the operator has decided, it is a key like any other.
SELECT idem_resolve('sweep:doubt', 'completed', scope => 'sweep:manual');
UPDATE idem_keys SET expires_at = now() WHERE key = 'sweep:doubt';
CALL idem_sweep();
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'sweep:doubt'), 0::bigint, 'resolved_key_expires');

-- Tokens, locks, counters.
SELECT idem_token_issue() AS spent, idem_token_issue() AS old \gset
SELECT idem_token_redeem(:'spent'), idem_token_redeem(:'old');
SELECT count(*) AS tokens FROM idem_tokens \gset
SELECT max(created_at) AS newest FROM idem_tokens \gset
UPDATE idem_tokens SET expires_at = now() WHERE created_at = :'newest';
SELECT idem_lock('sweep:held', '1 hour'), idem_lock('sweep:lapsed', '1 ms'), idem_lock('sweep:long lapsed', '1 ms') AS old_fence \gset
UPDATE idem_locks SET expires_at = now() WHERE key = 'sweep:long lapsed';
SELECT idem_hit('sweep:counted', '1 hour'), idem_hit('sweep:counted', '1 hour'), idem_hit('sweep:over', '1 ms');
SELECT idem_allow('sweep:full', 1000, 1), idem_allow('sweep:empty', 0.001, 1);
CALL pg_temp.sleep('5 ms');
CALL idem_sweep();
SELECT is((SELECT count(*) FROM idem_tokens), :tokens - 1::bigint, 'expired_redemption_is_deleted');
SELECT is(idem_token_redeem(:'spent')::text, 'duplicate', 'token_stays_redeemed');
SELECT set_eq($$ SELECT key FROM idem_locks WHERE starts_with(key, 'sweep:') $$, ARRAY['sweep:held', 'sweep:lapsed'],
    'lock_of_which_nothing_is_left_is_deleted');
SELECT ok(idem_lock('sweep:long lapsed', '1 hour') > :old_fence, 'fence_of_a_lock_grows_across_a_sweep');
SELECT set_eq($$ SELECT key FROM idem_counters WHERE starts_with(key, 'sweep:') $$, ARRAY['sweep:counted'], 'counter_of_a_window_that_is_over');
SELECT set_eq($$ SELECT key FROM idem_rates WHERE starts_with(key, 'sweep:') $$, ARRAY['sweep:empty'], 'bucket_that_is_full_again');
SELECT is(idem_hit('sweep:counted', '1 hour'), 3::bigint, 'running_counter_goes_on');

-- Batches, and the progress that is told.
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'sweep:many ' || i FROM generate_series(1, 2000) i), '1 ms');
CALL pg_temp.sleep('5 ms');
CALL idem_sweep(batch => 300);
SELECT results_eq(
    $$ SELECT state, rows_deleted, batches >= 7, blocks_done = blocks_total, complete_from = started_at, pid = pg_backend_pid()
         FROM idem_sweep_progress WHERE table_name = 'idem_keys' $$,
    $$ VALUES ('finished', 2000::bigint, true, true, true, true) $$, 'progress_of_a_finished_sweep');
SELECT set_eq($$ SELECT table_name FROM idem_sweep_progress $$, ARRAY['idem_keys', 'idem_tokens', 'idem_locks', 'idem_rates', 'idem_counters'],
    'every_table_is_swept');
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'sweep:few ' || i FROM generate_series(1, 7) i), '1 ms');
CALL pg_temp.sleep('5 ms');
CALL idem_sweep(3);
SELECT is((SELECT array[rows_deleted, batches] FROM idem_sweep_progress WHERE table_name = 'idem_keys'), '{7,3}', 'no_batch_is_larger_than_asked_for');

-- A batch that ends within a page: by its number of rows, or because deleting what belongs to a row takes long. The rows
-- are on one page or two, their responses in a table of their own.
CREATE PROCEDURE pg_temp.answer_at_length(number int, lines int) LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb := (SELECT to_jsonb(string_agg(encode(sha256(i::text::bytea), 'base64'), '')) -- hardly to be compressed
                     FROM generate_series(1, lines) i);
BEGIN
    DELETE FROM idem.idem_keys WHERE starts_with(key, 'sweep:');
    INSERT INTO idem.idem_keys (created_at, expires_at, attempt, state, scope, key, response)
    SELECT now(), now(), 1, 'c', '', 'sweep:large ' || i, answer FROM generate_series(1, number) i;
END $$;
CREATE FUNCTION pg_temp.pieces() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    pieces bigint;
BEGIN
    EXECUTE 'SELECT count(*) FROM ' || (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'idem.idem_keys'::regclass) INTO pieces;
    RETURN pieces;
END $$;
VACUUM idem_keys;
CALL pg_temp.answer_at_length(40, 1000);
SELECT ok((SELECT count(DISTINCT split_part(ctid::text, ',', 1)) < 3 FROM idem_keys WHERE starts_with(key, 'sweep:large')) AND pg_temp.pieces() > 800,
    'large_responses_of_a_page');
CALL idem_sweep(7);
SELECT is((SELECT array[rows_deleted, rows_held] FROM idem_sweep_progress WHERE table_name = 'idem_keys') || pg_temp.pieces(), '{40,0,0}',
    'batches_that_end_within_a_page_leave_nothing_out');
SELECT ok((SELECT batches >= 6 FROM idem_sweep_progress WHERE table_name = 'idem_keys'), 'and_hold_no_more_rows_than_asked_for');
DELETE FROM idem_keys WHERE starts_with(key, 'sweep:');
VACUUM idem_keys;
CALL pg_temp.answer_at_length(30, 120000);
SELECT count(DISTINCT split_part(ctid::text, ',', 1)) AS pages FROM idem_keys WHERE starts_with(key, 'sweep:large') \gset
CALL idem_sweep();
SELECT is((SELECT array[rows_deleted, rows_held, (batches > :pages)::int] FROM idem_sweep_progress WHERE table_name = 'idem_keys') || pg_temp.pieces(),
    '{30,0,1,0}', 'a_batch_ends_in_time_among_large_responses');

-- A sweep that is cancelled keeps what it has committed, and the next one goes on from there.
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'sweep:more ' || i FROM generate_series(1, 2000) i), '1 ms');
CALL pg_temp.sleep('5 ms');
SET statement_timeout = '4 s'; -- in the pause after the first batch
CALL idem_sweep(200, '1 min');
SELECT is(:'SQLSTATE'::text, '57014', 'statement_timeout_ends_a_sweep');
RESET statement_timeout;
SELECT results_eq(
    $$ SELECT state, rows_deleted > 0 AND rows_deleted < 2000, 2000 - rows_deleted
         FROM idem_sweep_progress WHERE table_name = 'idem_keys' $$,
    $$ SELECT 'interrupted', true, count(*) FROM idem_keys WHERE starts_with(key, 'sweep:more') $$, 'what_was_committed_stays_done');
SELECT next_block > 0 AS has_moved FROM idem_sweeps WHERE swept = 'idem_keys'::regclass AND slot = 0 \gset
SELECT ok(:'has_moved', 'place_of_the_interruption_is_remembered');
CALL idem_sweep();
SELECT is((SELECT count(*) FROM idem_keys WHERE starts_with(key, 'sweep:more')), 0::bigint, 'next_sweep_deletes_the_rest');
SELECT results_eq($$ SELECT s.state, next_block, blocks_done = s.blocks_total
                       FROM idem_sweep_progress s JOIN idem_sweeps USING (started_at, blocks_done) WHERE table_name = 'idem_keys' $$,
    $$ VALUES ('finished', 0::bigint, true) $$, 'and_comes_round_to_where_it_began');

-- After the server's start.
SELECT idem_claim('sweep:late', '1 ms');
CALL pg_temp.sleep('5 ms');
SET idem.sweep_start_delay = '1000 d';
CALL idem_sweep();
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'sweep:late'), 1::bigint, 'nothing_is_swept_too_soon_after_the_start');
RESET idem.sweep_start_delay;
CALL idem_sweep();
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'sweep:late'), 0::bigint, 'the_delay_is_a_setting');

-- Errors.
SELECT is(pg_temp.state_of('CALL idem.idem_sweep()'), '2D000', 'within_a_function');
SELECT matches(pg_temp.hint_of('CALL idem.idem_sweep()'), '^Send CALL idem_sweep\(\) as a statement of its own', 'hint_within_a_function');
BEGIN;
CALL idem_sweep();
\set block :SQLSTATE
\set message :LAST_ERROR_MESSAGE
ROLLBACK;
SELECT is(:'block'::text, '2D000', 'within_a_block');
SELECT is(:'message'::text, 'idem_sweep() cannot run inside a transaction block', 'message_within_a_block');
DO $$ BEGIN CALL idem.idem_sweep(); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
SELECT is(:'SQLSTATE'::text, '2D000', 'within_an_exception_block');
DO $$ BEGIN CALL idem.idem_sweep(); END $$;
SELECT is(:'SQLSTATE'::text, '00000', 'a_do_block_of_its_own_may');
SELECT is(
    (SELECT string_agg(pg_temp.state_of('CALL idem.idem_sweep(' || arguments || ')'), ' ')
       FROM unnest(ARRAY['NULL', '1, NULL', 'NULL, NULL', '0', '-1', '1, ''-1 s''', '1, ''178000000 years''']) arguments),
    '2D000 2D000 2D000 22023 22023 22023 22023', 'bad_arguments');
ALTER TABLE idem_tokens SET UNLOGGED;
CALL idem_sweep();
\set replaced :SQLSTATE
ALTER TABLE idem_tokens SET LOGGED;
SELECT is(:'replaced'::text, '55000', 'table_that_is_not_the_one_that_was_installed');
SET default_transaction_read_only = on;
CALL idem_sweep();
\set read_only :SQLSTATE
RESET default_transaction_read_only;
SELECT is(:'read_only'::text, '25006', 'read_only');
SET default_transaction_isolation = serializable;
CALL idem_sweep();
SELECT is(:'SQLSTATE'::text, '00000', 'serializable_sessions_sweep_too');
RESET default_transaction_isolation;

-- Privileges: EXECUTE, and no right to any table or scope.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
CREATE ROLE tap_sweeper;
CREATE ROLE tap_owner;
CREATE ROLE tap_plain;
SELECT idem_grant('tap_plain'), idem_grant('tap_sweeper', operator => true);
SELECT idem_scope_set('sweep:owned', owner => 'tap_owner');
SELECT idem_claim('sweep:owned', '1 ms', 'sweep:owned');
CALL pg_temp.sleep('5 ms');
SET ROLE tap_plain;
CALL idem_sweep();
\set plain :SQLSTATE
SELECT count(*) FROM idem_sweep_progress;
\set plain_view :SQLSTATE
RESET ROLE;
SELECT is(:'plain' || ' ' || :'plain_view', '42501 42501', 'role_that_is_no_operator');
SET ROLE tap_sweeper;
CALL idem_sweep();
\set operator :SQLSTATE
SELECT count(*) AS tables FROM idem_sweep_progress \gset
RESET ROLE;
SELECT is(:'operator' || ' ' || :'tables', '00000 5', 'operator');
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'sweep:owned'), 0::bigint, 'operator_sweeps_every_scope');

SELECT idem_revoke('tap_plain'), idem_revoke('tap_sweeper');
CALL pg_temp.clean('sweep:');
DO $$ DECLARE role text; BEGIN
    FOREACH role IN ARRAY ARRAY['tap_plain', 'tap_sweeper'] LOOP EXECUTE format('REVOKE USAGE ON SCHEMA idem FROM %I', role); END LOOP;
END $$;
DROP ROLE tap_sweeper, tap_plain, tap_owner;
SELECT ok(NOT EXISTS (SELECT FROM pg_roles WHERE rolname IN ('tap_sweeper', 'tap_plain', 'tap_owner')), 'roles_are_gone');
SELECT * FROM finish();
