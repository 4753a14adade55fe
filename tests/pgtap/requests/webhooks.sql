-- Webhooks. Two deliveries at once: isolation/specs/webhook_race.spec; how headers and bodies are read: tests/unit/webhook_test.cpp.
\ir ../include/helpers.psql
\ir ../include/hmac.psql
SELECT plan(70);
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));
CALL pg_temp.clean('webhook');
DELETE FROM idem_webhook_sources;

CREATE FUNCTION pg_temp.receive(source text, headers jsonb, body bytea) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', outcome, message_id) FROM idem_webhook_receive(source, headers, body)
$$;
CREATE FUNCTION pg_temp.receive(source text, headers jsonb, body text) RETURNS text LANGUAGE sql AS $$
    SELECT pg_temp.receive(source, headers, convert_to(body, 'UTF8'))
$$;
CREATE FUNCTION pg_temp.seconds(age interval = '0') RETURNS text LANGUAGE sql AS $$
    SELECT floor(extract(epoch FROM clock_timestamp() - age))::bigint::text
$$;

-- The senders' published vectors ----------------------------------------------------------------------------------------------------------------
-- Their times are old, so that a genuine one with a time is stale. A byte of the body is changed to see that invalid is another answer.
CREATE TEMP TABLE vector (name text, format text, secret text, headers jsonb, body text, expected text);
INSERT INTO vector VALUES
-- standard-webhooks/standard-webhooks, libraries/python/tests/test_webhooks.py (test_sign_function), also in JavaScript, Go, PHP, Java, Ruby.
('standard, python', 'standard', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
 '{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330", "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}',
 '{"test": 2432232314}', 'stale msg_p5jXN8AQM9LWM0D4loKWxJek'),
-- The same file: test_multi_sig_payload_is_valid, test_signature_verification_with_and_without_prefix, test_invalid_signature_raises_error.
('standard, several signatures', 'standard', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
 '{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330", "webhook-signature": "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="}',
 '{"test": 2432232314}', 'stale msg_p5jXN8AQM9LWM0D4loKWxJek'),
('standard, wrong signature', 'standard', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
 '{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330", "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA="}',
 '{"test": 2432232314}', 'invalid'),
-- standard-webhooks/standard-webhooks, libraries/rust/src/lib.rs: test_sign, test_no_verify, test_verify_partial_signature.
('standard, rust', 'standard', 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
 '{"webhook-id": "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "webhook-timestamp": "1649367553", "webhook-signature": "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="}',
 '{"email":"test@example.com","username":"test_user"}', 'stale msg_27UH4WbU6Z5A5EzD8u03UvzRbpk'),
('standard, rust, wrong', 'standard', 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
 '{"webhook-id": "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "webhook-timestamp": "1649367553", "webhook-signature": "v1,R3PTzyfHASBKHH98a7yexTwaJ4yNIcGhFQc1yuN+BPU="}',
 '{"email":"test@example.com","username":"test_user"}', 'invalid'),
('standard, rust, part', 'standard', 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
 '{"webhook-id": "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "webhook-timestamp": "1649367553", "webhook-signature": "v1,tZ1I4"}',
 '{"email":"test@example.com","username":"test_user"}', 'invalid'),
-- stripe/stripe-node, test/Webhook.spec.ts: its secret, payload and time; it publishes no signature, so this one is generateTestHeaderString's.
('stripe', 'stripe', 'whsec_test_secret', '{"Stripe-Signature": "t=12345,v1=STRIPE"}',
 E'{\n  "id": "evt_test_webhook",\n  "object": "event"\n}', 'stale evt_test_webhook'),
('stripe, one of two', 'stripe', 'whsec_test_secret', '{"Stripe-Signature": "t=12345,v1=STRIPE,v1=potato"}',
 E'{\n  "id": "evt_test_webhook",\n  "object": "event"\n}', 'stale evt_test_webhook'),
('stripe, other scheme', 'stripe', 'whsec_test_secret', '{"Stripe-Signature": "t=12345,v0=STRIPE"}',
 E'{\n  "id": "evt_test_webhook",\n  "object": "event"\n}', 'invalid'),
('stripe, bad header', 'stripe', 'whsec_test_secret', '{"Stripe-Signature": "I''m not even a real signature header"}',
 E'{\n  "id": "evt_test_webhook",\n  "object": "event"\n}', 'invalid'),
-- docs.github.com, "Validating webhook deliveries", Testing the webhook payload validation.
('github, docs', 'github', 'It''s a Secret to Everybody',
 '{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958"}',
 'Hello, World!', 'accepted 72d3162e-cc78-11e3-81ab-4c9367dc0958'),
-- octokit/webhooks-methods.js, test/verify.test.ts.
('github, octokit', 'github', 'mysecret',
 '{"X-Hub-Signature-256": "sha256=4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3", "X-GitHub-Delivery": "octokit-1"}',
 '{"foo":"bar"}', 'accepted octokit-1'),
