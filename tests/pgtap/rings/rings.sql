-- Rings: every function on a ring's scope is as on any other; what a ring refuses; its windows, in one session.
\ir ../include/helpers.psql
\ir ../include/hmac.psql
SELECT plan(101);
CALL pg_temp.clean('ring:');
SET client_min_messages = warning;

CREATE PROCEDURE pg_temp.age(ring text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE idem_ring_%s SET opened_at = ''2000-01-01'' WHERE state = ''open''', (SELECT id FROM idem_ring_registry r WHERE r.ring = $1));
END $$;
CREATE FUNCTION pg_temp.windows(ring text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(state || CASE WHEN false_positives IS NOT NULL THEN ' and covered' ELSE '' END, ', ' ORDER BY number) FROM idem_rings r WHERE r.ring = $1
$$;
CREATE FUNCTION pg_temp.place(key text) RETURNS text LANGUAGE sql AS $$
    SELECT (SELECT r.number::text FROM idem_rings r WHERE k.tableoid::regclass::text LIKE '%idem\_ring\_%\_' || r.number LIMIT 1) FROM idem_keys k WHERE k.key = $1
$$;

-- Arguments -----------------------------------------------------------------------------------------------------------------------
SELECT throws_ok($$ SELECT idem_ring_create(NULL, '1 h') $$, '22004', 'ring must not be null');
SELECT throws_ok($$ SELECT idem_ring_create('ring:', NULL) $$, '22004', 'retention must not be null');
SELECT throws_ok($$ SELECT idem_ring_create('', '1 h') $$, '22023', 'ring must have 1 to 255 bytes');
SELECT throws_ok(format('SELECT idem_ring_create(%L, ''1 h'')', repeat('r', 256)), '22023', 'ring must have 1 to 255 bytes');
SELECT throws_ok($$ SELECT idem_ring_create('ring:', '0') $$, '22023', 'retention must be positive and finite');
SELECT throws_ok($$ SELECT idem_ring_create('ring:', '-1 h') $$, '22023', 'retention must be positive and finite');
SELECT throws_ok($$ SELECT idem_ring_create('ring:', '300000 years') $$, '22008', NULL, 'retention_beyond_timestamps');
SELECT throws_ok($$ SELECT idem_ring_create('ring:', '1 h', 2) $$, '22023', 'windows must be from 3 to 32');
SELECT throws_ok($$ SELECT idem_ring_create('ring:', '1 h', 33) $$, '22023', 'windows must be from 3 to 32');
SELECT throws_ok($$ SELECT idem_ring_drop('ring:') $$, '42704', 'ring "ring:" does not exist');
SELECT throws_ok($$ SELECT idem_ring_drop(NULL) $$, '22004', 'ring must not be null');
SELECT throws_ok($$ SELECT idem_ring_rebuild_filter('ring:') $$, '42704', 'ring "ring:" does not exist');
SELECT throws_ok($$ SELECT idem_scope_set('ring:', ring => 'ring:') $$, '42704', 'ring "ring:" does not exist');
SELECT idem_ring_create('ring:', '1 h', NULL);
SELECT throws_ok($$ SELECT idem_ring_create('ring:', '2 h') $$, '42710', 'ring "ring:" already exists');
SELECT is((SELECT count(*)::int FROM idem_rings WHERE ring = 'ring:' AND retention = '1 h' AND windows = 8), 8, 'null_windows_are_eight');
SELECT idem_ring_drop('ring:');
SELECT is((SELECT count(*)::int FROM pg_class WHERE relname LIKE 'idem\_ring\_%\_%' AND relkind = 'r' AND relname <> 'idem_ring_registry'), 0, 'nothing_is_left_of_a_dropped_ring');
SELECT idem_ring_create('ring:least', '1 h', 3), idem_ring_create('ring:most', '1 h', 32);
SELECT is((SELECT count(*)::int FROM idem_rings WHERE ring = 'ring:most'), 32, 'thirty_two_windows');
SELECT idem_ring_drop('ring:least'), idem_ring_drop('ring:most');

-- A scope in a ring ------------------------------------------------------------------------------------------------------------------
SELECT idem_ring_create('ring:', '1 h', 5);
SELECT idem_scope_set('ring:s', keep_forever => true);
SELECT throws_ok($$ SELECT idem_scope_set('ring:s', ring => 'ring:') $$, '22023', 'a scope that keeps its keys forever cannot live in a ring');
SELECT idem_scope_reset('ring:s', 'keep_forever');
SELECT idem_scope_set('ring:s', ring => 'ring:');
SELECT throws_ok($$ SELECT idem_scope_set('ring:s', keep_forever => true) $$, '22023', 'a scope that keeps its keys forever cannot live in a ring');
SELECT throws_ok($$ SELECT idem_claim('k', '2 h', 'ring:s') $$, '22023', 'ttl must be the retention of the scope''s ring');
SELECT ok(idem_claim('k', '1 h', 'ring:s'), 'the_same_ttl_is_no_other');
SELECT throws_ok($$ SELECT idem_begin('l', lease => '1 min', scope => 'ring:s') $$, '0A000', 'a key in a ring cannot have a lease');
SELECT throws_ok($$ SELECT idem_claim_many('{l}', '2 h', 'ring:s') $$, '22023', 'ttl must be the retention of the scope''s ring');
SELECT is(pg_temp.windows('ring:'), 'open, empty, empty, empty, empty', 'a_ring_begins_with_one_open_window');
SELECT is((SELECT expires_at - created_at FROM idem_lookup('k', 'ring:s')), interval '1 h', 'the_retention_is_the_ttl');

-- Keys of each kind in three windows.
CREATE TABLE ring_work (n int);
DO $$ BEGIN PERFORM idem_begin('begun 1', idem_fingerprint_text('a'), scope => 'ring:s'); PERFORM idem_complete('begun 1', '{"n": 1}', 201, scope => 'ring:s'); END $$;
SELECT is((SELECT response FROM idem_execute('executed 1', 'INSERT INTO ring_work VALUES (1) RETURNING n', scope => 'ring:s')), '[{"n": 1}]', 'execute');
SELECT is((SELECT count(*)::int FROM idem_claim_many((SELECT array_agg('many ' || n) FROM generate_series(1, 3000) n), scope => 'ring:s')), 3000, 'claim_many');
CALL pg_temp.age('ring:');
CALL idem_sweep();
SELECT is(pg_temp.windows('ring:'), 'sealed and covered, open, empty, empty, empty', 'the_next_window_is_open');
DO $$ BEGIN PERFORM idem_begin('begun 2', idem_fingerprint_text('a'), scope => 'ring:s'); PERFORM idem_complete('begun 2', '{"n": 2}', 201, scope => 'ring:s'); END $$;
SELECT is((SELECT count(*)::int FROM idem_claim_many((SELECT array_agg('many ' || n) FROM generate_series(2001, 6000) n), scope => 'ring:s')), 3000, 'claim_many_over_two_windows');
CALL pg_temp.age('ring:');
CALL idem_sweep();
SELECT is(pg_temp.windows('ring:'), 'sealed and covered, sealed and covered, open, empty, empty', 'three_windows');
SELECT is((SELECT count(*)::int FROM idem_claim_many((SELECT array_agg('many ' || n) FROM generate_series(1, 6000) n), scope => 'ring:s')), 0, 'all_are_duplicates');
SELECT is((SELECT count(*)::int FROM idem_claim_many((SELECT array_agg('many ' || n) FROM generate_series(5999, 6002) n), scope => 'ring:s')), 2, 'few_over_three_windows');
SELECT is((SELECT count(*)::int FROM generate_series(1, 6000) n WHERE idem_claim('many ' || n, scope => 'ring:s')), 0, 'and_one_by_one');
SELECT is((SELECT outcome::text || response || status_code FROM idem_begin('begun 1', scope => 'ring:s')), 'completed{"n": 1}201', 'a_replay_from_a_sealed_window');
SELECT is((SELECT outcome::text FROM idem_begin('begun 2', idem_fingerprint_text('b'), scope => 'ring:s')), 'mismatch', 'a_mismatch_in_a_sealed_window');
SELECT is((SELECT outcome::text || response FROM idem_execute('executed 1', 'INSERT INTO ring_work VALUES (2) RETURNING n', scope => 'ring:s')), 'completed[{"n": 1}]', 'execute_again');
SELECT is((SELECT count(*)::int FROM ring_work), 1, 'done_once');
SELECT throws_ok($$ SELECT idem_must_claim('k', scope => 'ring:s') $$, 'ID006', NULL, 'must_claim');
SELECT is(idem_try_claim('k', scope => 'ring:s')::text, 'completed', 'try_claim');
SELECT is((SELECT state || response FROM idem_lookup('begun 1', 'ring:s')), 'completed{"n": 1}', 'lookup');
SELECT ok(idem_redact('begun 1', 'ring:s'), 'redact');
SELECT is((SELECT response_omitted FROM idem_begin('begun 1', scope => 'ring:s')), true, 'a_response_is_removed_in_a_sealed_window');
SELECT ok(idem_forget('k', 'ring:s'), 'forget');
SELECT ok(NOT idem_forget('k', 'ring:s'), 'forgotten');
SELECT ok(idem_claim('k', scope => 'ring:s'), 'what_is_forgotten_is_free');
SELECT is(pg_temp.place('k'), '2', 'and_in_the_open_window');
SELECT is((SELECT count(*)::int FROM idem_keys WHERE scope = 'ring:s' AND key = 'k'), 1, 'idem_keys_shows_all');
SELECT is((SELECT count(*)::int FROM ONLY idem_keys WHERE scope = 'ring:s'), 0, 'and_has_none_itself');
SELECT results_eq($$ SELECT number, keys FROM idem_rings WHERE ring = 'ring:' AND state = 'sealed' ORDER BY 1 $$, $$ VALUES (0, 3003::bigint), (1, 3001) $$, 'keys_are_counted');
SELECT is((SELECT count(*)::int FROM idem_rings WHERE ring = 'ring:' AND state = 'sealed' AND false_positives BETWEEN 0 AND 0.015), 2, 'false_positives');

-- An expired key is free exactly at its end, wherever it is.
UPDATE idem_keys SET expires_at = clock_timestamp() WHERE scope = 'ring:s' AND key IN ('many 1', 'many 4000', 'k');
SELECT ok(idem_claim('many 1', scope => 'ring:s') AND NOT idem_claim('many 1', scope => 'ring:s'), 'expired_in_a_sealed_window');
SELECT is((SELECT count(*)::int FROM idem_claim_many('{many 1,many 2,many 4000,k}', scope => 'ring:s')), 2, 'expired_keys_in_a_batch');
SELECT ok(NOT idem_claim('k', scope => 'ring:s'), 'expired_in_the_open_window');
SELECT is((SELECT count(*)::int FROM idem_keys WHERE scope = 'ring:s' AND key = 'k'), 1, 'whose_row_is_used_again');
SELECT is((SELECT count(*)::int FROM idem_keys WHERE scope = 'ring:s' AND key = 'many 1'), 2, 'that_of_a_sealed_window_is_not');
SELECT is((SELECT count(*)::int FROM idem_lookup('many 1', 'ring:s')), 1, 'a_live_row_hides_an_expired_one');

-- The filter.
SELECT is(pg_temp.windows('ring:'), 'sealed, sealed, open, empty, empty', 'rows_that_were_changed_by_hand_leave_the_filter');
SELECT idem_ring_rebuild_filter('ring:');
SELECT is(pg_temp.windows('ring:'), 'sealed and covered, sealed and covered, open, empty, empty', 'rebuilt');
SELECT is((SELECT count(*)::int FROM idem_claim_many((SELECT array_agg('many ' || n) FROM generate_series(1, 6000) n), scope => 'ring:s')), 0, 'and_all_are_duplicates');
DO $$ BEGIN EXECUTE format('REINDEX INDEX idem_ring_%s_filter', (SELECT id FROM idem_ring_registry WHERE ring = 'ring:')); END $$;
SELECT is(pg_temp.windows('ring:'), 'sealed, sealed, open, empty, empty', 'reindex_empties_the_filter');
SELECT is((SELECT count(*)::int FROM idem_claim_many((SELECT array_agg('many ' || n) FROM generate_series(1, 6000) n), scope => 'ring:s')), 0, 'the_indexes_know');
CALL idem_sweep();
SELECT is(pg_temp.windows('ring:'), 'sealed and covered, sealed and covered, open, empty, empty', 'the_sweeper_fills_it');
DO $$ BEGIN EXECUTE format('DROP INDEX idem_ring_%s_filter', (SELECT id FROM idem_ring_registry WHERE ring = 'ring:')); END $$;
SELECT is((SELECT count(*)::int FROM idem_claim_many((SELECT array_agg('many ' || n) FROM generate_series(1, 6000) n), scope => 'ring:s')), 0, 'a_missing_filter_is_never_an_absent_key');
SELECT is((SELECT level FROM idem_health() WHERE check_name = 'rings'), 'warning', 'health_misses_the_filter');
SELECT idem_ring_rebuild_filter('ring:');
CALL idem_sweep();
SELECT is(pg_temp.windows('ring:'), 'sealed and covered, sealed and covered, open, empty, empty', 'and_it_is_made_again');
SELECT is((SELECT level FROM idem_health() WHERE check_name = 'rings'), 'ok', 'health');

-- A window whose keys have all expired is emptied, and opened again.
UPDATE idem_keys SET expires_at = clock_timestamp() WHERE scope = 'ring:s';
SELECT format('VACUUM idem_ring_%s_%s', id, n) FROM idem_ring_registry, generate_series(0, 4) n WHERE ring = 'ring:' \gexec
CALL idem_sweep();
SELECT is(pg_temp.windows('ring:'), 'empty, empty, open, empty, empty', 'expired_windows_are_emptied');
SELECT is((SELECT count(*)::int FROM idem_claim_many((SELECT array_agg('many ' || n) FROM generate_series(1, 6000) n), scope => 'ring:s')), 6000, 'all_are_free');
CALL pg_temp.age('ring:');
CALL idem_sweep();
SELECT is(pg_temp.windows('ring:'), 'open, empty, sealed and covered, empty, empty', 'and_used_again');

-- A key that has expired where new keys go may live in a place that the scope has left.
SELECT idem_claim('back', '1 ms', 'ring:back');
CALL pg_temp.sleep('5 ms');
SELECT idem_scope_set('ring:back', ring => 'ring:');
SELECT ok(idem_claim('back', scope => 'ring:back'), 'a_key_that_has_expired_outside_is_claimed_in_the_ring');
SELECT idem_claim('there', scope => 'ring:back');
UPDATE idem_keys SET expires_at = clock_timestamp() WHERE scope = 'ring:back' AND key = 'there';
SELECT idem_scope_reset('ring:back', 'ring');
SELECT ok(NOT idem_claim('back', '1 h', 'ring:back'), 'and_is_a_duplicate_when_the_scope_has_left_it');
SELECT is(idem_try_claim('back', '1 h', 'ring:back')::text, 'completed', 'for_idem_try_claim_too');
BEGIN;
SELECT is((SELECT outcome::text FROM idem_begin('back', ttl => '1 h', scope => 'ring:back')), 'completed', 'for_idem_begin_too');
COMMIT;
SELECT is((SELECT count(*)::int FROM idem_claim_many('{back}', '1 h', 'ring:back')), 0, 'for_a_batch_too');
SELECT is((SELECT count(*)::int FROM idem_lookup('back', 'ring:back')), 1, 'and_found');
SELECT ok(idem_claim('there', '1 h', 'ring:back'), 'a_key_that_has_expired_in_the_ring_is_claimed_outside');
SELECT idem_scope_set('ring:back', ring => 'ring:');
SELECT ok(NOT idem_claim('there', scope => 'ring:back'), 'and_is_a_duplicate_when_the_scope_is_in_the_ring_again');
SELECT is((SELECT count(*)::int FROM idem_claim_many('{there}', scope => 'ring:back')), 0, 'for_a_batch_too');
SELECT idem_scope_reset('ring:back', 'ring');
DELETE FROM idem_keys WHERE scope = 'ring:back';

-- Dropping, and what does not fit.
SELECT throws_ok($$ SELECT idem_ring_drop('ring:') $$, '55006', 'ring "ring:" is in use');
SELECT idem_scope_reset('ring:s', 'ring');
SELECT throws_ok($$ SELECT idem_ring_drop('ring:') $$, '55006', 'ring "ring:" is in use');
SELECT ok(NOT idem_claim('many 1', scope => 'ring:s'), 'a_key_in_the_ring_that_was_left_counts');
SELECT ok(idem_claim('outside', '2 h', 'ring:s'), 'outside_of_the_ring_any_ttl_will_do');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT throws_ok($$ SELECT idem_ring_drop('ring:') $$, '25000', 'idem_ring_drop() needs the isolation level READ COMMITTED');
ROLLBACK;
DELETE FROM idem_keys WHERE scope = 'ring:s';
SELECT idem_ring_drop('ring:');
SELECT is((SELECT count(*)::int FROM idem_scope_places WHERE scope = 'ring:s'), 0, 'no_place_is_left');
SELECT ok(idem_claim('many 1', scope => 'ring:s'), 'and_the_scope_is_as_any_other');

-- A ring whose map is empty, as after the restore of a schema without its data, or missing.
CREATE FUNCTION pg_temp.places(scope text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(coalesce(r.ring, 'idem_keys') || CASE WHEN is_current THEN '' ELSE ' left' END, ', ' ORDER BY p.ring)
      FROM idem_scope_places p LEFT JOIN idem_ring_registry r ON r.id = p.ring WHERE p.scope = $1
$$;
CREATE FUNCTION pg_temp.change_map(ring text, change text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(change, 'idem_ring_' || (SELECT id FROM idem_ring_registry r WHERE r.ring = $1));
END $$;
SELECT idem_ring_create('ring:old', '1 h', 3);
BEGIN;
SELECT idem_ring_create('ring:lost', '1 h', 3);
SELECT idem_scope_set('ring:one', ring => 'ring:lost'), idem_scope_set('ring:two', ring => 'ring:old'), idem_scope_set('ring:two', ring => 'ring:lost');
SELECT idem_claim('k', scope => 'ring:one');
SAVEPOINT there;
SELECT pg_temp.change_map('ring:lost', change) FROM unnest('{TRUNCATE %s}'::text[]) AS change;
SELECT throws_ok($$ SELECT idem_ring_drop('ring:lost') $$, '55006', 'ring "ring:lost" is in use', 'live_keys_are_not_dropped_with_an_empty_map');
DELETE FROM idem_keys WHERE scope = 'ring:one';
SELECT lives_ok($$ SELECT idem_ring_drop('ring:lost') $$, 'ring_with_an_empty_map');
SELECT is(pg_temp.places('ring:one'), NULL, 'scope_has_all_its_keys_in_idem_keys');
SELECT is(pg_temp.places('ring:two'), 'idem_keys, ring:old left', 'scope_that_has_left_another_ring');
SELECT is(pg_temp.state_of(format('SELECT idem_claim(''again'', scope => %L)', scope)), 'ok', 'both_can_be_claimed_in') FROM unnest('{ring:one,ring:two}'::text[]) AS scope;
SELECT is(count(*)::int, 2, 'in_idem_keys') FROM ONLY idem_keys WHERE key = 'again';
ROLLBACK TO there;
SELECT pg_temp.change_map('ring:lost', 'DROP TABLE %s');
SELECT throws_ok($$ SELECT idem_ring_drop('ring:lost') $$, '55006', 'ring "ring:lost" is in use', 'live_keys_are_not_dropped_without_a_map');
DELETE FROM idem_keys WHERE scope = 'ring:one';
SELECT lives_ok($$ SELECT idem_ring_drop('ring:lost') $$, 'ring_without_a_map');
SELECT is(pg_temp.places('ring:one'), NULL, 'scope_has_all_its_keys_in_idem_keys');
SELECT is(pg_temp.state_of(format('SELECT idem_claim(''again'', scope => %L)', scope)), 'ok', 'both_can_be_claimed_in') FROM unnest('{ring:one,ring:two}'::text[]) AS scope;
ROLLBACK;
SELECT idem_ring_drop('ring:old');

-- The access method is for maps alone.
CREATE TEMP TABLE idem_ring_7 (number smallint);
SELECT throws_ok($$ CREATE INDEX ON idem_ring_7 USING idem_filter (number) $$, '55000', 'cannot create an idem_filter index on table "idem_ring_7"', 'index_on_another_table');

-- A child of idem_keys that is no window.
BEGIN;
CREATE TABLE ring_child () INHERITS (idem_keys);
SELECT throws_ok($$ SELECT idem_claim('ring:k') $$, '55000', NULL, 'a_child_that_is_no_window');
ROLLBACK;
-- Webhooks and signed requests need their ids for some time.
SELECT idem_ring_create('ring:short', '1 min', 3);
SELECT idem_webhook_source_set('ring:', 'standard', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
BEGIN;
SELECT idem_scope_set('webhook', ring => 'ring:short');
SELECT throws_ok(format($$ SELECT * FROM idem_webhook_receive('ring:', %L, 'x') $$, jsonb_build_object('webhook-id', 'msg', 'webhook-timestamp', at::text,
    'webhook-signature', 'v1,' || encode(pg_temp.hmac(decode('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64'), convert_to(format('msg.%s.x', at), 'UTF8')), 'base64'))),
    '22023', 'the retention of the scope''s ring is too short') FROM CAST(extract(epoch FROM now()) AS bigint) AS at;
ROLLBACK;
SELECT idem_webhook_source_drop('ring:');
SELECT idem_ring_drop('ring:short');
DROP TABLE ring_work;
SELECT ok(idem_scope_drop('ring:s'), 'the_end');
SELECT * FROM finish();
