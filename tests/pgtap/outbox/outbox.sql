-- The outbox in one session: publish, take, ack, nack, what is parked and how it comes back. Several sessions are in the isolation specs.
\ir ../include/helpers.psql
SELECT plan(101);
CALL pg_temp.clean('outbox:');
CREATE PROCEDURE pg_temp.empty() LANGUAGE sql AS $$
    DELETE FROM idem.idem_outbox; DELETE FROM idem.idem_outbox_leases; DELETE FROM idem.idem_outbox_parked
$$;
CALL pg_temp.empty();

-- What a take gives out, by the name in the payload; the batch is kept in `batch`.
CREATE TEMP TABLE batch (id bigint, topic text, key text, payload jsonb, headers jsonb, attempt int, fence bigint);
CREATE FUNCTION pg_temp.take(topic text, most int = 100, lease interval = '30 s') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM batch;
    INSERT INTO batch SELECT * FROM idem_outbox_take(take.topic, most, take.lease);
    RETURN (SELECT string_agg(b.payload ->> 'm' || CASE WHEN b.attempt > 1 THEN ':' || b.attempt ELSE '' END, ' ' ORDER BY b.id) FROM batch b);
END $$;
CREATE FUNCTION pg_temp.ids(names text[] = NULL) RETURNS bigint[] LANGUAGE sql AS $$
    SELECT coalesce(array_agg(id), '{}') FROM batch WHERE names IS NULL OR payload ->> 'm' = ANY (names)
$$;
CREATE FUNCTION pg_temp.fence() RETURNS bigint LANGUAGE sql AS $$ SELECT max(fence) FROM batch $$;
CREATE FUNCTION pg_temp.ack(VARIADIC names text[] = NULL) RETURNS int LANGUAGE sql AS $$ SELECT idem_outbox_ack(pg_temp.ids(names), pg_temp.fence()) $$;
CREATE FUNCTION pg_temp.nack(rest interval, VARIADIC names text[] = NULL) RETURNS int LANGUAGE sql AS $$
    SELECT idem_outbox_nack(pg_temp.ids(names), pg_temp.fence(), rest)
$$;
CREATE FUNCTION pg_temp.publish(topic text, key text, VARIADIC names text[]) RETURNS void LANGUAGE sql AS $$
    SELECT idem_publish(topic, jsonb_build_object('m', name), key) FROM unnest(names) name
$$;

-- With the business rows or not at all.
BEGIN;
SELECT pg_temp.publish('outbox:t', NULL, 'undone');
ROLLBACK;
SELECT is(pg_temp.take('outbox:t'), NULL, 'rolled_back_with_the_transaction');
BEGIN;
SAVEPOINT s;
SELECT pg_temp.publish('outbox:t', NULL, 'undone');
ROLLBACK TO s;
SELECT idem_publish('outbox:t', '{"m": "kept", "n": [1, 2]}', 'k', '{"h": "v"}') AS id \gset
COMMIT;
SELECT ok(:id > 0 AND abs(pg_temp.seconds_from_now((idem_id_parts(:id)).at)) < 5, 'id_is_of_the_generator_of_numbers');
SELECT results_eq($$ SELECT id, topic, key, payload, headers, attempt FROM idem_outbox_take('outbox:t') $$,
    format('SELECT %s::bigint, ''outbox:t''::text, ''k''::text, ''{"m": "kept", "n": [1, 2]}''::jsonb, ''{"h": "v"}''::jsonb, 1', :id),
    'message_is_given_out_as_it_was_published');
SELECT is(pg_temp.take('outbox:t'), NULL, 'what_is_out_is_not_given_out_again');
SELECT is((SELECT idem_outbox_ack(ids, fence) FROM idem_outbox_leases), 1, 'acknowledged');
SELECT is((SELECT count(*)::int FROM idem_outbox), 0, 'and_deleted');
SELECT is((SELECT count(*)::int FROM idem_outbox_leases), 0, 'its_lease_too');