('github, octokit, special characters', 'github', 'development',
 '{"X-Hub-Signature-256": "sha256=afecc3caa27548bb90d51a50384cb2868b9a3327b4ad6a01c9bd4ed0f8b0b12c", "X-GitHub-Delivery": "octokit-2"}',
 '{"foo":"Foo\n\u001B[34mbar: ♥♥♥♥♥♥♥♥\nthis-is-lost\u001B[0m\u001B[2K"}', 'accepted octokit-2'),
('github, octokit, escaped', 'github', 'development',
 '{"X-Hub-Signature-256": "sha256=6f8326efbacfbd04e870cea25b5652e635be8c9807f2fd5348ef60753c9e96ed", "X-GitHub-Delivery": "octokit-3"}',
 '{"foo":"\\u001b"}', 'accepted octokit-3'),
('github, octokit, incorrect', 'github', 'mysecret', '{"X-Hub-Signature-256": "foo", "X-GitHub-Delivery": "octokit-4"}', '{"foo":"bar"}', 'invalid'),
-- docs.slack.dev, "Verifying requests from Slack". It is a form, without an event_id.
('slack, docs', 'slack', '8f742231b10e8888abcd99yyyzzz85a5',
 '{"X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503", "X-Slack-Request-Timestamp": "1531420618"}',
 'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
 'stale SLACK'),
-- Shopify publishes no secret with its example. This is SQLPage's, tests/sql_test_files (test_hmac_shopify_webhook).
('shopify, sqlpage', 'shopify', 'test-webhook-secret',
 '{"X-Shopify-Hmac-Sha256": "QNyObTlKbMx2qDlPF/ZOZcBqg5OgPg+2oky3zldc0Gw=", "X-Shopify-Webhook-Id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043"}',
 '{"id":1234567890,"email":"customer@example.com","total_price":"123.45"}', 'accepted b54557e4-bdd9-4b37-8a5f-bf7d70bcd043');
UPDATE vector SET headers = replace(headers::text, 'STRIPE', pg_temp.hmac(convert_to(secret, 'UTF8'), '12345.' || body))::jsonb,
                  expected = replace(expected, 'SLACK', encode(sha256(convert_to(body, 'UTF8')), 'hex'));
SELECT idem_webhook_source_set('vector ' || name, format, convert_to(secret, 'UTF8')) FROM vector;
SELECT is((SELECT string_agg(name || ': ' || outcome, '; ') FROM vector, pg_temp.receive('vector ' || name, headers, body) AS outcome WHERE outcome <> expected), NULL,
          'vectors_of_the_senders');
SELECT is((SELECT string_agg(name || ': ' || outcome, '; ')
             FROM vector, pg_temp.receive('vector ' || name, headers, left(body, -1) || ' ') AS outcome WHERE outcome <> 'invalid'), NULL,
          'vectors_with_another_body');
SELECT is((SELECT string_agg(name || ': ' || outcome, '; ')
             FROM vector, pg_temp.receive('vector ' || name, headers, body) AS outcome WHERE outcome <> replace(expected, 'accepted', 'duplicate')), NULL,
          'vectors_again');
-- The HMAC that the tests below sign with. stripe/stripe-node, test/crypto/helpers.ts; RFC 4231, test case 6.
SELECT is(pg_temp.hmac('test_secret', '') || pg_temp.hmac(decode(repeat('aa', 131), 'hex'), 'Test Using Larger Than Block-Size Key - Hash Key First'),
          'f7f9bd47fb987337b5796fdc1fdb9ba221d0d5396814bfcaf9521f43fd8927fd' || '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54', 'hmac_of_the_tests');

-- Fresh ones -----------------------------------------------------------------------------------------------------------------------------------

-- The headers with which a sender of this format sends the body.
CREATE FUNCTION pg_temp.signed(format text, body bytea, id text = NULL, age interval = '0', key text = 'a secret of the sender') RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    k  bytea := convert_to(key, 'UTF8');
    at text := pg_temp.seconds(age);
BEGIN
    RETURN CASE format
        WHEN 'standard' THEN jsonb_build_object('webhook-id', id, 'webhook-timestamp', at,
             'webhook-signature', 'v1,' || encode(pg_temp.hmac(k, convert_to(id || '.' || at || '.', 'UTF8') || body), 'base64'))
        WHEN 'stripe' THEN jsonb_build_object('Stripe-Signature', 't=' || at || ',v1=' || encode(pg_temp.hmac(k, convert_to(at || '.', 'UTF8') || body), 'hex'))
        WHEN 'github' THEN jsonb_strip_nulls(jsonb_build_object('X-GitHub-Delivery', id, 'X-Hub-Signature-256', 'sha256=' || encode(pg_temp.hmac(k, body), 'hex')))
        WHEN 'slack' THEN jsonb_build_object('X-Slack-Request-Timestamp', at,
             'X-Slack-Signature', 'v0=' || encode(pg_temp.hmac(k, convert_to('v0:' || at || ':', 'UTF8') || body), 'hex'))
        WHEN 'shopify' THEN jsonb_strip_nulls(jsonb_build_object('X-Shopify-Webhook-Id', id, 'X-Shopify-Hmac-Sha256', encode(pg_temp.hmac(k, body), 'base64')))
    END;
