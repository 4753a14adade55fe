-- idem_complete: what is stored, how often, and for how long.
\ir ../include/helpers.psql
SELECT plan(48);
CALL pg_temp.clean('complete:');

-- Leased.
SELECT fence FROM idem_begin('complete:a', idem_fingerprint('1'), lease => '1 hour', owner => 'me') \gset
SELECT throws_ok($$ SELECT idem_complete('complete:a', '1') $$, 'ID001', NULL, 'leased_key_needs_its_fence');
SELECT throws_ok($$ SELECT idem_complete('complete:a', '1') $$, 'ID001', 'key "complete:a" was not claimed by this transaction',
    'message_without_a_fence_names_the_transaction');
SELECT matches(pg_temp.hint_of($$ SELECT idem_complete('complete:a', '1') $$), 'Is autocommit on', 'and_the_hint_asks_for_autocommit');
SELECT lives_ok(
    format($$ SELECT idem_complete(key => 'complete:a', response => '{"b": 1, "a": [1.0]}', status_code => 201, fence => %s,
                                   scope => '') $$, :fence),
    'complete_by_name');
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "status_code": 201, "response": {"a": [1.0], "b": 1}}',
    'response_is_replayed') FROM idem_begin('complete:a') t;
SELECT is(t.response::text, '{"a": [1.0], "b": 1}', 'response_is_replayed_as_it_was_written') FROM idem_begin('complete:a') t;
SELECT is((SELECT outcome FROM idem_begin('complete:a', idem_fingerprint('2'))), 'mismatch', 'completion_keeps_the_fingerprint');

-- Again, with the same fence.
SELECT lives_ok(format($$ SELECT idem_complete('complete:a', '{"a": [1.0], "b": 1}', 201, %s) $$, :fence),
    'equal_completion_is_a_no_op');
SELECT throws_ok(format($$ SELECT idem_complete('complete:a', '{"a": [2], "b": 1}', 201, %s) $$, :fence), 'ID001', NULL,
    'other_response');
SELECT throws_ok(format($$ SELECT idem_complete('complete:a', '{"a": [1.0], "b": 1}', 200, %s) $$, :fence), 'ID001', NULL,
    'other_status_code');
SELECT throws_ok(format($$ SELECT idem_complete('complete:a', '{"a": [1.0], "b": 1}', NULL, %s) $$, :fence), 'ID001', NULL,
    'no_status_code');
SELECT throws_ok(format($$ SELECT idem_complete('complete:a', NULL, 201, %s) $$, :fence), 'ID001', NULL, 'no_response');
SELECT throws_ok(format($$ SELECT idem_complete('complete:a', 'null', 201, %s) $$, :fence), 'ID001', NULL, 'json_null');
SELECT throws_ok(format($$ SELECT idem_complete('complete:a', '{"a": [1.0], "b": 1}', 201, %s) $$, :fence + 1), 'ID001', NULL,
    'other_fence');
SELECT throws_ok($$ SELECT idem_complete('complete:a', '{"a": [1.0], "b": 1}', 201) $$, 'ID001', NULL, 'no_fence');
SELECT throws_ok(format($$ SELECT idem_renew('complete:a', %s) $$, :fence), 'ID001', NULL, 'completed_key_is_not_renewed');
SELECT throws_ok(format($$ SELECT idem_step('complete:a', %s, 'x') $$, :fence), 'ID001', NULL, 'completed_key_takes_no_step');
SELECT throws_ok(format($$ SELECT idem_release('complete:a', %s) $$, :fence), 'ID001', NULL, 'completed_key_is_not_released');
SELECT ctid AS before FROM idem_keys WHERE key = 'complete:a' AND scope = '' \gset
SELECT idem_complete('complete:a', '{"a": [1.0], "b": 1}', 201, :fence);
SELECT is((SELECT ctid FROM idem_keys WHERE key = 'complete:a' AND scope = ''), :'before'::tid, 'no_op_writes_no_tuple');
SELECT is((SELECT response FROM idem_begin('complete:a')), '{"a": [1], "b": 1}', 'first_response_stands');

