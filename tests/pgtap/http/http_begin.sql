-- idem_http_begin: which requests need a key, what is a key, and every answer.
\ir ../include/helpers.psql
SELECT plan(85);
CALL pg_temp.clean('http:');

-- An answer as far as a test can foretell it: NULL columns left out, "set" for the fence, of a problem its code.
CREATE FUNCTION pg_temp.answer(a idem.idem_http_answer) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('action', a.action, 'status', a.status,
                                                'code', CASE WHEN a.action = 'reject' THEN a.body::jsonb -> 'code' END,
                                                'body', CASE WHEN a.action = 'replay' THEN a.body END,
                                                'retry', a.headers -> 'Retry-After',
                                                'fence', CASE WHEN a.fence IS NOT NULL THEN 'set' END))
$$;
CREATE FUNCTION pg_temp.post(key text, body text DEFAULT NULL, route text DEFAULT '/orders', method text DEFAULT 'POST') RETURNS jsonb
LANGUAGE sql AS $$ SELECT pg_temp.answer(a) FROM idem_http_begin('http', method, route, key, body) a $$;

-- Methods. A key that is given is used, whatever the method; POST and PATCH need one.
SELECT is((SELECT string_agg(DISTINCT pg_temp.answer(a)::text, ' ')
             FROM unnest('{GET,HEAD,OPTIONS,TRACE,PUT,DELETE,CONNECT,LOCK,post,get}'::text[]) method, idem_http_begin('http', method, '/orders', NULL) a),
    '{"action": "run"}', 'other_methods_run_without_a_key');
SELECT is((SELECT string_agg(DISTINCT pg_temp.post(NULL, method => method)::text, ' ') FROM unnest('{POST,PATCH}'::text[]) method),
    '{"code": "key_missing", "action": "reject", "status": 400}', 'post_and_patch_need_a_key');
SELECT is((SELECT string_agg(DISTINCT pg_temp.post('http:' || method, method => method) ->> 'action', ' ')
             FROM unnest('{GET,PUT,DELETE,LOCK}'::text[]) method), 'run', 'key_of_any_method_is_claimed');
SELECT is((SELECT string_agg(DISTINCT pg_temp.post('http:' || method, method => method) ->> 'action', ' ')
             FROM unnest('{GET,PUT,DELETE,LOCK}'::text[]) method), 'replay', 'once');
SELECT is(pg_temp.post('"', method => 'GET') ->> 'code', 'key_malformed', 'malformed_key_of_any_method_is_rejected');
SELECT is(pg_temp.post('http:patch', method => 'PATCH'), '{"action": "run"}', 'patch_with_a_key_runs');
SELECT is(pg_temp.post('http:patch', method => 'PATCH') ->> 'action', 'replay', 'once');
SELECT throws_ok($$ SELECT idem_http_begin('http', 'PO ST', '/', 'http:x') $$, '22023', '"PO ST" is no HTTP method', 'what_is_no_method');
SELECT throws_ok($$ SELECT idem_http_begin('http', '', '/', 'http:x') $$, '22023', NULL, 'empty_method');

-- What is a key, and which are one.
SELECT is(idem_http_key('http:a'), 'http:a', 'bare_key');
SELECT is(idem_http_key('"http:a"'), 'http:a', 'quoted_key');
SELECT is(idem_http_key(E' \t"http:a"; x=1;y="z" '), 'http:a', 'key_with_parameters');
SELECT is(idem_http_key('"a\"b\\c, d"'), 'a"b\c, d', 'key_with_escapes');
SELECT is(idem_http_key(repeat('x', 1024)), repeat('x', 1024), 'longest_key');
SELECT is(idem_http_key(NULL), NULL, 'no_key');
CREATE TEMP TABLE malformed AS
    SELECT unnest(ARRAY['', '  ', '""', '"', '"a', 'a"', 'a"b', '"a"b"', '"a" "b"', 'a b', 'a,b', 'a, b', '"a", "b"', ',', '"a";', '"a";A',
                        '"a\n"', 'é', '"é"', '€uro', E'a\x01', E'"a\x7f"', E'a\nb', E'a\r\nX: y', repeat('x', 1025),
                        '"' || repeat('x', 1025) || '"', repeat('x', 100000)]) AS key;