-- Order: by id, one of each key, NULL is no key.
SELECT pg_temp.publish('outbox:t', 'a', 'a1', 'a2', 'a3');
SELECT pg_temp.publish('outbox:t', 'b', 'b1', 'b2');
SELECT pg_temp.publish('outbox:t', NULL, 'x1', 'x2');
SELECT pg_temp.publish('outbox:other', 'a', 'o1');
SELECT is(pg_temp.take('outbox:t'), 'a1 b1 x1 x2', 'one_of_each_key_and_all_without');
SELECT is(pg_temp.take('outbox:other'), 'o1', 'keys_of_other_topics_are_others');
SELECT is(pg_temp.ack(), 1, 'other_topic_is_done');
SELECT is(pg_temp.take('outbox:t'), NULL, 'next_of_a_key_waits_for_the_one_that_is_out');
INSERT INTO batch SELECT o.id, o.topic, o.key, o.payload, o.headers, 1, l.fence FROM idem_outbox_leases l JOIN idem_outbox o ON o.id = ANY (l.ids);
SELECT is(pg_temp.ack('a1'), 1, 'part_of_a_batch');
SELECT is((SELECT count(*)::int FROM idem_outbox_leases), 1, 'lease_stays_for_the_rest');
CREATE TEMP TABLE first AS SELECT * FROM batch;
SELECT is(pg_temp.take('outbox:t'), 'a2', 'next_of_that_key_alone');
SELECT is(pg_temp.nack('0'), 1, 'given_back');
SELECT is(pg_temp.take('outbox:t'), 'a2:2', 'and_out_again_as_the_second_attempt');
SELECT is(pg_temp.nack('1 hour'), 1, 'given_back_for_later');
SELECT is(pg_temp.take('outbox:t'), NULL, 'next_of_a_key_waits_for_the_one_that_rests');
UPDATE idem_outbox SET due_at = clock_timestamp() WHERE payload ->> 'm' = 'a2';
SELECT is(pg_temp.take('outbox:t'), 'a2:3', 'due');
SELECT is(pg_temp.ack(), 1, 'done');
SELECT is((SELECT idem_outbox_ack(array_agg(id), max(fence)) FROM first), 3, 'rest_of_the_batch');
SELECT is((SELECT idem_outbox_ack(array_agg(id), max(fence)) FROM first), 0, 'acknowledged_twice');
SELECT is(pg_temp.take('outbox:t', 1), 'a3', 'oldest_first');
SELECT is(pg_temp.take('outbox:t', 1), 'b2', 'as_many_as_asked_for');
CALL pg_temp.empty();

-- A lease names what it does not hold any more: given back by it, and by a later one.
SELECT pg_temp.publish('outbox:t', NULL, 'x', 'y');
SELECT pg_temp.take('outbox:t');
TRUNCATE first;
INSERT INTO first SELECT * FROM batch;
SELECT is(pg_temp.nack('0', 'x'), 1, 'x_is_given_back_by_the_first');
SELECT is(pg_temp.take('outbox:t'), 'x:2', 'and_taken_by_a_second');
SELECT is((SELECT idem_outbox_ack(array_agg(id), max(fence)) FROM first WHERE payload ->> 'm' = 'x'), 0, 'first_cannot_acknowledge_it');
SELECT is((SELECT idem_outbox_nack(array_agg(id), max(fence)) FROM first WHERE payload ->> 'm' = 'x'), 0, 'nor_give_it_back');
SELECT is(pg_temp.nack('0'), 1, 'second_gives_it_back');
SELECT is((SELECT idem_outbox_ack(array_agg(id), max(fence)) FROM first WHERE payload ->> 'm' = 'x'), 0, 'which_makes_it_not_the_firsts_again');
SELECT is(pg_temp.take('outbox:t'), 'x:3', 'but_anybodys');
SELECT is((SELECT idem_outbox_ack(array_agg(id), max(fence)) FROM first), 1, 'first_still_has_the_other');
CALL pg_temp.empty();

