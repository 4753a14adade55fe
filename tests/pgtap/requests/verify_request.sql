-- Signed requests. Attacks over many connections: tests/recovery/033_attacks.pl; secrets in dumps: 012_tokens.pl.
\ir ../include/helpers.psql
SELECT plan(67);
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));
CALL pg_temp.clean('nonce');
DELETE FROM idem_api_keys;

\ir ../include/hmac.psql
\set secret '0123456789abcdef0123456789abcdef'
CREATE FUNCTION pg_temp.send(nonce text, params jsonb = '{"amount": 10}', sent jsonb = NULL, key_id text = 'shop', secret text = '0123456789abcdef0123456789abcdef',
                             age interval = '0', tolerance interval = '5 min', scope text = NULL) RETURNS text LANGUAGE sql AS $$
    SELECT idem_verify_request(coalesce(sent, params), pg_temp.hmac(convert_to(secret, 'UTF8'), idem_request_message(params, key_id, at, nonce)),
                               key_id, at, nonce, tolerance, scope)
      FROM (SELECT clock_timestamp() - age) AS t (at)
$$;

-- What is signed: of this text a sender in any language can make the same.
SELECT is(idem_request_message('{"b": 1.50, "a": {"ü": [1, null, true, "x\ny\u0001"], "aaa": 1e3}, "": -0.0}', 'shop', '1970-01-02 00:00:00.000001+00', E'n"\\1'),
          '["idem1","shop",86400000001,"n\"\\1",{"":0,"a":{"aaa":1000,"ü":[1,null,true,"x\ny\u0001"]},"b":1.5}]', 'message');
SELECT is(idem_request_message('{"bb": 1, "a": 2, "ab": 3}', 'k', '2000-01-01 00:00+00', 'n'),
          '["idem1","k",946684800000000,"n",{"a":2,"ab":3,"bb":1}]', 'names_are_sorted_by_code_point_not_by_length');
SELECT is(idem_request_message('{}', 'k', '1969-12-31 23:59:59+00', 'n'), '["idem1","k",-1000000,"n",{}]', 'before_1970');
SELECT is(idem_request_message('{"x": [], "y": {}, "z": [[{}]]}', 'k', '1970-01-01 00:00+00', 'n'), '["idem1","k",0,"n",{"x":[],"y":{},"z":[[{}]]}]',
          'empty_ones');
SELECT is(idem_request_message(jsonb_build_object('x', E'\b\t\f\r\x1f/<'), 'k', '1970-01-01 00:00+00', 'n'),
          '["idem1","k",0,"n",{"x":"\b\t\f\r\u001f/<"}]', 'escapes_of_rfc_8785');

-- The same vectors test the recipes of docs/requests.md (tests/examples/signing.bats).
\set vectors `cat tests/vectors/signed_requests.json`
CREATE TEMP TABLE vector AS
    SELECT v ->> 'name' AS name, (v ->> 'params')::jsonb AS params, v ->> 'key_id' AS key_id, timestamptz 'epoch' + (v ->> 'micros')::bigint * interval '1 us' AS at,
           v ->> 'nonce' AS nonce, v ->> 'message' AS message, v ->> 'signature' AS signature
      FROM jsonb_array_elements(:'vectors'::jsonb -> 'vectors') AS v;
SELECT cmp_ok((SELECT count(*) FROM vector), '>=', 14::bigint, 'vectors');
SELECT is((SELECT string_agg(name, ', ') FROM vector WHERE idem_request_message(params, key_id, at, nonce) <> message), NULL, 'messages_of_the_vectors');
SELECT is((SELECT string_agg(name, ', ') FROM vector WHERE pg_temp.hmac(convert_to(:'vectors'::jsonb ->> 'secret', 'UTF8'), message) <> signature), NULL,
          'signatures_of_the_vectors');