END $$;
CREATE FUNCTION pg_temp.send(format text, body text, id text = NULL, age interval = '0', key text = 'a secret of the sender') RETURNS text LANGUAGE sql AS $$
    SELECT pg_temp.receive(format, pg_temp.signed(format, convert_to(body, 'UTF8'), id, age, key), body)
$$;
CREATE TEMP TABLE format (format text, is_timed boolean);
INSERT INTO format VALUES ('standard', true), ('stripe', true), ('github', false), ('slack', true), ('shopify', false);

SELECT is((SELECT string_agg(pg_temp.send(format, '{}', 'x'), ' ') FROM format), 'invalid invalid invalid invalid invalid', 'unknown_source');
SELECT idem_webhook_source_set(format, format, 'a secret of the sender') FROM format;
CREATE TEMP VIEW sent AS
    SELECT string_agg(pg_temp.send(format, '{"id": "evt_1", "event_id": "Ev1"}', 'msg_1'), ', ' ORDER BY format) AS outcomes FROM format;
SELECT is((TABLE sent), 'accepted msg_1, accepted msg_1, accepted Ev1, accepted msg_1, accepted evt_1', 'first_delivery');
SELECT is((TABLE sent), 'duplicate msg_1, duplicate msg_1, duplicate Ev1, duplicate msg_1, duplicate evt_1', 'again');
SELECT is((SELECT string_agg(key, ' ' ORDER BY key COLLATE "C") FROM idem_keys WHERE scope = 'webhook' AND key NOT LIKE 'vector %'),
          'github:msg_1 shopify:msg_1 slack:Ev1 standard:msg_1 stripe:evt_1', 'keys_of_the_claims');
CREATE TEMP TABLE copy AS SELECT format, pg_temp.signed(format, '{}', 'copied') AS headers FROM format;
SELECT is((SELECT string_agg(split_part(pg_temp.receive(format, headers, '{}'::text), ' ', 1), ' ') FROM copy) || ', '
          || (SELECT string_agg(split_part(pg_temp.receive(format, headers, '{}'::text), ' ', 1), ' ') FROM copy),
          'accepted accepted accepted accepted accepted, duplicate duplicate duplicate duplicate duplicate', 'the_same_bytes_again');
SELECT idem_key('github', 'msg_1') AS message \gset
SELECT is((SELECT string_agg(key, ' ') FROM idem_keys WHERE scope = 'webhook' AND key = :'message'), 'github:msg_1', 'as_idem_key_makes_them');

-- Who has signed it.
SELECT is((SELECT string_agg(pg_temp.send(format, '{}', 'msg_2', key => 'a secret of another'), ' ') FROM format), 'invalid invalid invalid invalid invalid', 'wrong_secret');
SELECT is((SELECT string_agg(pg_temp.receive(format, pg_temp.signed(format, '{"amount": 1}', 'msg_2'), '{"amount": 9}'::text), ' ') FROM format),
          'invalid invalid invalid invalid invalid', 'tampered_body');
SELECT is((SELECT string_agg(pg_temp.receive(format, pg_temp.signed(format, '{"amount": 1}', 'msg_2'), '{"amount":1}'::text), ' ') FROM format),
          'invalid invalid invalid invalid invalid', 'body_that_was_parsed_and_written_again');
SELECT is(pg_temp.receive('standard', pg_temp.signed('standard', '{}', 'msg_2') || '{"webhook-id": "msg_3"}', '{}'::text), 'invalid', 'another_id_with_an_old_signature');
SELECT is(pg_temp.receive('standard', pg_temp.signed('standard', '{}', 'msg_2', '1 min') || jsonb_build_object('webhook-timestamp', pg_temp.seconds()), '{}'::text),
          'invalid', 'another_time_with_an_old_signature');
SELECT is(pg_temp.receive('stripe', pg_temp.signed('github', '{}', 'x'), '{}'::text) || ' ' || pg_temp.receive('github', pg_temp.signed('stripe', '{}'), '{}'::text),
          'invalid invalid', 'another_format');
-- GitHub and Shopify sign the body alone, as docs/webhooks.md says.
SELECT is(pg_temp.receive('github', pg_temp.signed('github', '{"n": 1}', 'one'), '{"n": 1}'::text) || ', '
          || pg_temp.receive('github', pg_temp.signed('github', '{"n": 1}', 'one') || '{"X-GitHub-Delivery": "two"}', '{"n": 1}'::text),
          'accepted one, accepted two', 'id_that_is_not_signed');

-- Time.
SELECT is((SELECT string_agg(pg_temp.send(format, '{"id": "evt_4", "event_id": "Ev4"}', 'msg_4', '4 min 58 s'), ', ' ORDER BY format) FROM format WHERE is_timed),
          'accepted Ev4, accepted msg_4, accepted evt_4', 'just_in_time');
