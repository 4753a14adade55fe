-- idem_allow: a token bucket. Sixteen connections at once: tests/recovery/033_attacks.pl.
\ir ../include/helpers.psql
SELECT plan(43);
CALL pg_temp.clean('rate:');

-- A bucket that gets one unit in ten thousand seconds: what comes back meanwhile is not worth a test's notice.
CREATE FUNCTION pg_temp.ask(name text, rate float8 = 0.0001, burst int = 3, cost int = 1) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s %s%s', allowed, remaining, ' in ' || 100 * ceil(retry_after_ms / 100000.0)) FROM idem_allow(name, rate, burst, cost)
$$;
SELECT is(pg_temp.ask('rate:a'), 't 2', 'first');
SELECT is(pg_temp.ask('rate:a'), 't 1', 'second');
SELECT is(pg_temp.ask('rate:a'), 't 0', 'last_of_the_burst');
SELECT is(pg_temp.ask('rate:a'), 'f 0 in 10000', 'one_too_many');
SELECT is(pg_temp.ask('rate:a', cost => 2), 'f 0 in 20000', 'who_wants_more_waits_longer');
SELECT is(pg_temp.ask('rate:b'), 't 2', 'another_name');
SELECT is((SELECT format('%s %s', allowed, remaining) FROM idem_allow('rate:a', 0.0001, 3, scope => 'rate:scope')), 't 2', 'another_scope');
SELECT is(pg_temp.ask('rate:c', cost => 2), 't 1', 'cost_of_two');
SELECT is(pg_temp.ask('rate:c', cost => 2), 'f 1 in 10000', 'refused_takes_nothing');
SELECT is(pg_temp.ask('rate:c'), 't 0', 'so_one_is_left');
SELECT is(pg_temp.ask('rate:d', cost => 3), 't 0', 'all_at_once');
SELECT is((SELECT retry_after_ms IS NULL FROM idem_allow('rate:e', 1, 1)), true, 'nothing_to_wait_for_when_allowed');
SELECT is((SELECT remaining FROM idem_allow('rate:null', 0.0001, 3, NULL)), 2, 'null_cost_is_one');
SELECT idem_allow('rate:slow', 1e-7, 1);
SELECT is((SELECT retry_after_ms FROM idem_allow('rate:slow', 1e-7, 1)), 2147483647, 'longest_wait_that_is_told');

-- Units come back one by one.
SELECT is(pg_temp.ask('rate:back', 0.25, 2, 2), 't 0', 'emptied');
SELECT is((SELECT allowed FROM idem_allow('rate:back', 0.25, 2)), false, 'empty');
CALL pg_temp.sleep('4050 ms');
SELECT is((SELECT allowed FROM idem_allow('rate:back', 0.25, 2)), true, 'one_is_back');
SELECT is((SELECT allowed FROM idem_allow('rate:back', 0.25, 2)), false, 'and_only_one');
SELECT pg_temp.ask('rate:full', 20, 2, 2);
CALL pg_temp.sleep('210 ms');
SELECT is(pg_temp.ask('rate:full', 20, 2), 't 1', 'no_more_than_the_burst_comes_back');

-- A statement that asks a thousand times: exactly the burst.
SELECT is((SELECT count(*) FILTER (WHERE (idem_allow('rate:many', 0.001, 100)).allowed) FROM generate_series(1, 1000)), 100::bigint,
          'burst_and_no_more_in_one_statement');

-- Rolled back, the units are back.
BEGIN;
SELECT pg_temp.ask('rate:rolled');
SAVEPOINT s;
SELECT pg_temp.ask('rate:rolled');
ROLLBACK TO s;
SELECT is(pg_temp.ask('rate:rolled'), 't 1', 'savepoint_gives_its_units_back');
ROLLBACK;
SELECT is(pg_temp.ask('rate:rolled'), 't 2', 'rollback_gives_its_units_back');

-- Another rate or burst for the same name: an empty bucket is no emptier than empty.
SELECT pg_temp.ask('rate:changed', 0.000001, 10, 10);
SELECT is(pg_temp.ask('rate:changed', 0.0001, 1), 'f 0 in 10000', 'burst_that_shrank');
SELECT is((SELECT retry_after_ms <= 10000001 FROM idem_allow('rate:changed', 0.0001, 1)), true, 'does_not_wait_for_the_old_rate');
SELECT pg_temp.ask('rate:faster', 0.001, 3, 3);
SELECT allowed, retry_after_ms FROM idem_allow('rate:faster', 0.25, 3, 1) \gset
SELECT is(:'allowed' || ' ' || (:retry_after_ms <= 4001), 'f true', 'faster_rate_has_its_own_retry_after');
CALL pg_temp.sleep(:retry_after_ms * interval '1 ms');
SELECT is((SELECT allowed FROM idem_allow('rate:faster', 0.25, 3)), true, 'and_waiting_for_that_is_enough');
SELECT pg_temp.ask('rate:much', 0.001, 3, 3);
CALL pg_temp.sleep('4 ms');
SELECT is(pg_temp.ask('rate:much', 1000, 3, 3), 't 0', 'debt_is_a_number_of_units_of_the_present_rate');
SELECT pg_temp.ask('rate:wider', 0.001, 3, 3);
SELECT is(pg_temp.ask('rate:wider', 0.001, 5, 2), 't 0', 'burst_that_grew_has_room_at_once');