-- No key, no entry.
SELECT is(pg_temp.send('none'), 'invalid', 'unknown_key_id');
SELECT idem_api_key_set('shop', convert_to(:'secret', 'UTF8'));
SELECT is(pg_temp.send('nonce:1'), 'accepted', 'genuine');
SELECT is(pg_temp.send('nonce:1'), 'replayed', 'replayed_nonce');
SELECT is(pg_temp.send('nonce:1', '{"amount": 99}'), 'replayed', 'nonce_of_another_request');
SELECT is(pg_temp.send('nonce:2'), 'accepted', 'same_request_with_another_nonce');
SELECT is(pg_temp.send('nonce:3', '{"a": 1, "b": [2, {"d": 4, "c": 3}]}', sent => '{"b": [2.0, {"c": 3, "d": 4.00}], "a": 1}'), 'accepted',
          'reordered_parameters_are_the_same_request');
SELECT is(pg_temp.send('nonce:4', sent => '{"amount": 11}'), 'invalid', 'changed_body');
SELECT is(pg_temp.send('nonce:4', sent => '{"amount": "10"}'), 'invalid', 'text_for_a_number');
SELECT is(pg_temp.send('nonce:4', sent => '{"amount": 10, "admin": true}'), 'invalid', 'parameter_that_was_added');
SELECT is(pg_temp.send('nonce:4', sent => '{}'), 'invalid', 'parameter_that_was_left_out');
SELECT is(pg_temp.send('nonce:4', '{"to": ["a", "b"]}', sent => '{"to": ["b", "a"]}'), 'invalid', 'order_within_an_array_counts');
SELECT is(pg_temp.send('nonce:4', '{"to": ["a"]}', sent => '{"to": "a"}'), 'invalid', 'one_value_is_not_an_array_of_one');
SELECT is(pg_temp.send('nonce:4', '{"to": "a"}', sent => '{"to": "b", "to": "a"}'), 'accepted',
          'of_a_name_given_twice_what_is_verified_is_what_jsonb_has');
SELECT is(pg_temp.send('nonce:5', '{"to": "a"}', sent => '{"to": ["b", "a"]}'), 'invalid', 'duplicated_parameter_as_an_array');
SELECT is(pg_temp.send('nonce:5', '{"a": "b\",\"c\":\"d"}', sent => '{"a": "b", "c": "d"}'), 'invalid', 'quotes_do_not_break_out');
SELECT is(pg_temp.send('nonce:5'), 'accepted', 'what_was_invalid_burnt_no_nonce');
SELECT is(pg_temp.send('nonce:6', secret => 'another secret of thirty-two bytes'), 'invalid', 'wrong_secret');

-- The parts that are signed besides the parameters.
SELECT clock_timestamp() AS at \gset
SELECT pg_temp.hmac(convert_to(:'secret', 'UTF8'), idem_request_message('{}', 'shop', :'at', 'nonce:7')) AS signature \gset
SELECT is(idem_verify_request('{}', :'signature', 'shop', :'at', 'nonce:8'), 'invalid', 'another_nonce');
SELECT is(idem_verify_request('{}', :'signature', 'shop', timestamptz :'at' + interval '1 us', 'nonce:7'), 'invalid', 'another_time');
SELECT is(idem_verify_request('{}', :'signature', 'shop', 'infinity', 'nonce:7'), 'invalid', 'no_time_at_all');
SELECT idem_api_key_set('twin', convert_to(:'secret', 'UTF8'));
SELECT is(idem_verify_request('{}', :'signature', 'twin', :'at', 'nonce:7'), 'invalid', 'another_key_id_of_the_same_secret');
SELECT is((SELECT string_agg(idem_verify_request('{}', s, 'shop', :'at', 'nonce:7')::text, ',') FROM unnest(ARRAY['', left(:'signature', 63),
              :'signature' || '0', 'z' || substr(:'signature', 2), repeat('0', 64), left(:'signature', 62) || 'zz', ' ' || left(:'signature', 63)]) s),
          'invalid,invalid,invalid,invalid,invalid,invalid,invalid', 'signatures_that_are_none');
SELECT is(idem_verify_request('{}', upper(:'signature'), 'shop', :'at', 'nonce:7'), 'accepted', 'digits_in_upper_case');

