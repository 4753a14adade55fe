-- response_ttl: the sweep removes old responses and keeps their keys.
\ir ../include/helpers.psql
SELECT plan(22);
CALL pg_temp.clean('response:');
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.answered(key text, scope text, ttl interval = NULL) RETURNS void LANGUAGE sql AS $$
    SELECT idem.idem_begin(key, ttl => ttl, scope => scope);
    SELECT idem.idem_complete(key, jsonb_build_object('of', key), 201, scope => scope);
$$;
-- The keys that have their response.
CREATE FUNCTION pg_temp.kept() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(key, ' ' ORDER BY key) FROM idem.idem_keys WHERE starts_with(scope, 'response:') AND response IS NOT NULL
$$;
CREATE FUNCTION pg_temp.redacted() RETURNS bigint LANGUAGE sql AS $$ SELECT rows_redacted FROM idem.idem_sweep_progress WHERE table_name = 'idem_keys' $$;

-- Which, and when.
SELECT pg_temp.answered('before', 'response:a');
SELECT idem_scope_set('response:a', response_ttl => '1 ms');
SELECT idem_scope_set('response:long', response_ttl => '1 hour');
SELECT idem_scope_set('response:forever', keep_forever => true, response_ttl => '1 ms');
SELECT pg_temp.answered('after', 'response:a');
SELECT pg_temp.answered('later', 'response:long');
SELECT pg_temp.answered('old', 'response:long');
UPDATE idem_keys SET created_at = now() - interval '1 hour', completed_at = now() - interval '1 hour' WHERE key = 'old';
SELECT pg_temp.answered('unlimited', 'response:other');
SELECT pg_temp.answered('forever', 'response:forever');
SELECT idem_claim('without', scope => 'response:a');
SELECT fence FROM idem_begin('leased', lease => '1 hour', scope => 'response:long') \gset
UPDATE idem_keys SET created_at = now() - interval '1 day' WHERE key = 'leased';
SELECT idem_complete('leased', '{}', 200, :fence, 'response:long');
SELECT fence FROM idem_begin('working', lease => '1 hour', scope => 'response:a') \gset
SELECT idem_step('working', :fence, 'charge', '{"charge": 1}', scope => 'response:a');
SELECT fence FROM idem_begin('stepped', lease => '1 hour', scope => 'response:a') \gset
SELECT idem_step('stepped', :fence, 'charge', '{"charge": 2}', scope => 'response:a');
SELECT idem_complete('stepped', NULL, 200, :fence, 'response:a');
SELECT outcome FROM idem_begin('lapsed', lease => '1 ms', scope => 'response:a');
CALL pg_temp.sleep('5 ms');
CREATE TEMP TABLE before AS SELECT * FROM idem_keys WHERE starts_with(scope, 'response:');
CALL idem_sweep();
SELECT is(pg_temp.kept(), 'later leased unlimited', 'responses_that_are_too_old_are_removed');
SELECT is(pg_temp.redacted(), 5::bigint, 'and_counted');
SELECT is((SELECT rows_deleted FROM idem_sweep_progress WHERE table_name = 'idem_keys'), 0::bigint, 'no_key_is_deleted');
SELECT results_eq($$ SELECT to_jsonb(k) - '{response,response_omitted,steps}'::text[] FROM idem_keys k WHERE starts_with(scope, 'response:') ORDER BY key $$,
    $$ SELECT to_jsonb(k) - '{response,response_omitted,steps}'::text[] FROM before k ORDER BY key $$, 'nothing_else_is_changed');
SELECT is(pg_temp.ticket(t), '{"outcome": "completed", "attempt": 1, "status_code": 201, "response_omitted": true}', 'replays_say_that_it_is_omitted')
  FROM idem_begin('before', scope => 'response:a') t;
SELECT is((SELECT string_agg(key, ' ' ORDER BY key) FROM idem_keys WHERE starts_with(scope, 'response:') AND steps IS NOT NULL), 'working', 'outputs_of_steps_go_with_the_response_and_stay_before_it');
SELECT is((SELECT response_omitted FROM idem_begin('without', scope => 'response:a')), false, 'a_key_that_had_none_omits_none');
SELECT is((SELECT string_agg(outcome::text, ' ') FROM unnest('{working,lapsed}'::text[]) k, idem_begin(k, lease => '1 hour', scope => 'response:a')),
    'in_flight taken_over', 'keys_in_progress_are_as_they_were');
CALL idem_sweep();
SELECT is(pg_temp.redacted(), 0::bigint, 'no_response_is_removed_twice');