SELECT is((SELECT string_agg(pg_temp.send(format, '{"id": "evt_5", "event_id": "Ev5"}', 'msg_5', '5 min 1 s'), ', ' ORDER BY format) FROM format WHERE is_timed),
          'stale Ev5, stale msg_5, stale evt_5', 'signed_too_long_ago');
SELECT is((SELECT string_agg(pg_temp.send(format, '{"id": "evt_5", "event_id": "Ev5"}', 'msg_5', '-5 min -2 s'), ', ' ORDER BY format) FROM format WHERE is_timed),
          'stale Ev5, stale msg_5, stale evt_5', 'signed_too_far_ahead');
SELECT is((SELECT string_agg(pg_temp.send(format, '{"id": "evt_5", "event_id": "Ev5"}', 'msg_5', '-4 min -58 s'), ', ' ORDER BY format) FROM format WHERE is_timed),
          'accepted Ev5, accepted msg_5, accepted evt_5', 'stale_claims_nothing');
SELECT is((SELECT string_agg(pg_temp.send(format, '{"id": "evt_4", "event_id": "Ev4"}', 'msg_4', '1 hour'), ', ' ORDER BY format) FROM format WHERE is_timed),
          'stale Ev4, stale msg_4, stale evt_4', 'replay_after_the_tolerance');
SELECT is((SELECT string_agg(pg_temp.send(format, '{}', 'msg_6', '1 hour', 'a secret of another'), ' ') FROM format WHERE is_timed), 'invalid invalid invalid',
          'wrong_before_it_is_stale');
SELECT is((SELECT string_agg(pg_temp.send(format, '{"id": "evt_4", "event_id": "Ev4"}', 'msg_4'), ', ' ORDER BY format) FROM format WHERE is_timed),
          'duplicate Ev4, duplicate msg_4, duplicate evt_4', 'a_retry_is_signed_anew');
SELECT idem_webhook_source_set('strict', 'slack', 'a secret of the sender', tolerance => '1 s'), idem_webhook_source_set('patient', 'slack', 'a secret of the sender', tolerance => '7 days');
SELECT is((SELECT string_agg(pg_temp.receive(source, pg_temp.signed('slack', '{"event_id": "Ev7"}', age => age), '{"event_id": "Ev7"}'::text), ' ')
             FROM (VALUES ('strict', interval '3 s'), ('patient', '6 days 23 h'), ('patient', '7 days 1 s')) AS v (source, age)), 'stale Ev7 accepted Ev7 stale Ev7',
          'tolerance_of_the_source');
SELECT is((SELECT expires_at > clock_timestamp() + interval '13 days 23 h' FROM idem_keys WHERE key = 'patient:Ev7'), true, 'id_outlives_the_time_in_which_its_request_is_fresh');
SELECT idem_scope_set('webhook', ttl => '30 days');
SELECT pg_temp.send('github', '{}', 'retained') AS retained \gset
SELECT is((SELECT expires_at > clock_timestamp() + interval '29 days' FROM idem_keys WHERE key = 'github:retained'), true, 'ttl_of_the_scope');
SELECT idem_scope_drop('webhook');

-- Header fields.
SELECT is((SELECT string_agg(pg_temp.receive('github', (SELECT jsonb_object_agg(CASE form WHEN 'lower' THEN lower(name) WHEN 'upper' THEN upper(name) ELSE initcap(name) END, value)
                                                          FROM jsonb_each(pg_temp.signed('github', '{}', form)) AS h (name, value)), '{}'::text), ', ')
             FROM unnest('{lower,upper,initial}'::text[]) AS form), 'accepted lower, accepted upper, accepted initial', 'names_in_any_case');
SELECT is((SELECT string_agg(pg_temp.receive('standard', (SELECT jsonb_object_agg(name, jsonb_build_array(value)) FROM jsonb_each(pg_temp.signed('standard', '{}', 'array')) AS h (name, value)),
                                             '{}'::text), ', ') || ', '
                  || pg_temp.receive('standard', pg_temp.signed('standard', '{}', 'arrays') || jsonb_build_object('webhook-signature',
                         jsonb_build_array('v1,bad', pg_temp.signed('standard', '{}', 'arrays') -> 'webhook-signature', 'v1a,odd')), '{}'::text)),
          'accepted array, accepted arrays', 'values_in_arrays');