SELECT fence FROM idem_begin('complete:empty', lease => '1 hour') \gset
SELECT idem_complete('complete:empty', fence => :fence);
SELECT lives_ok(format($$ SELECT idem_complete('complete:empty', fence => %s) $$, :fence), 'equal_empty_completion');
SELECT throws_ok(format($$ SELECT idem_complete('complete:empty', 'null', fence => %s) $$, :fence), 'ID001', NULL,
    'json_null_is_not_the_empty_response');
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed"}', 'empty_completion_is_replayed')
  FROM idem_begin('complete:empty') t;

-- Begun and completed in one transaction.
BEGIN;
SELECT fence FROM idem_begin('complete:one', lease => '1 hour') \gset
SELECT throws_ok($$ SELECT idem_complete('complete:one', '"x"') $$, 'ID001', NULL, 'own_lease_needs_its_fence_too');
SELECT idem_complete('complete:one', '"x"', fence => :fence);
SELECT lives_ok(format($$ SELECT idem_complete('complete:one', '"x"', fence => %s) $$, :fence), 'equal_completion_in_one_transaction');
SELECT throws_ok(format($$ SELECT idem_complete('complete:one', '"y"', fence => %s) $$, :fence), 'ID001', NULL,
    'different_completion_in_one_transaction');
COMMIT;
SELECT is((SELECT response FROM idem_begin('complete:one')), '"x"', 'completion_in_one_transaction');

-- Begun and completed in one statement.
SELECT lives_ok($$ SELECT idem_claim('complete:statement'), idem_complete('complete:statement', '"x"') $$,
    'claimed_and_completed_in_one_statement');
SELECT lives_ok($$ SELECT idem_step(key, fence, 'x'), idem_renew(key, fence), idem_complete(key, '"x"', fence => fence)
                     FROM unnest('{complete:leased1,complete:leased2}'::text[]) key, idem_begin(key, lease => '1 hour') $$,
    'begun_and_completed_in_one_statement');
SELECT is((SELECT string_agg(response::text, ' ') FROM unnest('{complete:statement,complete:leased1,complete:leased2}'::text[]) key,
                                                       idem_lookup(key)), '"x" "x" "x"', 'completions_in_one_statement');

-- Transactional.
SELECT idem_claim('complete:committed');
SELECT throws_ok($$ SELECT idem_complete('complete:committed', '1') $$, 'ID001', NULL, 'committed_claim_takes_no_response_afterwards');
SELECT throws_ok($$ SELECT idem_complete('complete:absent', '1') $$, 'ID001', NULL, 'absent_key_takes_no_response');
BEGIN;
SELECT idem_claim('complete:own');
SELECT lives_ok($$ SELECT idem_complete('complete:own', '"first"', 200) $$, 'own_claim_takes_a_response');
SELECT lives_ok($$ SELECT idem_complete('complete:own', '"second"', 201) $$, 'and_another_one');
COMMIT;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "status_code": 201, "response": "second"}', 'last_one_commits')
  FROM idem_begin('complete:own') t;
BEGIN;
SELECT * FROM idem_claim_many('{complete:many1,complete:many2}');
SELECT idem_complete('complete:many2', '2');
SELECT idem_try_claim('complete:try');
SELECT idem_complete('complete:try', '3');
COMMIT;
SELECT is((SELECT string_agg(coalesce(response::text, '-'), ' ' ORDER BY key)
             FROM unnest('{complete:many1,complete:many2,complete:try}'::text[]) key, idem_lookup(key)), '- 2 3',
    'every_kind_of_claim_takes_a_response');

-- The retention is counted anew.
SELECT fence FROM idem_begin('complete:ttl', ttl => '1 hour', lease => '1 hour') \gset
SELECT expires_at AS before FROM idem_lookup('complete:ttl') \gset
CALL pg_temp.sleep('50 ms');
SELECT idem_complete('complete:ttl', fence => :fence);
SELECT ok(expires_at - :'before'::timestamptz BETWEEN interval '50 ms' AND interval '10 s',
    'completion_counts_the_retention_anew') FROM idem_lookup('complete:ttl');