-- A lease counts from its completion.
UPDATE idem_keys SET completed_at = now() - interval '1 hour' WHERE key = 'leased';
CALL idem_sweep();
SELECT is(pg_temp.kept(), 'later unlimited', 'completed_an_hour_ago');

-- The key's own retention is as it was.
SELECT idem_scope_set('response:short', ttl => '1 ms', response_ttl => '1 hour');
SELECT pg_temp.answered('short', 'response:short');
SELECT pg_temp.answered('both', 'response:a', '1 ms');
CALL pg_temp.sleep('5 ms');
CALL idem_sweep();
SELECT is((SELECT ARRAY[rows_deleted, rows_redacted] FROM idem_sweep_progress WHERE table_name = 'idem_keys'), '{2,0}',
    'a_key_that_expires_first_is_deleted_as_ever');

-- The policy as it is now.
SELECT pg_temp.answered('reset', 'response:a');
SELECT idem_scope_reset('response:a', 'response_ttl'), idem_scope_drop('response:forever');
CALL pg_temp.sleep('5 ms');
CALL idem_sweep();
SELECT is(pg_temp.kept(), 'later reset unlimited', 'reset_it_removes_nothing');
SELECT idem_scope_set('response:long', ttl => '2 hours');
SELECT is((SELECT response_ttl FROM idem_scopes WHERE scope = 'response:long'), '1 hour', 'null_leaves_it');

-- Batches: rows of one page, also with responses in a table of their own.
CREATE PROCEDURE pg_temp.answer_many(number int, answer jsonb) LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM idem.idem_keys WHERE starts_with(scope, 'response:');
    INSERT INTO idem.idem_keys (created_at, expires_at, attempt, state, scope, key, response)
    SELECT now() - interval '1 day', 'infinity', 1, 'c', 'response:long', 'many ' || i, answer FROM generate_series(1, number) i;
END $$;
VACUUM idem_keys;
CALL pg_temp.answer_many(100, '{"a": 1}');
CALL idem_sweep(7);
SELECT is((SELECT ARRAY[rows_redacted, rows_held, (batches >= 15)::int] FROM idem_sweep_progress WHERE table_name = 'idem_keys'), '{100,0,1}',
    'no_batch_is_larger_than_asked_for');
SELECT is((SELECT count(*) FROM idem_keys WHERE scope = 'response:long' AND response_omitted AND response IS NULL), 100::bigint, 'and_none_is_left_out');
SELECT (SELECT to_jsonb(string_agg(encode(sha256(i::text::bytea), 'base64'), '')) FROM generate_series(1, 1000) i) AS large \gset
CALL pg_temp.answer_many(40, :'large');
CALL idem_sweep(7);
SELECT is(pg_temp.redacted(), 40::bigint, 'large_responses');
SELECT is((SELECT count(*) FROM idem_keys WHERE scope = 'response:long' AND response_omitted AND pg_column_size(idem_keys.*) < 200), 40::bigint, 'are_removed_as_well');
CALL pg_temp.answer_many(10, '{"a": 1}');
BEGIN;
SELECT idem_forget('many 3', 'response:long');
PREPARE TRANSACTION 'response';
CALL idem_sweep();
SELECT is((SELECT ARRAY[rows_redacted, rows_held] FROM idem_sweep_progress WHERE table_name = 'idem_keys'), '{9,1}', 'a_row_that_somebody_holds_is_left_alone');
ROLLBACK PREPARED 'response';
CALL idem_sweep();
SELECT is(pg_temp.redacted(), 1::bigint, 'until_the_next_sweep');

-- Updates in place: no index entry is made where the page has room.
CALL pg_temp.answer_many(5, '{"a": 1}');
SELECT pg_temp.flush_statistics();
SELECT pg_stat_get_tuples_hot_updated('idem.idem_keys'::regclass) AS hot \gset
CALL idem_sweep();
SELECT pg_temp.flush_statistics();
SELECT is(pg_stat_get_tuples_hot_updated('idem.idem_keys'::regclass) - :hot, 5::bigint, 'updates_are_heap_only');

-- Bad values.
SELECT is((SELECT string_agg(pg_temp.state_of(format('SELECT idem_scope_set(''response:bad'', response_ttl => %L)', span)), ' ')
             FROM unnest('{0,-1 s,-1 month}'::text[]) AS span), '22023 22023 22023', 'response_ttl_that_is_not_positive');
SELECT is(pg_temp.state_of($$ SELECT idem_scope_set('response:bad', ttl => '1 day', response_ttl => '100 years') $$), 'ok', 'longer_than_the_ttl_is_harmless');

CALL pg_temp.clean('response:');
SELECT * FROM finish();