-- The clock was an hour ahead, and is set back.
CREATE PROCEDURE pg_temp.set_back(name text) LANGUAGE plpgsql AS $$
DECLARE
    stored idem.idem_rates;
BEGIN
    SELECT * INTO stored FROM idem.idem_rates r WHERE r.key = name;
    stored.as_of := stored.as_of + interval '1 hour';
    stored.expires_at := stored.expires_at + interval '1 hour';
    UPDATE idem.idem_rates r SET full_at = r.full_at + 3600000000000, as_of = stored.as_of, expires_at = stored.expires_at WHERE r.key = name;
END $$;
SELECT pg_temp.ask('rate:back again', 0.25, 3, 3);
CALL pg_temp.set_back('rate:back again');
SELECT allowed, retry_after_ms FROM idem_allow('rate:back again', 0.25, 3) \gset
SELECT is(:'allowed' || ' ' || (:retry_after_ms <= 4001), 'f true', 'clock_set_back_bounds_the_wait');
SELECT is(pg_temp.least_wal_records($$ SELECT idem_allow('rate:back again', 0.25, 3, 3) $$), 0::bigint, 'and_is_written_down_once');
CALL pg_temp.sleep(:retry_after_ms * interval '1 ms');
SELECT is((SELECT allowed FROM idem_allow('rate:back again', 0.25, 3)), true, 'waiting_for_that_is_enough_too');
CALL pg_temp.set_back('rate:b');
SELECT is(pg_temp.ask('rate:b'), 't 1', 'clock_set_back_takes_nothing_and_gives_nothing');
UPDATE idem_rates SET full_at = full_at + 1000000000000000 WHERE key = 'rate:b';
SELECT is(pg_temp.ask('rate:b'), 'f 0 in 10000', 'bucket_that_is_full_in_a_week');

-- What is written.
SELECT is(pg_temp.least_wal_records($$ SELECT idem_allow('rate:a', 0.0001, 3) $$), 0::bigint, 'refused_writes_nothing');
SELECT is((SELECT count(*) FROM idem_rates WHERE key = 'rate:many'), 1::bigint, 'one_row_a_name');
SELECT ok((SELECT pg_column_size(r) < 128 FROM idem_rates r WHERE key = 'rate:many'), 'a_small_one');
SELECT ok((SELECT n_tup_hot_upd >= 0.9 * n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'idem_rates') IS NOT FALSE, 'updated_in_place');
SELECT is((SELECT count(*) FROM idem_rates WHERE key = 'rate:many'
              AND expires_at BETWEEN clock_timestamp() + interval '99000 s' AND clock_timestamp() + interval '100001 s'), 1::bigint,
          'swept_when_it_is_full_again');

-- Separate spaces.
SELECT idem_claim('rate:key'), idem_lock('rate:key'), idem_hit('rate:key');
SELECT is(pg_temp.ask('rate:key'), 't 2', 'keys_locks_and_counters_are_others');

SELECT is((SELECT string_agg(call || ' ' || state, ', ')
             FROM (VALUES ('NULL, 1, 1', '22004'), ('''x'', NULL, 1', '22004'), ('''x'', 1, NULL', '22004'), ('''x'', 1, 1, NULL', 'ok'),
                          (''''', 1, 1', '22023'), ('repeat(''x'', 1025), 1, 1', '22023'),
                          ('''x'', 0, 1', '22023'), ('''x'', -1, 1', '22023'), ('''x'', ''NaN'', 1', '22023'), ('''x'', ''Infinity'', 1', '22023'),
                          ('''x'', 1e-300, 1', '22023'), ('''x'', 1.1e9, 1', '22023'), ('''x'', 1e-7, 2147483647', '22023'),
                          ('''x'', 1, 0', '22023'), ('''x'', 1, -1', '22023'), ('''x'', 1, 1, 0', '22023'), ('''x'', 1, 1, 2', '22023'),
                          ('''x'', 1, 1, 1, repeat(''x'', 256)', '22023'), ('''rate:most'', 1e9, 2147483647, 2147483647', 'ok')) AS v (call, expected),
                  pg_temp.state_of(format('SELECT idem_allow(%s)', call)) AS state
            WHERE state <> expected), NULL, 'bad_arguments');
BEGIN READ ONLY;
SELECT is(pg_temp.state_of($$ SELECT idem_allow('rate:a', 1, 1) $$), '25006', 'read_only_transaction');
ROLLBACK;

-- A snapshot is not asked: the bucket is what it is.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT is(pg_temp.ask('rate:serializable'), 't 2', 'serializable_transaction');
ROLLBACK;

SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_user;
CREATE ROLE tap_owner;
SELECT idem_grant('tap_user');
SELECT idem_scope_set('rate:owned', owner => 'tap_owner');
SELECT pg_temp.state_as('tap_user', $$ SELECT idem.idem_allow('x', 1, 1, scope => 'rate:owned') $$) || ' '
       || pg_temp.state_as('tap_user', $$ SELECT idem.idem_allow('rate:u', 1, 1) $$) AS states \gset
ROLLBACK;
SELECT is(:'states'::text, '42501 ok', 'scope_of_another_owner');

CALL pg_temp.clean('rate:');
SELECT * FROM finish();
