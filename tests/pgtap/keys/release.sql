-- idem_release without a fence: this transaction gives its own claim back. With a fence: leased_changes.sql.
\ir ../include/helpers.psql
SELECT plan(50);
CALL pg_temp.clean('release:');
CREATE TEMP TABLE before (key text, stored idem.idem_keys);
CREATE FUNCTION pg_temp.note(key text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM before WHERE before.key = $1;
    INSERT INTO before SELECT $1, k FROM idem.idem_keys k WHERE k.key = $1 AND k.scope = '';
$$;
-- Whether the row is as it was noted.
CREATE FUNCTION pg_temp.is_as_before(key text) RETURNS boolean LANGUAGE sql AS $$
    SELECT (SELECT k::text FROM idem.idem_keys k WHERE k.key = $1 AND k.scope = '') IS NOT DISTINCT FROM (SELECT b.stored::text FROM before b WHERE b.key = $1)
$$;

-- A new key.
BEGIN;
SELECT idem_claim('release:new');
SELECT is(idem_release('release:new'), true, 'new_claim_is_given_back');
SELECT is((SELECT count(*)::int FROM idem_lookup('release:new')), 0, 'and_is_absent');
SELECT is(pg_temp.state_of($$ SELECT idem_release('release:new') $$), 'ID001', 'once');
SELECT is(idem_claim('release:new'), true, 'next_claim_acquires');
SELECT is(idem_release('release:new', NULL, NULL), true, 'null_is_not_given');
SELECT is((SELECT outcome || ' ' || attempt FROM idem_begin('release:new')), 'acquired 1', 'as_often_as_it_is_given_back');
COMMIT;
SELECT is((SELECT state || ' ' || attempt FROM idem_lookup('release:new')), 'completed 1', 'last_claim_commits');
SELECT is((SELECT count(*)::int FROM unnest('{release:new}'::text[]) k, LATERAL (SELECT pg_temp.state_of(format('SELECT idem_release(%L)', k))) s (state)
            WHERE state = 'ID001'), 1, 'committed_claim_is_kept');
BEGIN;
SELECT idem_claim('release:gone', scope => 'release:s');
SELECT idem_release('release:gone', scope => 'release:s');
COMMIT;
SELECT is((SELECT count(*)::int FROM idem_keys WHERE key = 'release:gone'), 0, 'no_row_is_left');

-- Whatever claimed it.
BEGIN;
SELECT idem_claim_many('{release:many 1,release:many 2,release:many 3}');
SELECT idem_try_claim('release:try'), idem_must_claim('release:must'), idem_consume('release:consumer', 'message');
SELECT outcome FROM idem_begin('release:begun', '\x01', owner => 'me');
SELECT is((SELECT count(*) FILTER (WHERE idem_release(k))::int FROM unnest('{release:many 2,release:try,release:must,release:begun}'::text[]) k), 4, 'every_claim');
SELECT is(idem_release(idem_key('release:consumer', 'message'), scope => 'inbox'), true, 'message_of_an_inbox');
SELECT is((SELECT array_agg(k) FROM idem_claim_many('{release:many 1,release:many 2,release:many 3,release:try,release:must,release:begun}') k),
    '{release:many 2,release:try,release:must,release:begun}', 'claims_again_what_was_given_back');
SELECT is(idem_consume('release:consumer', 'message'), true, 'and_consumes_it_again');
ROLLBACK;

-- An expired key.
SELECT idem_claim('release:expired', '1 ms');
SELECT idem_execute('release:executed', 'SELECT 1', ttl => '1 ms');
CALL pg_temp.sleep('2 ms');
BEGIN;
SELECT idem_claim('release:expired'), idem_claim('release:executed');
SELECT idem_release('release:expired'), idem_release('release:executed');
SELECT is((SELECT count(*)::int FROM idem_lookup('release:expired')), 0, 'expired_key_stays_expired');
SELECT is(pg_temp.state_of($$ SELECT idem_release('release:expired') $$), 'ID001', 'and_is_no_claim');
SELECT is((SELECT outcome || ' ' || attempt FROM idem_begin('release:expired')), 'acquired 1', 'next_claim_of_it_acquires');
COMMIT;
SELECT is((SELECT count(*)::int FROM idem_lookup('release:executed')), 0, 'nor_comes_it_back_by_the_commit');

-- A released key, with steps that are stored out of line.
SELECT fence FROM idem_begin('release:steps', ttl => '1 hour', lease => '1 min', owner => 'first') \gset
SELECT idem_step('release:steps', :fence, 'done', jsonb_build_object('a', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n)));
SELECT idem_step('release:steps', :fence, 'intended');
SELECT idem_release('release:steps', :fence);
SELECT pg_temp.note('release:steps');
BEGIN;
SELECT is((SELECT outcome || ' ' || attempt || ' ' || (steps ? 'done')::text FROM idem_begin('release:steps', '\x02', '1 day', owner => 'second')), 'acquired 2 true', 'claim_of_a_released_key');
SELECT idem_release('release:steps');
SELECT ok(pg_temp.is_as_before('release:steps'), 'released_key_is_as_before');
SELECT is(pg_temp.state_of($$ SELECT idem_release('release:steps') $$), 'ID001', 'its_attempt_is_over');
SELECT is(pg_temp.state_of($$ SELECT idem_complete('release:steps') $$), 'ID001', 'and_takes_no_response');
SELECT is((SELECT outcome || ' ' || attempt FROM idem_begin('release:steps', '\x03')), 'acquired 2', 'claim_after_it_acquires_under_another_fingerprint');
SELECT idem_release('release:steps');
COMMIT;
SELECT ok(pg_temp.is_as_before('release:steps'), 'and_so_it_commits');
BEGIN;
SELECT idem_claim('release:steps');
SAVEPOINT s;
SELECT idem_complete('release:steps', '"undone"', 201);
SELECT is(pg_temp.state_of($$ SELECT idem_release('release:steps') $$), 'ID001', 'completed_claim_is_not_given_back');
ROLLBACK TO s;
SELECT lives_ok($$ SELECT idem_release('release:steps') $$, 'but_is_when_its_completion_is_undone');
SELECT ok(pg_temp.is_as_before('release:steps'), 'to_what_it_was_before_both');
ROLLBACK;