-- Time.
SELECT is(pg_temp.send('nonce:9', age => '4 min 59 s'), 'accepted', 'just_in_time');
SELECT is(pg_temp.send('nonce:10', age => '5 min 1 s'), 'stale', 'signed_too_long_ago');
SELECT is(pg_temp.send('nonce:10', age => '-4 min -59 s'), 'accepted', 'clock_that_goes_before');
SELECT is(pg_temp.send('nonce:11', age => '-5 min -1 s'), 'stale', 'signed_too_far_ahead');
SELECT is(pg_temp.send('nonce:11', age => '2 s', tolerance => '1 s'), 'stale', 'tolerance_of_the_call');
SELECT is(pg_temp.send('nonce:11', age => '10 min', secret => 'another secret of thirty-two bytes'), 'invalid', 'wrong_before_it_is_stale');
SELECT is((SELECT count(*) FROM idem_keys WHERE scope = 'nonce' AND key = 'shop:nonce\:11'), 0::bigint, 'stale_burnt_no_nonce');
SELECT is((SELECT count(*) FROM idem_keys WHERE scope = 'nonce' AND key = 'shop:nonce\:9'
              AND expires_at BETWEEN clock_timestamp() + interval '9 min' AND clock_timestamp() + interval '10 min 1 s'), 1::bigint,
          'nonce_outlives_the_time_in_which_its_request_is_fresh');

-- Nonces of two senders, and odd ones.
SELECT is(pg_temp.send('nonce:1', key_id => 'twin'), 'accepted', 'nonces_are_the_senders');
SELECT is(pg_temp.send('nonce:1', scope => 'nonce:other') || ' ' || pg_temp.send('nonce:1', scope => 'nonce:other'), 'accepted replayed',
          'nonces_of_another_scope');
SELECT is(pg_temp.send('nonce:1', scope => 'nonce') || ' ' || pg_temp.send('nonce:1'), 'replayed replayed', 'null_scope_is_nonce');
SELECT is(pg_temp.send('nonce:tolerated', age => '4 min', tolerance => NULL) || ' ' || pg_temp.send('nonce:late', age => '6 min', tolerance => NULL), 'accepted stale',
          'null_tolerance_is_5_minutes');
SELECT is(pg_temp.send(''), 'invalid', 'empty_nonce');
SELECT is(pg_temp.send(repeat('x', 1020)), 'invalid', 'nonce_that_is_too_long');
SELECT is(pg_temp.send('nonce:1', key_id => repeat('k', 5000)), 'invalid', 'key_id_that_is_too_long');

-- A few bytes that would be a very long message.
SELECT jsonb_build_object('n', (SELECT jsonb_agg(1e131000) FROM generate_series(1, 200))) AS large \gset
SELECT is(idem_verify_request(:'large', repeat('0', 64), 'shop', clock_timestamp(), 'nonce:large')::text, 'invalid', 'message_that_is_too_large');
SELECT is(pg_temp.state_of(format('SELECT idem_request_message(%L, ''k'', now(), ''n'')', :'large')) || ' '
          || pg_temp.state_of($$ SELECT idem_request_message('{}', 'k', '294276-12-31 00:00+00', 'n') $$), '54000 22023', 'message_that_cannot_be_made');

-- Parameters in parameters. The outermost object counts.
CREATE FUNCTION pg_temp.nested(depth int, open text = '{"a":', shut text = '}') RETURNS jsonb LANGUAGE sql AS $$
    SELECT ('{"a":' || repeat(open, depth - 1) || '1' || repeat(shut, depth - 1) || '}')::jsonb
$$;
SELECT is(pg_temp.send('nonce:nested', pg_temp.nested(100)) || ' ' || pg_temp.send('nonce:nested arrays', pg_temp.nested(100, '[', ']')), 'accepted accepted',
          'deepest_nesting');
SELECT is(idem_verify_request(pg_temp.nested(101), repeat('0', 64), 'shop', clock_timestamp(), 'nonce:deep') || ' '
          || idem_verify_request(pg_temp.nested(101, '[', ']'), repeat('0', 64), 'shop', clock_timestamp(), 'nonce:deep'), 'invalid invalid', 'nested_too_deep');
SELECT pg_temp.nested(10000)::text AS deep, pg_temp.nested(10000, '[', ']')::text AS deep_arrays \gset
CREATE TEMP TABLE deep AS SELECT params::jsonb FROM (VALUES (:'deep'), (:'deep_arrays')) AS v (params);
SET max_stack_depth = '1MB';
SELECT is((SELECT string_agg(idem_verify_request(params, repeat('0', 64), 'shop', clock_timestamp(), 'nonce:deep')::text, ' ') FROM deep), 'invalid invalid',
          'nested_as_deep_as_no_stack_holds');