-- It is as long after each completion as the claim has set it.
BEGIN;
SELECT idem_claim('complete:twice', '1 hour');
CALL pg_temp.sleep('100 ms');
SELECT idem_complete('complete:twice', '1');
CALL pg_temp.sleep('100 ms');
SELECT clock_timestamp() AS second \gset
SELECT idem_complete('complete:twice', '2');
SELECT ok(expires_at <= clock_timestamp() + interval '1 hour', 'further_completions_do_not_lengthen_the_retention') FROM idem_lookup('complete:twice');
SELECT ok(expires_at >= :'second'::timestamptz + interval '1 hour', 'further_completion_counts_the_retention_anew') FROM idem_lookup('complete:twice');
COMMIT;

-- A time zone in which the clocks are set forward twelve hours from now.
BEGIN;
SELECT set_config('TimeZone', format('A0B,%s/%s,%s', extract(doy FROM at) - 1, extract(hour FROM at), CASE WHEN extract(doy FROM at) > 180 THEN 90 ELSE 270 END), true)
  FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC' + interval '12 hours' AS at) a;
SELECT idem_claim('complete:clocks', '24 hours'), idem_complete('complete:clocks', '1');
SELECT ok(extract(epoch FROM expires_at - clock_timestamp()) BETWEEN 86100 AND 86400, 'a_day_of_retention_has_24_hours') FROM idem_lookup('complete:clocks');
ROLLBACK;

-- Size.
SELECT fence FROM idem_begin('complete:large', lease => '1 hour') \gset
CREATE TEMP TABLE large AS SELECT jsonb_build_array(string_agg(md5(n::text), '')) AS response FROM generate_series(1, 28000) n;
SELECT lives_ok(format($$ SELECT idem_complete('complete:large', response, fence => %s) FROM large $$, :fence), 'response_of_900_kB');
SELECT is((SELECT md5(response::text) FROM idem_begin('complete:large')), (SELECT md5(response::text) FROM large),
    'large_response_is_replayed_whole');

SELECT idem_scope_set('complete:small', max_response_size => 100);
SELECT fence FROM idem_begin('complete:over', lease => '1 hour', scope => 'complete:small') \gset
SET client_min_messages = error;
SELECT is(idem_complete('complete:over', to_jsonb(repeat('x', 5000)), 200, :fence, 'complete:small'), false,
    'response_over_the_limit_completes_and_is_false');
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "status_code": 200, "response_omitted": true}',
    'response_over_the_limit_is_omitted') FROM idem_begin('complete:over', scope => 'complete:small') t;
SELECT lives_ok(
    format($$ SELECT idem_complete('complete:over', to_jsonb(repeat('x', 5000)), 200, %s, 'complete:small') $$, :fence),
    'equal_completion_over_the_limit_is_a_no_op');
SELECT is(idem_complete('complete:small', '"x"', 200, fence, 'complete:small'), true, 'response_within_the_limit_is_true')
  FROM idem_begin('complete:small', lease => '1 hour', scope => 'complete:small');
BEGIN;
SELECT idem_claim('complete:own over', scope => 'complete:small');
SELECT is(idem_complete('complete:own over', to_jsonb(repeat('x', 5000)), scope => 'complete:small'), false,
    'response_of_an_own_claim_over_the_limit_is_false');
COMMIT;
RESET client_min_messages;

-- The warning goes to the client, so another client has to read it.
\setenv PGHOST :HOST
\setenv PGPORT :PORT
\setenv PGUSER :USER
\setenv PGDATABASE :DBNAME
\setenv PATH `echo "$PATH:$(pg_config --bindir)"`
\set over `psql -XqAt -c "SELECT FROM idem.idem_begin('complete:warned', scope => 'complete:small'); SELECT idem.idem_complete('complete:warned', to_jsonb(repeat('x', 5000)), scope => 'complete:small')" 2>&1`
SELECT matches(:'over'::text, 'WARNING:', 'response_over_the_limit_warns');

CALL pg_temp.clean('complete:');
SELECT * FROM finish();
