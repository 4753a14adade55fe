-- renew, release, and every other change of a holder: the fence is the arbiter.
\ir ../include/helpers.psql
SELECT plan(20);
CALL pg_temp.clean('fence:');

SELECT fence FROM idem_begin('fence:a', lease => '1 hour', owner => 'me') \gset

-- Renew.
SELECT ok(pg_temp.seconds_from_now(idem_renew('fence:a', :fence, '2 hours')) BETWEEN 7190 AND 7200, 'renew_returns_the_new_end');
SELECT ok(pg_temp.seconds_from_now(lease_until) BETWEEN 7190 AND 7200, 'new_end_is_stored') FROM idem_lookup('fence:a');
SELECT ok(pg_temp.seconds_from_now(idem_renew('fence:a', :fence, '1 min')) BETWEEN 50 AND 60, 'lease_can_be_shortened');
SELECT ok(pg_temp.seconds_from_now(idem_renew('fence:a', :fence)) BETWEEN 25 AND 30, 'default_lease_is_30_seconds');
SELECT ok(pg_temp.seconds_from_now(idem_renew(key => 'fence:a', fence => :fence, lease => NULL, scope => '')) BETWEEN 25 AND 30,
    'null_lease_is_the_default');

-- A lease counts from the call, not from the transaction's start.
BEGIN;
CALL pg_temp.sleep('100 ms');
SELECT clock_timestamp() AS before \gset
SELECT ok(idem_renew('fence:a', :fence, '1 min') >= :'before'::timestamptz + interval '1 min', 'lease_is_renewed_from_the_clock');
SELECT ok(lease_until >= :'before'::timestamptz + interval '1 min', 'lease_is_begun_from_the_clock')
  FROM idem_begin('fence:clock', lease => '1 min');
ROLLBACK;

-- Wrong fences, wrong keys, wrong scopes.
CREATE TEMP TABLE change (call text);
INSERT INTO change VALUES
    ('idem_renew(%L, %s, scope => %L)'), ('idem_step(%L, %s, ''x'', scope => %L)'),
    ('idem_complete(%L, fence => %s, scope => %L)'), ('idem_release(%L, %s, %L)');
CREATE FUNCTION pg_temp.changes(key text, fence bigint, scope text = '') RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(DISTINCT pg_temp.state_of('SELECT ' || format(call, key, coalesce(fence::text, 'NULL'), scope)), ', ')
      FROM change
$$;
SELECT is(pg_temp.changes('fence:a', :fence + 1), 'ID001', 'greater_fence_is_stale');
SELECT is(pg_temp.changes('fence:a', :fence - 1), 'ID001', 'smaller_fence_is_stale');
SELECT is(pg_temp.changes('fence:a', 0), 'ID001', 'zero_is_no_fence');
SELECT is(pg_temp.changes('fence:a', -1), 'ID001', 'negative_number_is_no_fence');
SELECT is(pg_temp.changes('fence:absent', :fence), 'ID001', 'absent_key_is_ID001');
SELECT is(pg_temp.changes('fence:a', :fence, 'fence:scope'), 'ID001', 'fence_of_another_scope_is_stale');
SELECT idem_claim('fence:claimed');
SELECT is(pg_temp.changes('fence:claimed', 0) || pg_temp.changes('fence:claimed', :fence), 'ID001ID001',
    'committed_claim_has_no_holder');
SELECT is((SELECT state || ' ' || attempt FROM idem_lookup('fence:a')), 'in_progress 1', 'stale_calls_changed_nothing');

-- Release.
SELECT lives_ok(format($$ SELECT idem_release('fence:a', %s) $$, :fence), 'release_with_the_right_fence');
SELECT results_eq($$ SELECT state, attempt, lease_until FROM idem_lookup('fence:a') $$,
    $$ VALUES ('released', 1, NULL::timestamptz) $$, 'released_key_has_no_lease');
SELECT is(pg_temp.changes('fence:a', :fence), 'ID001', 'released_fence_is_stale');

-- A transactional claim has no fence to change it by, in its own transaction neither.
BEGIN;
SELECT idem_claim('fence:own');
SELECT is(pg_temp.changes('fence:own', 0) || pg_temp.changes('fence:own', :fence), 'ID001ID001', 'own_claim_has_no_fence');
ROLLBACK;

-- A forgotten key takes its holder along.
SELECT fence FROM idem_begin('fence:forgotten', lease => '1 hour') \gset
SELECT idem_forget('fence:forgotten');
SELECT outcome FROM idem_begin('fence:forgotten', lease => '1 hour');
SELECT is(pg_temp.changes('fence:forgotten', :fence), 'ID001', 'forgotten_holder_is_stale');

CALL pg_temp.clean('fence:');
SELECT * FROM finish();