SELECT is((SELECT string_agg(left(key, 20), ' | ') FROM malformed WHERE idem_http_key(key) IS NOT NULL), NULL, 'no_key_is_made_of_a_malformed_one');
SELECT is((SELECT string_agg(left(key, 20), ' | ') FROM malformed
            WHERE pg_temp.post(key) <> '{"code": "key_malformed", "action": "reject", "status": 400}'),
    NULL, 'malformed_key_is_rejected');
SELECT is(pg_temp.post('"http:quoted"'), '{"action": "run"}', 'quoted_key_runs');
SELECT is(pg_temp.post('http:quoted') ->> 'action', 'replay', 'its_bare_form_is_the_same_key');
SELECT is(pg_temp.post('http:bare'), '{"action": "run"}', 'bare_key_runs');
SELECT is(pg_temp.post('"http:bare";v=2') ->> 'action', 'replay', 'its_quoted_form_is_the_same_key');
SELECT is((SELECT array_agg(key ORDER BY key) FROM idem_keys WHERE key IN ('http:quoted', 'http:bare')), '{http:bare,http:quoted}'::text[],
    'the_key_is_stored_as_other_functions_take_it');

-- The fingerprint.
BEGIN;
SELECT is(pg_temp.post('http:pay', '{"amount": 5}'), '{"action": "run"}', 'fresh_request_runs');
SELECT idem_http_complete('http', 'http:pay', 201, '{"Location": "/orders/7"}', '{"id": 7}');
COMMIT;
SELECT is(pg_temp.post('http:pay', '{"amount": 5}'), '{"action": "replay", "status": 201, "body": "{\"id\": 7}"}', 'same_request_is_replayed');
SELECT is(headers, '{"Location": "/orders/7", "Idempotent-Replayed": "true"}', 'replay_says_that_it_is_one')
  FROM idem_http_begin('http', 'POST', '/orders', 'http:pay', '{"amount": 5}');
CREATE TEMP TABLE other AS
    SELECT * FROM (VALUES ('POST', '/orders', '{"amount": 6}'), ('POST', '/orders', NULL), ('POST', '/order', 's{"amount": 5}'),
                          ('POST', '/orders/', '{"amount": 5}'), ('PATCH', '/orders', '{"amount": 5}'), ('post', '/orders', '{"amount": 5}'),
                          ('POST', '/orders{"amount": 5}', NULL)) AS v (method, route, body);
SELECT is((SELECT string_agg(format('%s %s %s', method, route, body), ' | ') FROM other
            WHERE pg_temp.post('http:pay', body, route, method) <> '{"code": "mismatch", "action": "reject", "status": 422}'),
    NULL, 'another_method_route_or_body_is_a_mismatch');
SELECT idem_fingerprint_bytes('POST /orders'::bytea || '\x00' || '{"amount": 5}'::bytea) AS fingerprint \gset
SELECT is((SELECT fingerprint FROM idem_keys WHERE key = 'http:pay'), :'fingerprint', 'fingerprint_can_be_made_by_others');
SELECT is(pg_temp.post('http:empty', ''), '{"action": "run"}', 'empty_body');
SELECT is(pg_temp.post('http:empty', NULL) ->> 'action', 'replay', 'no_body_is_an_empty_one');
SELECT is(action, 'replay', 'nor_are_no_bytes') FROM idem_http_begin('http', 'POST', '/orders', 'http:empty', body_bytes => '');

-- A body is text or bytes. Drivers send strings as text, with whatever escapes their JSON has.
SELECT is(pg_temp.post('http:text', E'{"note": "a\\nb \\u00e9 \\\\ é"}'), '{"action": "run"}', 'body_with_escapes');
SELECT is(action, 'replay', 'same_bytes_are_the_same_body')
  FROM idem_http_begin('http', 'POST', '/orders', 'http:text', body_bytes => convert_to(E'{"note": "a\\nb \\u00e9 \\\\ é"}', 'UTF8'));