-- Leases that ran out.
SELECT pg_temp.publish('outbox:t', 'a', 'a1', 'a2');
SELECT is(pg_temp.take('outbox:t', lease => '1 us'), 'a1', 'a_short_lease');
SELECT is(pg_temp.ack(), 1, 'that_nobody_took_back_still_acknowledges');
SELECT is(pg_temp.take('outbox:t', lease => '1 us'), 'a2', 'another');
TRUNCATE first;
INSERT INTO first SELECT * FROM batch;
SELECT is(pg_temp.take('outbox:t'), 'a2:2', 'is_taken_back_and_counted');
SELECT is((SELECT idem_outbox_ack(array_agg(id), max(fence)) FROM first), 0, 'stale_fence_acknowledges_nothing');
SELECT is((SELECT idem_outbox_nack(array_agg(id), max(fence)) FROM first), 0, 'and_gives_nothing_back');
SELECT is(idem_outbox_ack(pg_temp.ids(), pg_temp.fence() + 1), 0, 'fence_of_nobodys');
SELECT ok(pg_temp.fence() > (SELECT max(fence) FROM first), 'fences_grow');
SELECT is((SELECT count(*)::int FROM idem_outbox_leases), 1, 'lease_that_was_taken_back_is_gone');
SELECT is(pg_temp.ack(), 1, 'right_fence');

-- Ids of others, repeated, none.
SELECT pg_temp.publish('outbox:t', NULL, 'x', 'y');
SELECT pg_temp.take('outbox:t', 1);
SELECT is(idem_outbox_ack((SELECT array_agg(id) FROM idem_outbox), pg_temp.fence()), 1, 'ids_that_are_not_of_the_batch');
SELECT pg_temp.take('outbox:t', 1);
SELECT is(idem_outbox_ack('{}', pg_temp.fence()), 0, 'no_ids');
SELECT is(idem_outbox_ack(pg_temp.ids() || pg_temp.ids() || '{-1,0}', pg_temp.fence()), 1, 'repeated_ids');

-- Rest after a failure
SELECT pg_temp.publish('outbox:t', NULL, 'x');
SELECT pg_temp.take('outbox:t');
SELECT clock_timestamp() AS before \gset
SELECT pg_temp.nack(NULL);
SELECT ok(due_at - interval '1 s' BETWEEN :'before' AND clock_timestamp(), 'a_second_at_first') FROM idem_outbox;
UPDATE idem_outbox SET due_at = NULL, failures = 4;
SELECT pg_temp.take('outbox:t');
SELECT clock_timestamp() AS before \gset
SELECT pg_temp.nack(NULL);
SELECT ok(due_at - interval '16 s' BETWEEN :'before' AND clock_timestamp(), 'sixteen_after_the_fifth_failure') FROM idem_outbox;
CALL pg_temp.empty();

-- Dead letters
SET idem.outbox_max_attempts = 2;
SELECT pg_temp.publish('outbox:t', 'a', 'a1', 'a2');
SELECT idem_publish('outbox:t', jsonb_build_object('m', 'large', 'x', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i)), 'b', '{"h": 1}');
SELECT is(pg_temp.take('outbox:t'), 'a1 large', 'first_attempt');
SELECT pg_temp.nack('0');
SELECT is(pg_temp.take('outbox:t'), 'a1:2 large:2', 'last_attempt');
SELECT is(pg_temp.nack('0', 'large'), 1, 'given_back_once_too_often');
UPDATE idem_outbox_leases SET lease_until = now();
SELECT is(pg_temp.take('outbox:t'), 'a2', 'what_is_parked_does_not_hold_up_its_key');
SELECT results_eq($$ SELECT payload ->> 'm', topic, key, length(payload ->> 'x'), headers, attempts, cause, published_at <= parked_at FROM idem_dead_letters ORDER BY id $$,
    $$ VALUES ('a1', 'outbox:t', 'a', NULL, NULL::jsonb, 2, 'lapsed', true), ('large', 'outbox:t', 'b', 16000, '{"h": 1}', 2, 'nacked', true) $$,
    'dead_letters_are_shown');