SELECT is(pg_temp.receive('slack', pg_temp.signed('slack', '{"event_id": "Ev8"}') || '{"x-slack-request-timestamp": "1"}', '{"event_id": "Ev8"}'::text), 'invalid', 'time_that_is_given_twice');
SELECT is((SELECT string_agg(outcome, ', ')
             FROM format, jsonb_object_keys(pg_temp.signed(format, '{}', 'msg_9')) AS name,
                  unnest(ARRAY[NULL, 'null', '1', 'true', '{}', '[]', '[null]', '[[]]', '[{"a": "b"}]', '""', '" "', '"\n"', '","', '"="', '"é"', '"t=1"', '"v1,"', '"sha256="', '"v0="',
                               '["", ""]', '{"0": "x"}']::jsonb[]) AS value,
                  pg_temp.receive(format, CASE WHEN value IS NULL THEN pg_temp.signed(format, '{}', 'msg_9') - name ELSE pg_temp.signed(format, '{}', 'msg_9') || jsonb_build_object(name, value) END,
                                  '{}'::text) AS outcome
            WHERE outcome <> 'invalid' AND NOT (name IN ('X-GitHub-Delivery', 'X-Shopify-Webhook-Id') AND (outcome ~ '^(accepted|duplicate) ' AND value IS DISTINCT FROM '"é"'))), NULL,
          'fields_that_are_none');
SELECT is((SELECT string_agg(pg_temp.receive(format, jsonb_build_object(name, repeat(item, 100000)), '{}'::text), ' ')
             FROM (VALUES ('standard', 'webhook-signature', 'v1,x '), ('stripe', 'stripe-signature', 'v1=,t=,'), ('github', 'x-hub-signature-256', 'sha256=00,'),
                          ('slack', 'x-slack-signature', 'v0='), ('shopify', 'x-shopify-hmac-sha256', '=')) AS v (format, name, item)), 'invalid invalid invalid invalid invalid', 'headers_that_are_long');
SELECT is((SELECT string_agg(pg_temp.receive('standard', pg_temp.signed('standard', '{}', 'several') ||
                  jsonb_build_object('webhook-signature', (SELECT string_agg('v1,' || encode(sha256(convert_to(n::text, 'UTF8')), 'base64'), ' ') FROM generate_series(1, 1000) AS n)
                                     || CASE WHEN good THEN ' ' || (pg_temp.signed('standard', '{}', 'several') ->> 'webhook-signature') ELSE '' END), '{}'::text), ', ')
             FROM unnest('{f,t}'::boolean[]) AS good), 'invalid, accepted several', 'one_of_a_thousand_signatures');
SELECT is((SELECT string_agg(outcome, ', ') FROM unnest(ARRAY[U&'\00E9', E'a\nb', repeat('x', 256)]) AS id, pg_temp.send('github', '{}', id) AS outcome), 'invalid, invalid, invalid', 'ids_that_are_none');
SELECT is(pg_temp.send('github', '{}', repeat('x', 255)), 'accepted ' || repeat('x', 255), 'longest_id');
SELECT pg_temp.send('github', '{}', 'a:b\c') AS with_colons \gset
SELECT idem_key('github', 'a:b\c') AS message \gset
SELECT is(:'with_colons' || ' ' || (SELECT count(*) FROM idem_keys WHERE key = :'message'), 'accepted a:b\c 1', 'id_with_colons');

-- Bodies.
SELECT is((SELECT string_agg(outcome, ', ')
             FROM unnest('{github,shopify,stripe,slack}'::text[]) AS format, unnest(ARRAY['', '[]', 'a=1', '{"id": 5, "event_id": null}', '{"id": "a\u0062", "event_id": ""}', '{']) AS body,
                  pg_temp.send(format, body) AS outcome
            WHERE outcome <> 'accepted ' || encode(sha256(convert_to(body, 'UTF8')), 'hex')), NULL, 'the_digest_of_the_body_is_the_id_of_what_has_none');
SELECT is(pg_temp.send('stripe', 'a=1') || ' ' || pg_temp.send('stripe', 'a=2'), replace('duplicate ' || encode(sha256('a=1'), 'hex') || ' accepted ' || encode(sha256('a=2'), 'hex'), '\x', ''),
          'which_is_that_of_every_copy');
SELECT is(pg_temp.send('standard', '{}', ''), 'invalid', 'standard_signs_the_id');
SELECT is((SELECT string_agg(pg_temp.receive(format, pg_temp.signed(format, decode('00ff0a0d80', 'hex'), 'binary'), decode('00ff0a0d80', 'hex')), ', ' ORDER BY format) FROM format),
          format('accepted binary, accepted binary, accepted %s, accepted binary, accepted %1$s', encode(sha256('\x00ff0a0d80'), 'hex')), 'body_of_any_bytes');
CREATE TEMP TABLE large AS SELECT convert_to('{"data": "' || repeat('0123456789', 130000) || '", "id": "evt_large", "event_id": "EvLarge"}', 'UTF8') AS body;
SELECT is((SELECT string_agg(pg_temp.receive(format, pg_temp.signed(format, body, 'large'), body), ', ' ORDER BY format) FROM format, large),
          'accepted large, accepted large, accepted EvLarge, accepted large, accepted evt_large', 'body_of_more_than_a_megabyte');
SELECT is((SELECT pg_temp.receive('stripe', pg_temp.signed('stripe', body), set_byte(body, 1000000, 65)) FROM large), 'invalid', 'of_which_one_byte_was_changed');
SELECT convert_to('{"a": ' || repeat('[', 100000) || repeat(']', 100000) || ', "id": "evt_deep"}', 'UTF8') AS deep \gset
SELECT is(pg_temp.receive('stripe', pg_temp.signed('stripe', :'deep'), :'deep'::bytea), 'accepted evt_deep', 'nested_as_deep_as_no_stack_holds');

