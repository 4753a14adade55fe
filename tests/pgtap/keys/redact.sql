-- idem_redact: the response goes, the key stays. That it waits for a holder is in isolation/specs/redact_waits.spec.
\ir ../include/helpers.psql
SELECT plan(29);
CALL pg_temp.clean('redact:');
CREATE FUNCTION pg_temp.answered(key text, response jsonb, scope text = '') RETURNS void LANGUAGE sql AS $$
    SELECT idem.idem_begin(key, idem.idem_fingerprint('1'), scope => scope);
    SELECT idem.idem_complete(key, response, 201, scope => scope);
$$;

SELECT pg_temp.answered('redact:a', '{"name": "Ada"}');
CREATE TEMP TABLE before AS SELECT * FROM idem_keys WHERE key = 'redact:a';
SELECT is(idem_redact('redact:a', 'redact:other'), false, 'key_of_another_scope');
SELECT is(idem_redact('redact:a'), true, 'response_is_removed');
SELECT is(pg_temp.ticket(t), '{"outcome": "completed", "attempt": 1, "status_code": 201, "response_omitted": true}', 'replays_say_that_it_is_omitted')
  FROM idem_begin('redact:a', idem_fingerprint('1')) t;
SELECT is((SELECT ROW(state, status_code, response, response_omitted)::text FROM idem_lookup('redact:a')), '(completed,201,,t)', 'so_does_lookup');
SELECT is((SELECT to_jsonb(k) - '{response,response_omitted}'::text[] FROM idem_keys k WHERE key = 'redact:a'),
    (SELECT to_jsonb(k) - '{response,response_omitted}'::text[] FROM before k), 'nothing_else_is_changed');
SELECT is(idem_claim('redact:a'), false, 'the_key_is_still_taken');
SELECT is((SELECT outcome FROM idem_begin('redact:a', idem_fingerprint('2')))::text, 'mismatch', 'the_fingerprint_stays');
SELECT is(idem_redact('redact:a'), false, 'nothing_is_left_to_remove');

-- No response.
SELECT is(idem_redact('redact:absent'), false, 'absent_key');
SELECT idem_claim('redact:plain');
SELECT is(idem_redact('redact:plain'), false, 'key_without_a_response');
SELECT is((SELECT response_omitted FROM idem_begin('redact:plain')), false, 'which_omits_none');
SELECT fence FROM idem_begin('redact:leased', lease => '1 hour') \gset
SELECT is(idem_redact('redact:leased'), false, 'key_in_progress');
SELECT idem_complete('redact:leased', '{"charge": 7}', 200, :fence);
SELECT is(idem_redact('redact:leased'), true, 'completed_lease');

-- The outputs of steps go with the response, once nobody needs them.
SELECT fence FROM idem_begin('redact:steps', lease => '1 hour') \gset
SELECT idem_step('redact:steps', :fence, 'charge', '{"card": "4242"}');
SELECT is(idem_redact('redact:steps'), false, 'steps_of_a_key_in_progress_stay');
SELECT idem_complete('redact:steps', fence => :fence);
SELECT is((SELECT steps FROM idem_lookup('redact:steps')), '{"charge": {"card": "4242"}}', 'and_after_completion');
SELECT is(idem_redact('redact:steps'), true, 'they_are_removed');
SELECT is((SELECT ROW(steps, response_omitted)::text FROM idem_lookup('redact:steps')), '(,f)', 'without_a_response_none_is_omitted');

-- An expired key still has its response.
SELECT pg_temp.answered('redact:expired', '"x"');
UPDATE idem_keys SET expires_at = now() WHERE key = 'redact:expired';
SELECT is(idem_redact('redact:expired'), true, 'expired_key');

-- A large response is in a table of its own.
SELECT pg_temp.answered('redact:large', (SELECT to_jsonb(string_agg(md5(i::text), '')) FROM generate_series(1, 2000) i));
SELECT idem_redact('redact:large');
SELECT ok(pg_column_size(k.*) < 200, 'large_response_is_no_longer_referred_to') FROM idem_keys k WHERE key = 'redact:large';

-- In a transaction.
BEGIN;
SELECT pg_temp.answered('redact:own', '"x"');
SELECT is(idem_redact('redact:own'), true, 'own_response');
COMMIT;
SELECT is((SELECT response_omitted FROM idem_begin('redact:own')), true, 'is_gone_after_the_commit');
SELECT pg_temp.answered('redact:back', '"x"');
BEGIN;
SELECT idem_redact('redact:back');
ROLLBACK;
SELECT is((SELECT response FROM idem_begin('redact:back')), '"x"', 'rolled_back_it_is_there');

-- HTTP.
BEGIN;
SELECT action FROM idem_http_begin('redact:http', 'POST', '/', 'redact:http');
COMMIT;
BEGIN;
SELECT action FROM idem_http_begin('redact:http', 'POST', '/', 'redact:shop', '1');
SELECT idem_http_complete('redact:http', 'redact:shop', 201, '{"Location": "/users/ada"}', '{"name": "Ada"}');
COMMIT;
SELECT idem_redact('redact:shop', 'redact:http');
SELECT is((SELECT (action, status, headers, body)::text FROM idem_http_begin('redact:http', 'POST', '/', 'redact:shop', '1')),
    '(replay,201,"{""Idempotent-Replayed"": ""true"", ""Idempotent-Body-Omitted"": ""true""}",)', 'http_replays_the_status');

-- Read only, and snapshots.
SELECT pg_temp.answered('redact:c', '"x"');
BEGIN READ ONLY;
SELECT is(pg_temp.state_of($$ SELECT idem_redact('redact:c') $$) || ' ' || idem_redact('redact:absent'), '25006 false', 'read_only_transaction');
COMMIT;

-- Bad arguments, and the owner of the scope.
SELECT is((SELECT string_agg(pg_temp.state_of(format('SELECT idem_redact(%s)', arguments)), ' ' ORDER BY n)
             FROM unnest(ARRAY['NULL', '''''', 'repeat(''x'', 1025)', '''redact:c'', repeat(''x'', 256)']) WITH ORDINALITY AS v (arguments, n)),
    '22004 22023 22023 22023', 'bad_arguments');
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_user;
CREATE ROLE tap_operator;
CREATE ROLE tap_owner;
SELECT idem_grant('tap_user'), idem_grant('tap_operator', true);
SELECT idem_scope_set('redact:owned', owner => 'tap_owner');
SELECT is(pg_temp.state_as('tap_user', $$ SELECT idem.idem_redact('redact:c') $$), '42501', 'applications_may_not');
SELECT is(pg_temp.state_as('tap_operator', $$ SELECT idem.idem_redact('x', 'redact:owned') $$), '42501', 'scope_of_another_owner');
SELECT is(pg_temp.state_as('tap_operator', $$ SELECT idem.idem_redact('redact:c') $$), 'ok', 'operators_may');
ROLLBACK;
SELECT is(idem_redact('redact:c'), true, 'a_refused_call_removed_nothing');

CALL pg_temp.clean('redact:');
SELECT * FROM finish();