SELECT is((SELECT idem_outbox_ack(array_agg(id), pg_temp.fence()) FROM idem_dead_letters), 0, 'and_cannot_be_acknowledged');
SELECT is((SELECT idem_outbox_retry(array_agg(id) || 1::bigint) FROM idem_dead_letters), 2, 'retried');
SELECT is((SELECT count(*)::int FROM idem_dead_letters), 0, 'and_no_longer_there');
SELECT is(pg_temp.take('outbox:t'), 'large', 'first_attempt_again_but_not_before_the_one_of_its_key_that_is_out');
SELECT is((SELECT length(payload ->> 'x') FROM batch), 16000, 'with_its_payload');
SET idem.outbox_max_attempts = 1;
SELECT is(pg_temp.nack('1 hour'), 1, 'only_attempt_failed');
SELECT is((SELECT idem_outbox_discard(array_agg(id)) FROM idem_dead_letters), 1, 'discarded');
SELECT is((SELECT count(*)::int FROM idem_outbox_parked), 0, 'and_gone');
RESET idem.outbox_max_attempts;
CALL pg_temp.empty();

-- A lease that is still there names what was parked from it, and retried: it does not hold it.
SET idem.outbox_max_attempts = 1;
SELECT pg_temp.publish('outbox:t', NULL, 'x', 'y');
SELECT pg_temp.take('outbox:t');
SELECT pg_temp.nack('0', 'x');
SELECT idem_outbox_retry(array_agg(id)) FROM idem_dead_letters;
SELECT is(pg_temp.ack('x'), 0, 'retried_is_not_the_old_leases');
SELECT is(pg_temp.take('outbox:t'), 'x', 'but_the_next_takers');
RESET idem.outbox_max_attempts;
CALL pg_temp.empty();

-- Many
SELECT count(*) FROM (SELECT idem_publish('outbox:t', jsonb_build_object('m', i), 'k' || i % 700) FROM generate_series(1, 1400) i) p;
SELECT is((SELECT count(*)::int FROM idem_outbox_take('outbox:t', 500)), 500, 'as_many_as_were_asked_for');
SELECT is((SELECT count(*)::int FROM idem_outbox_take('outbox:t', 10000)), 200, 'the_rest_of_the_keys');
SELECT is((SELECT count(*)::int FROM idem_outbox_take('outbox:t', 10000)), 0, 'and_no_key_twice');
SELECT is((SELECT sum(idem_outbox_ack(ids, fence))::int FROM idem_outbox_leases), 700, 'all_acknowledged');
SELECT is((SELECT count(*)::int FROM idem_outbox_take('outbox:t')), 100, 'default_of_max_messages');
CALL pg_temp.empty();

-- As many as are there: what waits behind its key, or for its time, hides nothing behind it.
SELECT count(idem_publish('outbox:t', jsonb_build_object('m', n), CASE WHEN n <= 5000 THEN 'the same' ELSE 'k' || n END)) FROM generate_series(1, 5098) n \gset dropped_
SELECT is((SELECT count(*) || ' ' || count(DISTINCT key) FROM idem_outbox_take('outbox:t', 100)), '99 99', 'a_key_with_many_messages_does_not_hide_the_others');
CALL pg_temp.empty();
SELECT count(idem_publish('outbox:t', jsonb_build_object('m', n), delay => CASE WHEN n BETWEEN 2 AND 3001 THEN interval '1 hour' END)) FROM generate_series(1, 3010) n \gset dropped_
SELECT is((SELECT count(*) FROM idem_outbox_take('outbox:t', 100)), 10::bigint, 'nor_do_delayed_ones');
SELECT is((SELECT count(*) FROM idem_outbox_take('outbox:t', 100)), 0::bigint, 'which_rest');
CALL pg_temp.empty();