SELECT is(action, 'reject', 'other_bytes_are_another')
  FROM idem_http_begin('http', 'POST', '/orders', 'http:text', body_bytes => convert_to(E'{"note": "a\\nb \\u00e9 \\\\ é"}', 'LATIN1'));
BEGIN;
SELECT is(action, 'run', 'bytes_that_are_no_text') FROM idem_http_begin('http', 'POST', '/orders', 'http:bytes', body_bytes => '\x00ff');
COMMIT;
SELECT throws_ok($$ SELECT idem_http_begin('http', 'POST', '/', 'http:both', 'a', 'a') $$, '22023', 'body and body_bytes cannot be given together', 'not_both');
PREPARE untyped (unknown, unknown, unknown, unknown, unknown) AS SELECT * FROM idem_http_begin($1, $2, $3, $4, $5);
SELECT is((SELECT array_agg(t::text) FROM pg_prepared_statements p, unnest(p.parameter_types) t WHERE p.name = 'untyped'), '{text,text,text,text,text}',
    'untyped_parameters_are_text');
DEALLOCATE untyped;
SELECT is(pg_temp.post('http:utf8', route => '/größe'), '{"action": "run"}', 'route_of_any_text');
SELECT idem_fingerprint_bytes(convert_to('POST /größe', 'UTF8') || '\x00') AS fingerprint \gset
SELECT is((SELECT fingerprint FROM idem_keys WHERE key = 'http:utf8'), :'fingerprint', 'route_counts_as_utf8');
SELECT is(pg_temp.post('http:pay', '{"amount": 7}') - 'action' - 'status' - 'code', '{}', 'mismatch_reveals_nothing');

-- Problems: RFC 9457.
SELECT is(headers, '{"Content-Type": "application/problem+json"}', 'headers_of_a_problem') FROM idem_http_begin('http', 'POST', '/', NULL);
SELECT is(body::jsonb - 'detail', '{"type": "about:blank", "title": "Bad Request", "status": 400, "code": "key_missing"}', 'body_of_a_problem')
  FROM idem_http_begin('http', 'POST', '/', NULL);
SELECT is(body::jsonb - 'detail', '{"type": "about:blank", "title": "Unprocessable Content", "status": 422, "code": "mismatch"}', 'body_of_a_mismatch')
  FROM idem_http_begin('http', 'POST', '/', 'http:pay');
SELECT is((SELECT count(DISTINCT body::jsonb ->> 'detail') FROM unnest('{NULL,a b,http:pay}'::text[]) key, idem_http_begin('http', 'POST', '/', key)), 3::bigint,
    'each_has_a_detail_of_its_own');

SELECT is(convert_from(body_bytes, 'UTF8'), body, 'problem_as_bytes') FROM idem_http_begin('http', 'POST', '/', NULL);

