-- idem_outbox_renew, and what idem_outbox_backlog counts.
\ir ../include/helpers.psql
SELECT plan(26);
CREATE PROCEDURE pg_temp.empty() LANGUAGE sql AS $$
    DELETE FROM idem.idem_outbox; DELETE FROM idem.idem_outbox_leases; DELETE FROM idem.idem_outbox_parked
$$;
CALL pg_temp.empty();
CREATE FUNCTION pg_temp.leases() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s+%s %s', part, cardinality(ids), CASE WHEN lease_until > clock_timestamp() + interval '30 min' THEN 'long' ELSE 'short' END), ', ' ORDER BY part)
      FROM idem.idem_outbox_leases
$$;
CREATE FUNCTION pg_temp.backlog() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(concat_ws(' ', topic, ready, delayed, leased, parked), ', ') FROM idem.idem_outbox_backlog()
$$;
SELECT idem_publish_many('renew:t', (SELECT jsonb_agg(jsonb_build_object('payload', n, 'key', CASE WHEN n <= 10 THEN 'k' || n END)) FROM generate_series(1, 1000) n));
SELECT array_agg(id ORDER BY id) AS ids, max(fence) AS fence FROM idem_outbox_take('renew:t', 1000, '1 min') \gset
CREATE TEMP TABLE batch AS SELECT :'ids'::bigint[] AS ids, :fence::bigint AS fence;
CREATE FUNCTION pg_temp.renew(first int, last int, lease interval = '1 hour') RETURNS int LANGUAGE sql AS $$
    SELECT idem_outbox_renew(ids[first:last], fence, lease) FROM batch
$$;
SELECT is(pg_temp.leases(), '0+400 short, 400+400 short, 800+200 short', 'a_batch_in_parts');
SELECT is(pg_temp.renew(399, 402), 4, 'of_two_parts');
SELECT is(pg_temp.leases(), '0+2 long, 2+398 short, 400+2 long, 402+398 short, 800+200 short', 'each_is_split');
SELECT is(pg_temp.renew(1, 1000, '1 min'), 1000, 'all_of_them');
SELECT is(pg_temp.leases(), '0+2 short, 2+398 short, 400+2 short, 402+398 short, 800+200 short', 'a_lease_can_be_made_shorter');
SELECT is(pg_temp.renew(10, 19), 10, 'again_in_the_middle');
SELECT is(pg_temp.leases(), '0+2 short, 2+10 long, 12+388 short, 400+2 short, 402+398 short, 800+200 short', 'numbers_of_parts_are_never_used_twice');
SELECT is((SELECT count(DISTINCT id)::int FROM idem_outbox_leases, unnest(ids) id), 1000, 'every_message_is_in_one');
SELECT is((SELECT count(*)::int FROM idem_outbox_take('renew:t', 1000)), 0, 'and_out');

-- What is settled is not renewed, and not named any more.
SELECT idem_outbox_ack(ids[10:12], fence) FROM batch;
SELECT is(pg_temp.renew(10, 14), 2, 'acknowledged_ones_are_not_renewed');
SELECT idem_outbox_nack(ids[13:13], fence, '0') FROM batch;
SELECT is(pg_temp.renew(13, 13), 0, 'nor_those_that_were_given_back');
SELECT is((SELECT idem_outbox_renew(ids, fence - 1, '1 hour') FROM batch), 0, 'nor_those_of_another_fence');
SELECT is((SELECT idem_outbox_renew('{}', fence, '1 hour') FROM batch), 0, 'none');

-- A lease that is over: renewed until somebody takes it back.
SELECT pg_temp.renew(1, 1000, '1 us');
CALL pg_temp.sleep('2 ms');
SELECT is(pg_temp.renew(1, 5), 5, 'late_and_in_time');
SELECT is((SELECT count(*)::int FROM idem_outbox_take('renew:t', 10000, '1 min')), 992, 'the_others_are_taken_back');
SELECT is(pg_temp.renew(6, 9), 0, 'too_late');
SELECT is((SELECT idem_outbox_ack(ids[1:5], fence) FROM batch), 5, 'renewed_ones_are_still_mine');
SELECT is((SELECT array_agg(DISTINCT failures) FROM idem_outbox), '{1}', 'being_taken_back_is_a_failure');
SELECT is(pg_temp.state_of($$ SELECT idem_outbox_renew('{1}', 1, '0') $$), '22023', 'no_lease');
CALL pg_temp.empty();

-- Without a lease: idem.default_lease.
CREATE FUNCTION pg_temp.leased_for() RETURNS int LANGUAGE sql AS $$
    SELECT extract(epoch FROM max(lease_until) - clock_timestamp())::int FROM idem.idem_outbox_leases
$$;
SET idem.default_lease = '1 h';
SELECT idem_publish('renew:d', '1') \gset dropped_
SELECT id, fence FROM idem_outbox_take('renew:d') \gset default_
SELECT ok(pg_temp.leased_for() BETWEEN 3590 AND 3600, 'take_without_a_lease');
SET idem.default_lease = '2 h';
SELECT is(idem_outbox_renew(ARRAY[:default_id]::bigint[], :default_fence), 1, 'renew_without_a_lease');
SELECT ok(pg_temp.leased_for() BETWEEN 7190 AND 7200, 'for_the_default');
RESET idem.default_lease;
CALL pg_temp.empty();

-- The backlog: every message once.
SELECT is(pg_temp.backlog(), NULL, 'nothing');
SELECT idem_publish_many('renew:a', '[{"payload": 1}, {"payload": 2, "key": "k"}, {"payload": 3, "key": "k"}, {"payload": 4, "delay": "1 hour"}]');
SELECT idem_publish('renew:b', '1');
SET idem.outbox_max_attempts = 1;
SELECT idem_outbox_nack(array_agg(id), max(fence)) FROM idem_outbox_take('renew:b');
RESET idem.outbox_max_attempts;
SELECT idem_outbox_take('renew:a', 1, '1 us');
CALL pg_temp.sleep('2 ms');
SELECT is(pg_temp.backlog(), 'renew:a 3 1 0 0, renew:b 0 0 0 1', 'a_lease_that_is_over_counts_no_more');
SELECT idem_outbox_take('renew:a', 2);
SELECT is(pg_temp.backlog(), 'renew:a 1 1 2 0, renew:b 0 0 0 1', 'ready_delayed_leased_parked');
SELECT is((SELECT array_agg(oldest) FROM idem_outbox_backlog()), ARRAY[(SELECT (idem_id_parts(min(id))).at FROM idem_outbox), NULL], 'oldest_that_is_no_dead_letter');
CALL pg_temp.empty();
SELECT * FROM finish();