-- A batch of several rows: one fence for all of it.
SELECT count(idem_publish('outbox:large', jsonb_build_object('m', n))) FROM generate_series(1, 10001) n \gset dropped_
CREATE TEMP TABLE large AS SELECT id, fence FROM idem_outbox_take('outbox:large', 10000);
SELECT is((SELECT count(*) || ' ' || count(DISTINCT fence) || ' ' || count(DISTINCT id) FROM large), '10000 1 10000', 'largest_batch');
SELECT is((SELECT count(*) || ' ' || max(cardinality(ids)) FROM idem_outbox_leases), '25 400', 'is_leased_in_parts');
SELECT is((SELECT count(*)::int FROM idem_outbox_take('outbox:large', 10000)), 1, 'what_is_out_is_out_in_every_part');
SELECT is((SELECT idem_outbox_ack(array_agg(id), min(fence)) FROM large WHERE id % 2 = 0), (SELECT count(*)::int FROM large WHERE id % 2 = 0), 'parts_of_all_parts');
SELECT is((SELECT idem_outbox_nack(array_agg(id), min(fence), '0') FROM (SELECT * FROM large WHERE id % 2 = 1 LIMIT 7) AS seven), 7, 'given_back');
SELECT is((SELECT idem_outbox_ack(array_agg(id), min(fence)) FROM large), (SELECT count(*)::int - 7 FROM large WHERE id % 2 = 1), 'the_rest');
SELECT is((SELECT count(*)::int FROM idem_outbox_leases), 1, 'no_part_is_left');
SELECT is((SELECT count(*)::int FROM idem_outbox_take('outbox:large', 10000)), 7, 'what_was_given_back_is_free');
CALL pg_temp.empty();
SELECT count(idem_publish('outbox:large', jsonb_build_object('m', n))) FROM generate_series(1, 1000) n \gset dropped_
SELECT count(*) FROM idem_outbox_take('outbox:large', 1000) \gset dropped_
UPDATE idem_outbox_leases SET lease_until = now();
SELECT is((SELECT count(*) || ' ' || min(attempt) FROM idem_outbox_take('outbox:large', 1000)), '1000 2', 'lapsed_in_every_part');
SELECT is((SELECT count(*)::int FROM idem_outbox_leases), 3, 'parts_that_were_taken_back_are_gone');
CALL pg_temp.empty();

-- Nothing to do writes nothing. What earlier tests left behind is vacuumed, as a scan prunes pages that are full of it.
VACUUM idem_outbox, idem_outbox_leases;
SELECT pg_temp.publish('outbox:t', 'a', 'a1', 'a2');
SELECT pg_temp.take('outbox:t');
SELECT is(pg_temp.least_wal_records($$ SELECT * FROM idem_outbox_take('outbox:t') $$), 0::bigint, 'a_take_of_nothing_writes_nothing');
BEGIN;
SELECT count(*) FROM idem_outbox_take('outbox:none');
SELECT is(pg_current_xact_id_if_assigned(), NULL, 'and_needs_no_transaction_id');
COMMIT;

-- Isolation, two-phase commit
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT is(pg_temp.ack(), 1, 'serializable');
SELECT is(pg_temp.take('outbox:t'), 'a2', 'sees_what_it_did');
COMMIT;
CALL pg_temp.empty();
BEGIN;
SET LOCAL idem.outbox_notify = off;
SELECT idem_publish('outbox:t', '{"m": "prepared"}') IS NOT NULL, idem_publish('outbox:t', '{"m": "also"}') IS NOT NULL;
SELECT count(*) AS taken FROM idem_outbox_take('outbox:t', 1) \gset
PREPARE TRANSACTION 'outbox';
SELECT is(:taken, 1, 'own_message_can_be_taken');
SELECT is(pg_temp.take('outbox:t'), NULL, 'prepared_messages_are_not_there_yet');
COMMIT PREPARED 'outbox';
SELECT is(pg_temp.take('outbox:t'), 'also', 'the_prepared_lease_holds_the_other');
CALL pg_temp.empty();