-- Leased.
SELECT fence AS first FROM idem_http_begin('http', 'POST', '/pay', 'http:leased', lease => '1 hour') \gset
SELECT ok(:first > 0, 'leased_run_has_a_fence');
SELECT is(pg_temp.post('http:leased', route => '/pay') - 'retry', '{"code": "in_flight", "action": "reject", "status": 409}', 'leased_key_is_in_flight');
SELECT ok((headers ->> 'Retry-After')::int BETWEEN 3590 AND 3600, 'with_what_is_left_of_the_lease') FROM idem_http_begin('http', 'POST', '/pay', 'http:leased');
SELECT is(headers ->> 'Content-Type', 'application/problem+json', 'and_it_is_a_problem') FROM idem_http_begin('http', 'POST', '/pay', 'http:leased');
SELECT is(body::jsonb ->> 'title', 'Conflict', 'named_conflict') FROM idem_http_begin('http', 'POST', '/pay', 'http:leased');
SELECT fence FROM idem_http_begin('http', 'POST', '/pay', 'http:second', lease => '1 s') \gset
SELECT is(pg_temp.post('http:second', route => '/pay') ->> 'retry', '1', 'part_of_a_second_is_one');
SELECT (headers ->> 'Retry-After')::int AS told FROM idem_http_begin('http', 'POST', '/pay', 'http:leased') \gset
SELECT ok(:told >= pg_temp.seconds_from_now(lease_until), 'seconds_are_rounded_up') FROM idem_lookup('http:leased', 'http');
SELECT fence AS lapsed FROM idem_http_begin('http', 'POST', '/pay', 'http:lapsed', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT ok(action = 'run' AND fence > :lapsed, 'lapsed_lease_is_taken_over') FROM idem_http_begin('http', 'POST', '/pay', 'http:lapsed', lease => '1 hour');
SELECT lives_ok(format($$ SELECT idem_release(idem_http_key('"http:leased"'), %s, 'http') $$, :first), 'released_by_the_key_in_the_header');
SELECT is(pg_temp.post('http:leased', route => '/pay'), '{"action": "run"}', 'released_key_runs');

-- In doubt, and a scope's own codes.
SELECT idem_scope_set('http:s', on_lease_expiry => 'manual');
SELECT fence FROM idem_http_begin('http:s', 'POST', '/pay', 'http:doubt', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT is(pg_temp.answer(a), '{"code": "in_doubt", "action": "reject", "status": 409}', 'in_doubt_has_no_retry_after')
  FROM idem_http_begin('http:s', 'POST', '/pay', 'http:doubt') a;
SELECT is((SELECT state FROM idem_lookup('http:doubt', scope => 'http:s')), 'in_doubt', 'and_the_doubt_is_recorded');
SELECT fence FROM idem_http_begin('http:s', 'POST', '/pay', 'http:twice', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
BEGIN;
SELECT is(code, 'in_doubt', 'doubt_that_this_transaction_records') FROM idem_http_begin('http:s', 'POST', '/pay', 'http:twice');
SELECT is(code, 'in_doubt', 'and_answers_with_again') FROM idem_http_begin('http:s', 'POST', '/pay', 'http:twice');
COMMIT;
SELECT fence FROM idem_http_begin('http:s', 'POST', '/pay', 'http:held', lease => '1 hour') \gset
SELECT idem_http_scope_set('http:s', missing_key_status => 428, malformed_key_status => 422, mismatch_status => 409, in_flight_status => 503,
                           in_doubt_status => 500);
SELECT is((SELECT array_agg(status || ' ' || (body::jsonb ->> 'title') ORDER BY n)
             FROM unnest(ARRAY[NULL, 'a b', 'http:doubt', 'http:held', 'http:doubt'], ARRAY['/', '/', '/other', '/pay', '/pay']) WITH ORDINALITY AS k (key, route, n),
                  idem_http_begin('http:s', 'POST', route, key)),
    '{428 Precondition Required,422 Unprocessable Content,409 Conflict,503 Service Unavailable,500 Internal Server Error}', 'scope_has_codes_of_its_own');
SELECT idem_http_scope_set('http:s', in_doubt_status => 599);
SELECT is((SELECT array_agg(status) FROM unnest('{NULL,http:doubt}'::text[]) key, idem_http_begin('http:s', 'POST', '/pay', key)), '{428,599}',
    'null_leaves_a_code_as_is');
SELECT is(status, 400, 'other_scopes_keep_theirs') FROM idem_http_begin('http', 'POST', '/', NULL);
SELECT idem_http_scope_set('http:s', missing_key_status => 428), idem_scope_set('http:s', lease => '5 min') \g /dev/null
SELECT is((SELECT to_jsonb(s) FROM idem_scopes s WHERE scope = 'http:s') - '{scope,lease,ttl,keep_forever,max_response_size,owner,response_ttl,missing_key,keyed_methods,unstored_statuses,documentation_url,ignored_methods,key_syntax,compare,fingerprint_of,error_format,echo_key}'::text[],
    '{"on_lease_expiry": "manual", "missing_key_status": 428, "malformed_key_status": 422, "mismatch_status": 409, "in_flight_status": 503,
      "in_doubt_status": 599, "stored_headers": null}', 'and_the_rest_of_the_policy_stays');
SELECT is((SELECT string_agg(call, ' | ') FROM unnest(ARRAY['mismatch_status => 399', 'mismatch_status => 600', 'missing_key_status => 0', 'malformed_key_status => -1', 'in_flight_status => 200', 'in_doubt_status => 302']) call
            WHERE pg_temp.state_of(format('SELECT idem_http_scope_set(''http:s'', %s)', call)) <> '22023'), NULL, 'codes_are_errors');
SELECT throws_ok($$ SELECT idem_http_scope_set(NULL) $$, '22004', NULL, 'scope_of_codes_is_not_null');

-- Which requests need a key, and the page that rejections name.
SELECT idem_http_scope_set('http:m', keyed_methods => '{PUT,post}');
SELECT is((SELECT string_agg(method || ' ' || action, ', ' ORDER BY n) FROM unnest('{POST,PATCH,PUT,put,post}'::text[]) WITH ORDINALITY AS m (method, n),
                  idem_http_begin('http:m', method, '/', NULL)),
    'POST run, PATCH run, PUT reject, put run, post reject', 'methods_that_need_a_key_in_a_scope');
BEGIN;
SELECT is(action, 'run', 'key_of_another_method_is_used') FROM idem_http_begin('http:m', 'POST', '/', 'http:m');
COMMIT;
SELECT is(action, 'replay', 'and_replayed') FROM idem_http_begin('http:m', 'POST', '/', 'http:m');
SELECT idem_http_scope_set('http:m', missing_key => 'run');
SELECT is(action, 'run', 'request_without_a_key_may_run') FROM idem_http_begin('http:m', 'PUT', '/', NULL);
SELECT is(action, 'reject', 'but_not_one_with_a_malformed_key') FROM idem_http_begin('http:m', 'PUT', '/', '"');
SELECT idem_scope_reset('http:m', 'missing_key', 'keyed_methods') \gset
SELECT is(action, 'reject', 'both_can_be_taken_back') FROM idem_http_begin('http:m', 'POST', '/', NULL);
SELECT idem_http_scope_set('http:m', documentation_url => 'https://shop.example/keys?x=1#top');
SELECT is((SELECT string_agg(DISTINCT concat_ws(' ', headers ->> 'Link', headers ->> 'Content-Type', body::jsonb ->> 'type'), ' | ')
             FROM unnest('{NULL,a b,"http:m"}'::text[]) key, idem_http_begin('http:m', 'PATCH', '/other', key)),
    '<https://shop.example/keys?x=1#top>; rel="describedby" application/problem+json https://shop.example/keys?x=1#top', 'rejections_name_the_documentation');
SELECT is((SELECT string_agg(call, ' | ')
             FROM unnest(ARRAY['missing_key => ''maybe''', 'missing_key => ''''', 'keyed_methods => ''{PO ST}''', 'keyed_methods => ''{""}''',
                               'unstored_statuses => ''{5xx,6xx}''', 'unstored_statuses => ''{x}''', 'unstored_statuses => ''{50}''',
                               'documentation_url => ''/keys''', 'documentation_url => ''https://''', 'documentation_url => ''https://a/b>; rel=x''',
                               'documentation_url => E''https://a\r\nX: y''', 'documentation_url => ''javascript:1''', 'documentation_url => ''https://ä''',
                               'documentation_url => ''https://'' || repeat(''a'', 1000)']) call
            WHERE pg_temp.state_of(format('SELECT idem_http_scope_set(''http:m'', %s)', call)) <> '22023'), NULL, 'bad_policies');
SELECT is((SELECT string_agg(call, ' | ') FROM unnest(ARRAY['keyed_methods => ''{NULL}''', 'unstored_statuses => ''{NULL}''']) call
            WHERE pg_temp.state_of(format('SELECT idem_http_scope_set(''http:m'', %s)', call)) <> '22004'), NULL, 'null_items');

-- NULL arguments, and bad ones.
SELECT is((SELECT string_agg(format('%s: %s', call, state), ' | ')
             FROM (VALUES ('''http'', NULL, ''/'', ''http:n''', '22004'), ('''http'', ''POST'', NULL, ''http:n''', '22004'), ('NULL, ''POST'', ''/'', ''http:n''', '22004'),
                          (''''', ''POST'', ''/'', ''http:n''', '22023'), ('''http'', ''POST'', ''/'', ''http:n'', lease => ''0''', '22023'),
                          ('''http'', ''POST'', ''/'', ''http:n'', ttl => ''-1 s''', '22023'), ('''http'', ''POST'', ''/'', ''http:n'', wait => ''-1 s''', '22023'),
                          ('repeat(''s'', 256), ''GET'', ''/'', NULL', '22023')) AS v (call, expected),
                  pg_temp.state_of('SELECT idem_http_begin(' || call || ')') AS state
            WHERE state <> expected), NULL, 'bad_arguments');
SELECT is(pg_temp.state_of($$ SELECT idem_http_begin('http', 'POST', '/', 'http:nulls', NULL, NULL, NULL, NULL, NULL) $$), 'ok', 'lease_wait_and_ttl_may_be_null');
BEGIN;
SELECT action FROM idem_http_begin('http', 'POST', '/', 'http:ttl', ttl => '1 hour') \gset
COMMIT;
SELECT is((SELECT expires_at - created_at FROM idem_lookup('http:ttl', 'http')), '1 hour', 'ttl_counts');

-- Who may, and where.
-- Files that grant take turns: two sessions cannot change one function's privileges at the same time.
SELECT pg_advisory_lock(hashtext('idem pgtap grants')) \gset
BEGIN;
CREATE ROLE tap_http;
SELECT idem_scope_set('http:owned', owner => 'tap_http');
CREATE ROLE tap_http_stranger;
GRANT USAGE ON SCHEMA idem TO tap_http_stranger;
SELECT idem_grant('tap_http_stranger', true);
SELECT is((SELECT string_agg(format('%s: %s', call, state), ' | ')
             FROM unnest(ARRAY['begin(''http:owned'', ''GET'', ''/'', NULL)', 'begin(''http:owned'', ''POST'', ''/'', NULL)',
                               'begin(''http:owned'', ''POST'', ''/'', ''http:x'')', 'complete(''http:owned'', NULL, 200)',
                               'scope_set(''http:owned'', stored_headers => ''{}'')']) call,
                  pg_temp.state_as('tap_http_stranger', 'SELECT idem.idem_http_' || call) state
            WHERE state <> '42501'), NULL, 'scope_of_another_owner');
ROLLBACK;
BEGIN READ ONLY;
SELECT is(pg_temp.post('http:pay', '{"amount": 5}') ->> 'action', 'replay', 'read_only_transaction_replays');
SELECT is(pg_temp.post('http:pay', 'x') ->> 'code', 'mismatch', 'and_rejects');
SELECT is(pg_temp.post(NULL, method => 'GET') ->> 'action', 'run', 'and_runs_what_needs_no_key');
SELECT throws_ok($$ SELECT idem_http_begin('http', 'POST', '/', 'http:fresh') $$, '25006', NULL, 'but_claims_nothing');
ROLLBACK;
SELECT is(pg_temp.least_wal_records($$ SELECT * FROM idem_http_begin('http', 'POST', '/orders', 'http:pay', '{"amount": 5}') $$), 0::bigint, 'replay_writes_nothing');
BEGIN;
SELECT is(pg_temp.post('http:rolled back'), '{"code": "key_malformed", "action": "reject", "status": 400}', 'blanks_need_quotes');
SELECT is(pg_temp.post('"http:rolled back"'), '{"action": "run"}', 'claimed');
ROLLBACK;
SELECT is(pg_temp.post('"http:rolled back"'), '{"action": "run"}', 'rolled_back_request_runs_again');

CALL pg_temp.clean('http:');
SELECT * FROM finish();