-- Transactional.
BEGIN;
SELECT pg_temp.send('github', '{}', 'rolled back') AS within \gset
SELECT pg_temp.send('github', '{}', 'rolled back') AS again \gset
ROLLBACK;
SELECT is(:'within' || ', ' || :'again' || ', ' || pg_temp.send('github', '{}', 'rolled back'), 'accepted rolled back, duplicate rolled back, accepted rolled back',
          'rollback_makes_the_webhook_new_again');
BEGIN READ ONLY;
SELECT is(pg_temp.state_of($$ SELECT pg_temp.send('github', '{}', 'read only') $$) || ' ' || pg_temp.send('github', '{}', 'rolled back') || ' ' || pg_temp.send('stripe', '{}', age => '1 h') || ' '
          || pg_temp.send('github', '{}', 'read only', key => 'another secret'), '25006 duplicate rolled back stale ' || encode(sha256('{}'), 'hex') || ' invalid', 'read_only_transaction');
ROLLBACK;
CREATE TEMP TABLE seen AS SELECT 'github' AS source, pg_temp.signed('github', '{}', 'rolled back') AS headers;
SELECT is(pg_temp.least_wal_records($$ SELECT idem_webhook_receive(source, headers, '{}') FROM seen $$), 0::bigint, 'duplicates_do_not_write');