-- Bad input
CREATE FUNCTION pg_temp.states(VARIADIC calls text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(pg_temp.state_of('SELECT * FROM ' || call), ' ' ORDER BY n) FROM unnest(calls) WITH ORDINALITY AS c (call, n)
$$;
SELECT is(pg_temp.states($$ idem_publish(NULL, '1') $$, $$ idem_publish('t', NULL) $$, $$ idem_outbox_take(NULL) $$, 'idem_outbox_ack(NULL, 1)', $$ idem_outbox_ack('{1}', NULL) $$, $$ idem_outbox_ack('{1,NULL}', 1) $$,
    'idem_outbox_nack(NULL, 1)', $$ idem_outbox_nack('{NULL}', 1) $$, $$ idem_outbox_nack('{1}', NULL) $$, 'idem_outbox_retry(NULL)',
    $$ idem_outbox_retry('{NULL}') $$, 'idem_outbox_discard(NULL)'),
    rtrim(repeat('22004 ', 12)), 'null_arguments');
SELECT is(pg_temp.states($$ idem_publish('', '1') $$, $$ idem_publish(repeat('t', 256), '1') $$, $$ idem_publish('t', '1', '') $$,
    $$ idem_publish('t', '1', repeat('k', 1025)) $$, $$ idem_outbox_take('') $$, $$ idem_outbox_take('t', 0) $$, $$ idem_outbox_take('t', 10001) $$,
    $$ idem_outbox_take('t', 1, '0') $$, $$ idem_outbox_take('t', 1, '-1 s') $$, $$ idem_outbox_take('t', 1, '1 day 1 us') $$,
    $$ idem_outbox_nack('{1}', 1, '-1 s') $$),
    rtrim(repeat('22023 ', 11)), 'arguments_out_of_range');
SELECT is(pg_temp.states($$ idem_publish(repeat('t', 255), '1', repeat('k', 1024)) $$, $$ idem_outbox_take(repeat('t', 255), 10000, '1 day') $$), 'ok ok', 'longest');
BEGIN READ ONLY;
SELECT is(pg_temp.states($$ idem_publish('t', '1') $$, $$ idem_outbox_take('t') $$, $$ idem_outbox_ack('{}', 1) $$, $$ idem_outbox_nack('{}', 1) $$,
    $$ idem_outbox_retry('{}') $$, $$ idem_outbox_discard('{}') $$), rtrim(repeat('25006 ', 6)), 'read_only_transaction');
COMMIT;
SELECT is(pg_temp.states($$ set_config('idem.outbox_max_attempts', '0', false) $$), '22023', 'no_attempt_at_all');
CALL pg_temp.empty();

-- Replaced tables, and an index of the user's own.
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));
SET lock_timeout = '20 s';
SELECT pg_temp.publish('outbox:t', NULL, 'x');
SELECT pg_temp.publish('outbox:taken', NULL, 'x');
SELECT id, fence FROM idem_outbox_take('outbox:taken') \gset taken_
BEGIN;
ALTER TABLE idem_outbox RENAME TO idem_outbox_of_old;
CREATE TABLE idem.idem_outbox (LIKE idem.idem_outbox_of_old INCLUDING ALL);
SELECT is(pg_temp.states($$ idem_publish('t', '1') $$, $$ idem_outbox_take('t') $$, format('idem_outbox_ack(''{%s}'', %s)', :taken_id, :taken_fence), $$ idem_outbox_retry('{1}') $$),
    rtrim(repeat('55000 ', 4)), 'replaced_outbox');