RESET max_stack_depth;
SELECT is((SELECT string_agg(pg_temp.state_of(format('SELECT idem_request_message(%L, ''k'', now(), ''n'')', params)), ' ')
             FROM (VALUES (pg_temp.nested(100)), (pg_temp.nested(101))) AS v (params)), 'ok 54000', 'message_of_what_is_nested_too_deep');

-- Transactional.
BEGIN;
SELECT pg_temp.send('nonce:12') AS within \gset
ROLLBACK;
SELECT is(:'within' || ' ' || pg_temp.send('nonce:12'), 'accepted accepted', 'rollback_makes_the_nonce_new_again');
BEGIN READ ONLY;
SELECT is(pg_temp.state_of($$ SELECT pg_temp.send('nonce:13') $$) || ' ' || pg_temp.send('nonce:12') || ' ' || pg_temp.send('nonce:13', sent => '{}'),
          '25006 replayed invalid', 'read_only_transaction');
ROLLBACK;

-- Rotation.
SELECT idem_api_key_set('shop', 'a new secret of 31 bytes, or so', keep_old => '1 hour');
SELECT is(pg_temp.send('nonce:20') || ' ' || pg_temp.send('nonce:21', secret => 'a new secret of 31 bytes, or so'), 'accepted accepted',
          'old_and_new_secret_while_the_old_is_kept');
UPDATE idem_api_keys SET expires_at = now() WHERE expires_at < 'infinity';
SELECT is(pg_temp.send('nonce:22') || ' ' || pg_temp.send('nonce:22', secret => 'a new secret of 31 bytes, or so'), 'invalid accepted',
          'only_the_new_one_afterwards');
SELECT idem_api_key_set('shop', convert_to(:'secret', 'UTF8'));
SELECT is(pg_temp.send('nonce:23') || ' ' || pg_temp.send('nonce:23', secret => 'a new secret of 31 bytes, or so') || ' '
          || (SELECT count(*) FROM idem_api_keys WHERE key_id = 'shop'), 'accepted invalid 1', 'without_keep_old_the_old_one_goes_at_once');
SELECT idem_api_key_set('long', convert_to(repeat('long secret ', 20), 'UTF8'));
SELECT is(pg_temp.send('nonce:24', key_id => 'long', secret => repeat('long secret ', 20)), 'accepted', 'secret_longer_than_a_block');
BEGIN;
SELECT idem_api_key_drop('shop') AS dropped \gset
SELECT pg_temp.send('nonce:25') AS within \gset
ROLLBACK;
SELECT is(:'dropped' || ' ' || :'within' || ' ' || pg_temp.send('nonce:25'), 't invalid accepted', 'dropping_is_transactional');
SELECT is(idem_api_key_drop('shop')::text || idem_api_key_drop('shop')::text || ' ' || pg_temp.send('nonce:26'), 'truefalse invalid', 'dropped');

