-- What idem_publish and idem_publish_many put into the outbox: delays, dedup_ids, many at a time. Several sessions are in the isolation
-- specs.
\ir ../include/helpers.psql
SELECT plan(52);
CREATE PROCEDURE pg_temp.empty() LANGUAGE sql AS $$
    DELETE FROM idem.idem_outbox; DELETE FROM idem.idem_outbox_leases; DELETE FROM idem.idem_outbox_parked; DELETE FROM idem.idem_keys WHERE scope = 'outbox'
$$;
CALL pg_temp.empty();
CREATE FUNCTION pg_temp.take(topic text, most int = 100) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(payload #>> '{}', ' ' ORDER BY id) FROM idem_outbox_take(topic, most)
$$;
CREATE FUNCTION pg_temp.stored() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(payload #>> '{}', ' ' ORDER BY id) FROM idem.idem_outbox $$;

-- Delays.
SELECT idem_publish('delay:t', '"late"', delay => '1 hour');
SELECT idem_publish('delay:t', '"now"', delay => '0');
SELECT idem_publish('delay:t', '"too"', delay => NULL);
SELECT is((SELECT due_at IS NULL FROM idem_outbox WHERE payload = '"now"'), true, 'no_delay_is_none');
SELECT ok((SELECT abs(pg_temp.seconds_from_now(due_at) - 3600) < 5 FROM idem_outbox WHERE payload = '"late"'), 'delay_counts_from_now');
SELECT is(pg_temp.take('delay:t'), 'now too', 'delayed_message_is_not_given_out');
UPDATE idem_outbox SET due_at = clock_timestamp() WHERE payload = '"late"';
SELECT is(pg_temp.take('delay:t'), 'late', 'until_it_is_due');
CALL pg_temp.empty();
SELECT idem_publish('delay:t', '"k1"', 'k', delay => '1 hour');
SELECT idem_publish('delay:t', '"k2"', 'k');
SELECT idem_publish('delay:t', '"o1"', 'o');
SELECT is(pg_temp.take('delay:t'), 'o1', 'delayed_message_holds_its_key_back');
UPDATE idem_outbox SET due_at = NULL WHERE payload = '"k1"';
SELECT is(pg_temp.take('delay:t'), 'k1', 'in_order_when_it_is_due');
CALL pg_temp.empty();
SELECT idem_publish('delay:t', '"soon"', delay => '20 ms');
CALL pg_temp.sleep('40 ms');
SELECT is(pg_temp.take('delay:t'), 'soon', 'due_by_the_clock');
SELECT is(pg_temp.state_of($$ SELECT idem_publish('delay:t', '1', delay => '-1 s') $$), '22023', 'negative_delay');
SELECT is(pg_temp.state_of($$ SELECT idem_publish('delay:t', '1', delay => '300000 years') $$), '22023', 'delay_beyond_the_end_of_time');
CALL pg_temp.empty();

-- dedup_id: one message.
SELECT idem_publish('dedup:t', '"first"', dedup_id => 'a') AS first \gset
SELECT is(idem_publish('dedup:t', '"second"', dedup_id => 'a'), :first::bigint, 'second_publication_is_told_the_first_ones_id');
SELECT is(pg_temp.stored(), 'first', 'and_publishes_nothing');
SELECT isnt(idem_publish('dedup:t', '"other"', dedup_id => 'b'), :first::bigint, 'another_dedup_id_is_another_message');
SELECT isnt(idem_publish('dedup:u', '"topic"', dedup_id => 'a'), :first::bigint, 'another_topic_too');
SELECT isnt(idem_publish('dedup:t', '"none"'), idem_publish('dedup:t', '"none"'), 'without_one_nothing_is_compared');
SELECT is(idem_publish('dedup:t', '"second"', dedup_id => 'a', key => 'k', delay => '1 s', headers => '{}'), :first::bigint, 'whatever_else_is_given');
SELECT idem_outbox_ack(array_agg(id), max(fence)) FROM idem_outbox_take('dedup:t');
SELECT is(idem_publish('dedup:t', '"second"', dedup_id => 'a'), :first::bigint, 'also_after_the_message_has_gone_out');
SELECT is((SELECT response FROM idem_lookup(idem_key('dedup:t', 'a'), 'outbox')), to_jsonb(:first::bigint), 'it_is_a_key_of_scope_outbox');
CALL pg_temp.empty();

-- In transactions.
BEGIN;
SELECT idem_publish('dedup:t', '"undone"', dedup_id => 'a') AS first \gset
SELECT is(idem_publish('dedup:t', '"again"', dedup_id => 'a'), :first::bigint, 'told_within_the_transaction');
ROLLBACK;
SELECT is((SELECT count(*)::int FROM idem_outbox), 0, 'rollback_undoes_message');
SELECT isnt(idem_publish('dedup:t', '"kept"', dedup_id => 'a'), :first::bigint, 'and_its_dedup_id');
SELECT is(pg_temp.stored(), 'kept', 'so_it_can_be_published');
BEGIN;
SAVEPOINT s;
SELECT idem_publish('dedup:t', '"undone"', dedup_id => 'c');
ROLLBACK TO s;
SELECT idem_publish('dedup:t', '"c"', dedup_id => 'c');
COMMIT;
SELECT is(pg_temp.stored(), 'kept c', 'savepoint_undoes_both');
SELECT is((SELECT count(DISTINCT id)::int FROM generate_series(1, 3) n, idem_publish('dedup:t', to_jsonb(n), dedup_id => 'statement') id), 1, 'three_in_one_statement');
CALL pg_temp.empty();

-- Retention is the scope's.
SELECT idem_scope_set('outbox', ttl => '1 ms');
SELECT idem_publish('dedup:t', '"first"', dedup_id => 'a') AS first \gset
CALL pg_temp.sleep('5 ms');
SELECT isnt(idem_publish('dedup:t', '"second"', dedup_id => 'a'), :first::bigint, 'forgotten_after_the_scopes_ttl');
SELECT idem_scope_set('outbox', ttl => '1 hour');
SELECT idem_publish('dedup:t', '"third"', dedup_id => 'b');
SELECT idem_redact(idem_key('dedup:t', 'b'), 'outbox');
SELECT is(idem_publish('dedup:t', '"fourth"', dedup_id => 'b'), NULL, 'the_id_was_removed');
SELECT is(pg_temp.stored(), 'first second third', 'and_nothing_is_published');
SELECT idem_scope_drop('outbox');
SELECT is(pg_temp.state_of($$ SELECT idem_publish('dedup:t', '1', dedup_id => '') $$), '22023', 'empty_dedup_id');
SELECT is(pg_temp.state_of($$ SELECT idem_publish('dedup:t', '1', dedup_id => repeat('x', 1020)) $$), '22023', 'dedup_id_that_is_too_long');
CALL pg_temp.empty();

-- Many.
SELECT idem_publish_many('many:t', '[{"payload": "a"}, {"payload": {"n": 1}, "key": "k", "headers": {"h": 1}, "delay": "1 hour"},
                                     {"payload": null, "key": null, "headers": null, "delay": null, "dedup_id": null}]') AS ids \gset
SELECT is((SELECT array_agg(id ORDER BY id) FROM idem_outbox), :'ids'::bigint[], 'ids_in_the_order_of_the_array');
SELECT is((SELECT string_agg(format('%s %s %s %s %s %s %s', topic, key, payload, headers, due_at > clock_timestamp() + interval '59 min', failures, returned_by), '; ' ORDER BY id) FROM idem_outbox),
    'many:t  "a"   0 ; many:t k {"n": 1} {"h": 1} t 0 ; many:t  null   0 ', 'each_with_what_it_was_given');
SELECT is(idem_publish_many('many:t', '[]'), '{}', 'none');
CALL pg_temp.empty();
SELECT idem_publish('many:t', '"old"', dedup_id => 'old') AS old \gset
SELECT idem_publish_many('many:t', '[{"payload": 1, "dedup_id": "z"}, {"payload": 2}, {"payload": 3, "dedup_id": "old"}, {"payload": 4, "dedup_id": "z"},
                                     {"payload": 5, "dedup_id": "a"}]') AS ids \gset
SELECT is(pg_temp.stored(), 'old 1 2 5', 'one_message_for_each_dedup_id_in_the_order_of_the_array');
SELECT is((:'ids'::bigint[])[3], :old::bigint, 'published_before');
SELECT is((:'ids'::bigint[])[4], (:'ids'::bigint[])[1], 'twice_in_one_call');
SELECT is(idem_publish_many('many:t', '[{"payload": 1, "dedup_id": "a"}, {"payload": 1, "dedup_id": "z"}]'), ARRAY[(:'ids'::bigint[])[5], (:'ids'::bigint[])[1]], 'told_later');
CALL pg_temp.empty();
SELECT is(cardinality(idem_publish_many('many:t', (SELECT jsonb_agg(jsonb_build_object('payload', n, 'key', 'k' || n % 7, 'dedup_id', 'd' || n)) FROM generate_series(1, 2500) n))),
    2500, 'thousands');
SELECT is((SELECT count(*)::int FROM idem_outbox WHERE topic = 'many:t'), 2500, 'are_all_there');
SELECT is(pg_temp.take('many:t'), '1 2 3 4 5 6 7', 'and_in_order');
SELECT is((SELECT array_agg((payload #>> '{}')::int ORDER BY id) FROM idem_outbox), (SELECT array_agg(n) FROM generate_series(1, 2500) n), 'by_their_ids');
SELECT is((SELECT count(*)::int FROM idem_keys WHERE scope = 'outbox'), 2500, 'with_their_dedup_ids');
CALL pg_temp.empty();

-- Whoever adds an index to the table keeps it.
CREATE INDEX outbox_payload ON idem_outbox USING gin (payload);
SELECT is(cardinality(idem_publish_many('many:t', '[{"payload": {"a": 1}}, {"payload": {"a": 2}}]')), 2, 'with_an_index_of_another_kind');
SET enable_seqscan = off;
SELECT is((SELECT count(*)::int FROM idem_outbox WHERE payload @> '{"a": 2}'), 1, 'that_finds_the_rows');
RESET enable_seqscan;
DROP INDEX outbox_payload;
CALL pg_temp.empty();

-- Malformed.
CREATE FUNCTION pg_temp.detail(messages jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    PERFORM idem_publish_many('many:t', messages);
    RETURN 'published';
EXCEPTION WHEN invalid_parameter_value THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN detail;
END $$;
SELECT is(pg_temp.detail('{"payload": 1}'), 'They are not an array.', 'no_array');
SELECT is(pg_temp.detail('1'), 'They are not an array.', 'a_number');
SELECT is(pg_temp.detail('[{"payload": 1}, 7]'), 'Message 2 is not an object.', 'no_object');
SELECT is(pg_temp.detail('[[1]]'), 'Message 1 is not an object.', 'an_array');
SELECT is(pg_temp.detail('[{"key": "k"}]'), 'Message 1 has no payload.', 'no_payload');
SELECT is(pg_temp.detail('[{"payload": 1, "kye": "k"}]'), 'Message 1 has a member "kye".', 'a_misspelt_member');
SELECT is(pg_temp.detail('[{"payload": 1, "key": 7}]'), 'Message 1 has a "key" that is not a string.', 'key_that_is_a_number');
SELECT is(pg_temp.detail('[{"payload": 1, "delay": 7}]'), 'Message 1 has a "delay" that is not a string.', 'delay_that_is_a_number');
SELECT is(pg_temp.state_of($$ SELECT idem_publish_many('many:t', '[{"payload": 1}, {"payload": 1, "delay": "soon"}]') $$), '22007', 'delay_that_is_none');
SELECT is((SELECT count(*)::int FROM idem_outbox), 0, 'nothing_of_these_is_published');
SELECT * FROM finish();