ROLLBACK;
SELECT idem_outbox_ack(ARRAY[:taken_id]::bigint[], :taken_fence) \g /dev/null
BEGIN;
ALTER TABLE idem_outbox_leases DROP CONSTRAINT idem_outbox_leases_pkey;
SELECT is(pg_temp.states($$ idem_outbox_take('t') $$), '55000', 'leases_without_their_key');
ROLLBACK;
BEGIN;
CREATE INDEX ON idem_outbox (due_at);
SELECT pg_temp.publish('outbox:t', 'k', 'y');
SELECT is(pg_temp.take('outbox:t'), 'x y', 'index_of_the_users');
SELECT pg_temp.nack('1 hour', 'x');
SET LOCAL enable_seqscan = off;
SELECT is((SELECT string_agg(payload ->> 'm', ' ') FROM idem_outbox WHERE due_at > now()), 'x', 'is_kept_in_step');
ROLLBACK;

SELECT is((SELECT string_agg(payload ->> 'm', ' ') FROM idem_outbox), 'x', 'everything_is_rolled_back');

CALL pg_temp.empty();

-- However much is out or held up in front: the next batch is as full as what is free behind it.
CALL pg_temp.empty();
SELECT count(idem_publish('outbox:many', '{}')) FROM generate_series(1, 6000) \gset dropped_
SELECT is((SELECT array_agg((SELECT count(*) FROM idem_outbox_take('outbox:many', 400 + 0 * n)) ORDER BY n) FROM generate_series(1, 15) n),
          '{400,400,400,400,400,400,400,400,400,400,400,400,400,400,400}', 'full_batches_behind_those_that_are_out');
CALL pg_temp.empty();
SELECT count(idem_publish('outbox:poisoned', '{}', 'one key')) FROM generate_series(1, 6000) \gset dropped_
SELECT count(idem_publish('outbox:poisoned', '{}')) FROM generate_series(1, 500) \gset dropped_
SELECT idem_outbox_nack(array_agg(id), min(fence), '1 hour') FROM idem_outbox_take('outbox:poisoned', 1) \gset dropped_
SELECT is((SELECT count(*) FROM idem_outbox_take('outbox:poisoned', 400)), 400::bigint, 'full_batch_behind_a_key_that_is_held_up');
SELECT count(idem_publish(repeat('t', 255), '{}', 'key ' || n)) FROM generate_series(1, 400) AS n \gset dropped_
SELECT count(*) FROM idem_outbox_take(repeat('t', 255), 400) \gset dropped_
SELECT is((SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'idem_outbox_leases'::regclass), 0::bigint, 'leases_are_not_toasted');
CALL pg_temp.empty();

-- What other topics have out costs a take nothing, although the statistics are of an empty table. The least of five
-- counts: an ANALYZE of autovacuum discards plans, and planning reads catalogs and the ends of indexes.
VACUUM ANALYZE idem_outbox, idem_outbox_leases;
CREATE FUNCTION pg_temp.blocks_of_take(topic text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
    least_blocks int;
BEGIN
    FOR n IN 1 .. 5 LOOP
        EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM idem_outbox_take(%L)', topic) INTO plan;
        least_blocks := least(least_blocks, (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int);
    END LOOP;
    RETURN least_blocks;
END $$;
SELECT pg_temp.blocks_of_take('outbox:mine') \gset dropped_
SELECT pg_temp.blocks_of_take('outbox:mine') AS alone \gset
SELECT count(idem_publish('outbox:theirs', '{}')) FROM generate_series(1, 500) \gset dropped_
SELECT 1 / (count(*) = 500)::int AS taken FROM generate_series(1, 500) AS n, LATERAL idem_outbox_take('outbox:theirs', least(n, 1)) \gset dropped_
SELECT cmp_ok(pg_temp.blocks_of_take('outbox:mine'), '<=', :alone + 3, 'leases_of_other_topics_are_not_read');
CALL pg_temp.empty();
SELECT * FROM finish();