SELECT is((SELECT string_agg(call || ' ' || state, ', ')
             FROM (VALUES ('verify_request(NULL, ''s'', ''k'', now(), ''n'')', '22004'), ('verify_request(''{}'', NULL, ''k'', now(), ''n'')', '22004'),
                          ('verify_request(''{}'', ''s'', NULL, now(), ''n'')', '22004'), ('verify_request(''{}'', ''s'', ''k'', NULL, ''n'')', '22004'),
                          ('verify_request(''{}'', ''s'', ''k'', now(), NULL)', '22004'), ('verify_request(''{}'', ''s'', ''k'', now(), ''n'', NULL, NULL)', 'ok'),
                          ('verify_request(''{}'', ''s'', ''k'', now(), ''n'', scope => repeat(''s'', 256))', '22023'),
                          ('verify_request(''[]'', ''s'', ''k'', now(), ''n'')', '22023'), ('verify_request(''1'', ''s'', ''k'', now(), ''n'')', '22023'),
                          ('verify_request(''{}'', ''s'', ''k'', now(), ''n'', ''0'')', '22023'),
                          ('verify_request(''{}'', ''s'', ''k'', now(), ''n'', ''8 days'')', '22023'),
                          ('request_message(''[]'', ''k'', now(), ''n'')', '22023'), ('request_message(''{}'', ''k'', ''infinity'', ''n'')', '22023'),
                          ('request_message(NULL, ''k'', now(), ''n'')', '22004'),
                          ('api_key_set(NULL, ''sixteen bytes or more'')', '22004'), ('api_key_set(''k'', NULL)', '22004'),
                          ('api_key_set(''k'', ''sixteen bytes or more'', NULL)', 'ok'), ('api_key_set('''', ''sixteen bytes or more'')', '22023'),
                          ('api_key_set(repeat(''k'', 256), ''sixteen bytes or more'')', '22023'), ('api_key_set(''k'', ''short'')', '22023'),
                          ('api_key_set(''k'', convert_to(repeat(''s'', 1025), ''UTF8''))', '22023'),
                          ('api_key_set(''k'', ''sixteen bytes or more'', ''-1 s'')', '22023'), ('api_key_drop(NULL)', '22004')) AS v (call, expected),
                  pg_temp.state_of('SELECT idem_' || call) AS state
            WHERE state <> expected), NULL, 'bad_arguments');

-- A row that was changed by hand. The operator can do what the hint says.
SELECT idem_api_key_set(key_id, 'sixteen bytes or more') FROM unnest('{dropped,set}'::text[]) AS key_id;
UPDATE idem_api_keys SET secret = convert_to(repeat('s', 65), 'UTF8') WHERE key_id IN ('dropped', 'set');
SELECT throws_ok($$ SELECT pg_temp.send('nonce:27') $$, 'XX001', NULL, 'damaged_secret');
SELECT idem_api_key_drop('dropped') AS dropped, idem_api_key_set('set', 'sixteen bytes or more', keep_old => '1 hour') \gset
SELECT is(:'dropped' || ' ' || pg_temp.send('nonce:27', key_id => 'dropped') || ' ' || pg_temp.send('nonce:27', key_id => 'set', secret => 'sixteen bytes or more'),
          't invalid accepted', 'damaged_secret_can_be_dropped_or_replaced');

-- Who, and what could carry a secret away.
BEGIN;
CREATE ROLE tap_user;
CREATE ROLE tap_operator;
SELECT idem_grant('tap_user'), idem_grant('tap_operator', true);
SELECT string_agg(pg_temp.state_as(role::name, call), ' ' ORDER BY n) AS states
  FROM (VALUES (1, 'tap_user', 'SELECT idem.idem_api_key_set(''k'', ''sixteen bytes or more'')'), (2, 'tap_user', 'SELECT idem.idem_api_key_drop(''k'')'),
               (3, 'tap_operator', 'SELECT idem.idem_api_key_set(''k'', ''sixteen bytes or more'')'), (4, 'tap_operator', 'SELECT * FROM idem.idem_api_keys'),
               (5, 'tap_user', 'SELECT idem.idem_verify_request(''{}'', ''s'', ''k'', now(), ''n'')')) AS v (n, role, call) \gset
ROLLBACK;
SELECT is(:'states'::text, '42501 42501 ok 42501 ok', 'operators_set_keys_and_nobody_reads_them');
SELECT is((SELECT count(*) FROM pg_extension, unnest(extconfig) t WHERE extname = 'idem' AND t = 'idem_api_keys'::regclass), 0::bigint, 'not_dumped');
ANALYZE idem_api_keys;
SELECT is((SELECT count(*) FROM pg_stats WHERE tablename = 'idem_api_keys'), 0::bigint, 'no_statistics');
BEGIN;
ALTER TABLE idem_api_keys ADD CHECK (false) NOT VALID;
SELECT pg_temp.state_of($$ SELECT idem_api_key_set('k', 'sixteen bytes or more') $$) AS state \gset
ROLLBACK;
SELECT is(:'state'::text, 'ok', 'no_constraint_can_tell_a_secret');

DELETE FROM idem_api_keys;
DELETE FROM idem_keys WHERE scope = 'nonce';
CALL pg_temp.clean('nonce');
SELECT * FROM finish();