-- A lease that is over: its holder may still complete.
SELECT fence FROM idem_begin('release:lapsed', lease => '1 ms') \gset
CALL pg_temp.sleep('2 ms');
SELECT pg_temp.note('release:lapsed');
BEGIN;
SELECT is((SELECT outcome || ' ' || attempt FROM idem_begin('release:lapsed')), 'taken_over 2', 'claim_of_a_lapsed_lease');
SELECT idem_release('release:lapsed');
SELECT ok(pg_temp.is_as_before('release:lapsed'), 'lapsed_lease_is_as_before');
SELECT is((SELECT outcome || ' ' || attempt FROM idem_begin('release:lapsed')), 'taken_over 2', 'and_is_taken_over_again');
SELECT idem_release('release:lapsed');
SELECT ok(pg_temp.is_as_before('release:lapsed'), 'and_given_back_again');
COMMIT;
SELECT lives_ok(format($$ SELECT idem_complete('release:lapsed', fence => %s) $$, :fence), 'its_holder_completes');

-- In one transaction with the lease.
BEGIN;
SELECT fence FROM idem_begin('release:same', lease => '1 min') \gset
SELECT is(pg_temp.state_of($$ SELECT idem_release('release:same') $$), 'ID001', 'leased_key_needs_its_fence');
SELECT idem_release('release:same', :fence);
SELECT pg_temp.note('release:same');
SELECT idem_claim('release:same');
SELECT idem_release('release:same');
SELECT ok(pg_temp.is_as_before('release:same'), 'released_by_this_transaction');
SELECT is((SELECT state || ' ' || attempt FROM idem_lookup('release:same')), 'released 1', 'is_released');
SELECT idem_claim('release:short', '1 ms');
CALL pg_temp.sleep('2 ms');
SELECT is(idem_claim('release:short'), true, 'own_claim_expires');
SELECT idem_release('release:short');
SELECT is((SELECT count(*)::int FROM idem_keys WHERE key = 'release:short'), 0, 'both_are_given_back');
COMMIT;

-- Savepoints.
BEGIN;
CREATE TEMP TABLE work (item text);
SELECT idem_claim_many('{release:item 1,release:item 2}');
SAVEPOINT item;
INSERT INTO work VALUES ('item 1');
RELEASE item;
SAVEPOINT item;
INSERT INTO work VALUES ('item 2');
SELECT idem_complete('release:item 2', '"undone"');
ROLLBACK TO item;
SELECT is(idem_release('release:item 2'), true, 'item_that_failed');
COMMIT;
SELECT results_eq($$ SELECT key FROM unnest('{release:item 1,release:item 2}'::text[]) key, idem_lookup(key) $$, $$ VALUES ('release:item 1') $$, 'is_done_later');
SELECT is((SELECT array_agg(k) FROM idem_claim_many('{release:item 1,release:item 2}') k), '{release:item 2}', 'by_another_claim');
BEGIN;
SELECT idem_claim('release:kept');
SAVEPOINT s;
SELECT idem_release('release:kept');
ROLLBACK TO s;
SELECT is(idem_claim('release:kept'), false, 'release_is_undone');
SELECT lives_ok($$ SELECT idem_complete('release:kept', '"kept"') $$, 'and_the_claim_is_open');
COMMIT;
SELECT is((SELECT response FROM idem_lookup('release:kept')), '"kept"', 'and_commits');
BEGIN;
SAVEPOINT s;
SELECT idem_claim('release:inner');
RELEASE s;
SAVEPOINT s;
SELECT idem_release('release:inner');
RELEASE s;
COMMIT;
SELECT is((SELECT count(*)::int FROM idem_keys WHERE key = 'release:inner'), 0, 'in_another_savepoint_than_the_claim');

-- What is no open claim of this transaction.
SELECT outcome FROM idem_begin('release:leased', lease => '1 min');
BEGIN;
SELECT idem_claim('release:completed'), idem_complete('release:completed', '1');
SELECT outcome FROM idem_execute('release:work', 'SELECT 1');
SELECT is(pg_temp.state_of(format('SELECT idem_release(%L)', key)), 'ID001', message)
  FROM (VALUES ('release:absent', 'absent_key'), ('release:leased', 'leased_key'), ('release:completed', 'completed_claim'), ('release:work', 'executed_work'),
               ('release:kept', 'claim_of_another_transaction')) AS refused (key, message);
SELECT is(pg_temp.state_of('SELECT idem_release(NULL)') || pg_temp.state_of($$ SELECT idem_release('') $$), '2200422023', 'no_key');
SELECT idem_claim('release:read only');
SET TRANSACTION READ ONLY;
SELECT is(pg_temp.state_of($$ SELECT idem_release('release:read only') $$), '25006', 'in_a_transaction_that_became_read_only');
COMMIT;

CALL pg_temp.clean('release:');
SELECT * FROM finish();