-- Secrets.
CREATE FUNCTION pg_temp.with_secret(given bytea, key bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    at text := pg_temp.seconds();
BEGIN
    PERFORM idem_webhook_source_set('form', 'standard', given);
    RETURN (SELECT outcome FROM idem_webhook_receive('form', jsonb_build_object('webhook-id', 'form', 'webhook-timestamp', at,
                'webhook-signature', 'v1,' || encode(pg_temp.hmac(key, convert_to('form.' || at || '.{}', 'UTF8')), 'base64')), '{}'));
END $$;
-- The secrets of test_signature_verification_with_unpadded_secret, standard-webhooks, libraries/python/tests/test_webhooks.py.
SELECT is((SELECT string_agg(DISTINCT pg_temp.with_secret(convert_to(prefix || secret || padding, 'UTF8'), decode(secret || missing, 'base64')), ' ')
             FROM (VALUES ('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', ''), ('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaQ', '='), ('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBg', '==')) AS v (secret, missing),
                  unnest('{"",whsec_}'::text[]) AS prefix, unnest(ARRAY['', missing]) AS padding), 'accepted duplicate', 'standard_secrets_with_and_without_prefix_and_padding');
SELECT is(pg_temp.with_secret('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr', decode('31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b006', 'hex')), 'duplicate', 'bits_that_are_left_over');
SELECT is(pg_temp.with_secret('\x00010203040506fffefdfcfbfa', '\x00010203040506fffefdfcfbfa') || ' ' || pg_temp.with_secret('not base64, is it?', 'not base64, is it?') || ' '
          || pg_temp.with_secret(decode(repeat('ab', 100), 'hex'), decode(repeat('ab', 100), 'hex')), 'duplicate duplicate duplicate', 'secrets_that_are_the_key');

-- Rotation.
SELECT idem_webhook_source_set('github', 'github', 'the next secret', keep_old => '1 hour');
SELECT is(pg_temp.send('github', '{}', 'old') || ', ' || pg_temp.send('github', '{}', 'new', key => 'the next secret'), 'accepted old, accepted new', 'old_and_new_secret_while_the_old_is_kept');
SELECT is(pg_temp.send('github', '{}', 'old', key => 'the next secret'), 'duplicate old', 'of_one_space_of_ids');
UPDATE idem_webhook_sources SET expires_at = now() WHERE expires_at < 'infinity';
SELECT is(pg_temp.send('github', '{}', 'later') || ', ' || pg_temp.send('github', '{}', 'later', key => 'the next secret'), 'invalid, accepted later', 'only_the_new_one_afterwards');
SELECT idem_webhook_source_set('github', 'github', 'a secret of the sender');
SELECT is(pg_temp.send('github', '{}', 'latest') || ', ' || pg_temp.send('github', '{}', 'latest', key => 'the next secret') || ' '
          || (SELECT count(*) FROM idem_webhook_sources WHERE source = 'github'), 'accepted latest, invalid 1', 'without_keep_old_the_old_one_goes_at_once');
SELECT idem_webhook_source_set('moving', 'slack', 'a secret of the sender'), idem_webhook_source_set('moving', 'github', 'the next secret', keep_old => '1 hour');
SELECT is(pg_temp.receive('moving', pg_temp.signed('slack', '{"event_id": "Ev9"}'), '{"event_id": "Ev9"}'::text) || ', '
          || pg_temp.receive('moving', pg_temp.signed('github', '{}', 'moved', key => 'the next secret'), '{}'::text) || ', '
          || pg_temp.receive('moving', pg_temp.signed('github', '{}', 'moved'), '{}'::text), 'accepted Ev9, accepted moved, invalid', 'each_secret_has_its_format');
-- The same secret with another format or tolerance is another secret.
SELECT idem_webhook_source_set('reformed', 'github', 'a secret of the sender'), idem_webhook_source_set('reformed', 'slack', 'a secret of the sender', keep_old => '1 hour');
SELECT is(pg_temp.receive('reformed', pg_temp.signed('github', '{}', 'before'), '{}'::text) || ', '
          || pg_temp.receive('reformed', pg_temp.signed('slack', '{"event_id": "Ev10"}'), '{"event_id": "Ev10"}'::text), 'accepted before, accepted Ev10', 'another_format_of_the_same_secret');
SELECT idem_webhook_source_set('stricter', 'stripe', 'a secret of the sender', tolerance => '1 hour'), idem_webhook_source_set('stricter', 'stripe', 'a secret of the sender', keep_old => '1 hour');
SELECT is(pg_temp.receive('stricter', pg_temp.signed('stripe', '{"id": "evt_2"}', age => '10 min'), '{"id": "evt_2"}'::text), 'accepted evt_2', 'another_tolerance_of_the_same_secret');
SELECT idem_webhook_source_set('stricter', 'stripe', 'a secret of the sender', keep_old => '1 hour');
SELECT is((SELECT count(*) FROM idem_webhook_sources WHERE source = 'stricter'), 2::bigint, 'an_equal_secret_is_replaced');
-- Signed with both secrets of a rotation: the newest says what the id is, in every session, however the rows lie.
CREATE FUNCTION pg_temp.signed_twice(body text, id text, age interval = '0') RETURNS jsonb LANGUAGE sql AS $$
    SELECT pg_temp.signed('standard', convert_to(body, 'UTF8'), id, age) || pg_temp.signed('stripe', convert_to(body, 'UTF8'), age => age)
$$;
SELECT idem_webhook_source_set('both', 'standard', 'a secret of the sender', tolerance => '1 hour'), idem_webhook_source_set('both', 'stripe', 'a secret of the sender', keep_old => '1 hour');
SELECT string_agg(pg_temp.receive('both', pg_temp.signed_twice('{"id": "evt_3"}', 'msg_3'), '{"id": "evt_3"}'::text), ', ') AS first \gset
UPDATE idem_webhook_sources SET source = source WHERE source = 'both' AND format = 'stripe';
SELECT is(:'first' || ', ' || pg_temp.receive('both', pg_temp.signed_twice('{"id": "evt_3"}', 'msg_3'), '{"id": "evt_3"}'::text), 'accepted evt_3, duplicate evt_3', 'signed_with_both_secrets');
SELECT is(pg_temp.receive('both', pg_temp.signed_twice('{"id": "evt_4"}', 'msg_4', '10 min'), '{"id": "evt_4"}'::text), 'accepted evt_4', 'fresh_by_one_of_them_and_named_by_the_newest');
SELECT idem_scope_set('webhook', ttl => '1 s');
SELECT pg_temp.receive('both', pg_temp.signed_twice('{"id": "evt_5"}', 'msg_5'), '{"id": "evt_5"}'::text) AS fifth \gset
SELECT is((SELECT expires_at > clock_timestamp() + interval '119 min' FROM idem_keys WHERE key = 'both:evt_5'), true, 'and_retained_for_as_long_as_a_copy_is_fresh_by_any');
SELECT idem_scope_drop('webhook');
BEGIN;
SELECT idem_webhook_source_drop('github') AS dropped \gset
SELECT pg_temp.send('github', '{}', 'dropped') AS within \gset
ROLLBACK;
SELECT is(:'dropped' || ', ' || :'within' || ', ' || pg_temp.send('github', '{}', 'dropped'), 't, invalid, accepted dropped', 'dropping_is_transactional');
SELECT is(idem_webhook_source_drop('moving')::text || idem_webhook_source_drop('moving')::text || ' ' || pg_temp.receive('moving', pg_temp.signed('slack', '{}'), '{}'::text),
          'truefalse invalid', 'dropped');

-- Arguments.
SELECT is((SELECT string_agg(call || ' ' || state, ', ')
             FROM (VALUES ('receive(NULL, ''{}'', '''')', '22004'), ('receive(''s'', NULL, '''')', '22004'), ('receive(''s'', ''{}'', NULL)', '22004'),
                          ('receive('''', ''{}'', '''')', 'ok'), ('receive(repeat(''s'', 5000), ''{}'', '''')', 'ok'), ('receive(''s'', ''[]'', '''')', '22023'),
                          ('receive(''s'', ''"x"'', '''')', '22023'), ('receive(''s'', ''null'', '''')', '22023'),
                          ('source_set(NULL, ''slack'', ''eight or more'')', '22004'), ('source_set(''s'', NULL, ''eight or more'')', '22004'), ('source_set(''s'', ''slack'', NULL)', '22004'),
                          ('source_set(''s'', ''slack'', ''eight or more'', NULL, NULL)', 'ok'), ('source_set('''', ''slack'', ''eight or more'')', '22023'),
                          ('source_set(repeat(''s'', 256), ''slack'', ''eight or more'')', '22023'), ('source_set(''s'', '''', ''eight or more'')', '22023'),
                          ('source_set(''s'', ''Slack'', ''eight or more'')', '22023'), ('source_set(''s'', ''slack'', ''short'')', '22023'), ('source_set(''s'', ''slack'', '''')', '22023'),
                          ('source_set(''s'', ''slack'', convert_to(repeat(''s'', 1025), ''UTF8''))', '22023'), ('source_set(''s'', ''standard'', ''whsec_'')', '22023'),
                          ('source_set(''s'', ''standard'', ''whsec_not in base64'')', '22023'), ('source_set(''s'', ''standard'', ''whsec_c2hvcnQ='')', '22023'),
                          ('source_set(''s'', ''slack'', ''eight or more'', ''-1 s'')', '22023'), ('source_set(''s'', ''slack'', ''eight or more'', tolerance => ''0'')', '22023'),
                          ('source_set(''s'', ''slack'', ''eight or more'', tolerance => ''8 days'')', '22023'), ('source_set(''s'', ''github'', ''eight or more'', tolerance => ''1 min'')', '22023'),
                          ('source_drop(NULL)', '22004'), ('source_drop('''')', '22023')) AS v (call, expected),
                  pg_temp.state_of('SELECT idem_webhook_' || call) AS state
            WHERE state <> expected), NULL, 'bad_arguments');

-- A row that was changed by hand. The operator can do what the hint says.
SELECT idem_webhook_source_set(source, 'slack', 'eight or more') FROM unnest('{dropped,set}'::text[]) AS source;
UPDATE idem_webhook_sources SET secret = convert_to(repeat('s', 65), 'UTF8') WHERE source = 'dropped';
SELECT throws_ok($$ SELECT pg_temp.send('github', '{}', 'damaged') $$, 'XX001', NULL, 'damaged_secret');
SELECT idem_webhook_source_drop('dropped');
UPDATE idem_webhook_sources SET format = 'none' WHERE source = 'set';
SELECT throws_ok($$ SELECT pg_temp.send('github', '{}', 'damaged') $$, 'XX001', NULL, 'damaged_format');
SELECT idem_webhook_source_set('set', 'slack', 'eight or more', keep_old => '1 hour');
SELECT is(pg_temp.send('github', '{}', 'damaged'), 'accepted damaged', 'damaged_ones_can_be_dropped_or_replaced');

-- Who, and what could carry a secret away.
BEGIN;
CREATE ROLE tap_user;
CREATE ROLE tap_operator;
CREATE ROLE tap_owner;
SELECT idem_grant('tap_user'), idem_grant('tap_operator', true);
SELECT string_agg(pg_temp.state_as(role::name, call), ' ' ORDER BY n) AS states
  FROM (VALUES (1, 'tap_user', 'SELECT idem.idem_webhook_source_set(''k'', ''slack'', ''eight or more'')'), (2, 'tap_user', 'SELECT idem.idem_webhook_source_drop(''k'')'),
               (3, 'tap_operator', 'SELECT idem.idem_webhook_source_set(''k'', ''slack'', ''eight or more'')'), (4, 'tap_operator', 'SELECT * FROM idem.idem_webhook_sources'),
               (5, 'tap_user', 'SELECT idem.idem_webhook_receive(''k'', ''{}'', '''')')) AS v (n, role, call) \gset
SELECT idem_scope_set('webhook', owner => 'tap_owner');
SELECT pg_temp.state_as('tap_user', 'SELECT idem.idem_webhook_receive(''k'', ''{}'', '''')') AS of_another \gset
ROLLBACK;
SELECT is(:'states'::text || ' ' || :'of_another', '42501 42501 ok 42501 ok 42501', 'operators_set_sources_and_nobody_reads_them');
SELECT is((SELECT count(*) FROM pg_extension, unnest(extconfig) t WHERE extname = 'idem' AND t = 'idem_webhook_sources'::regclass), 0::bigint, 'not_dumped');
ANALYZE idem_webhook_sources;
SELECT is((SELECT count(*) FROM pg_stats WHERE tablename = 'idem_webhook_sources'), 0::bigint, 'no_statistics');
BEGIN;
ALTER TABLE idem_webhook_sources ADD CHECK (false) NOT VALID;
SELECT pg_temp.state_of($$ SELECT idem_webhook_source_set('k', 'slack', 'eight or more') $$) AS state \gset
ROLLBACK;
SELECT is(:'state'::text, 'ok', 'no_constraint_can_tell_a_secret');

DELETE FROM idem_webhook_sources;
DELETE FROM idem_keys WHERE scope = 'webhook';
CALL pg_temp.clean('webhook');
SELECT * FROM finish();
