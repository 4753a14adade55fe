-- idem_http_complete: what is stored of a response, and how it is replayed.
\ir ../include/helpers.psql
SELECT plan(48);
CALL pg_temp.clean('reply:');

-- Begins, completes and replays a request.
CREATE FUNCTION pg_temp.replay(key text, status int, headers jsonb, body jsonb, scope text DEFAULT '') RETURNS idem.idem_http_answer LANGUAGE plpgsql AS $$
DECLARE
    answer idem.idem_http_answer;
BEGIN
    PERFORM FROM idem_http_begin('POST', '/', key, scope => scope);
    PERFORM idem_http_complete(key, status, headers, body, scope => scope);
    SELECT * INTO answer FROM idem_http_begin('POST', '/', key, scope => scope);
    RETURN answer;
END $$;

-- Status and body.
SELECT is(r, ROW('replay', 201, '{"Idempotent-Replayed": "true"}'::jsonb, '{"id": 7}'::jsonb, NULL)::idem.idem_http_answer, 'status_and_body')
  FROM pg_temp.replay('"reply:a"', 201, NULL, '{"id": 7}') r;
SELECT is(response, '{"headers": {}, "body": {"id": 7}}', 'as_lookup_shows_them') FROM idem_lookup('reply:a');
SELECT is((SELECT status_code FROM idem_lookup('reply:a')), 201, 'with_the_status');
SELECT is((SELECT string_agg(coalesce(body::text, 'none'), ' ' ORDER BY n)
             FROM unnest(ARRAY['[1, [2]]', '"text"', '1.50', 'true', 'null', '{}', '[]', '{"headers": {}, "body": 1}', NULL]::jsonb[]) WITH ORDINALITY AS b (given, n),
                  pg_temp.replay('reply:body' || n, 200, '{}', given)),
    '[1, [2]] "text" 1.50 true null {} [] {"body": 1, "headers": {}} none', 'body_of_any_shape');
SELECT is((SELECT string_agg(status::text, ' ') FROM unnest('{100,204,302,404,500,599}'::int[]) given, pg_temp.replay('reply:status' || given, given, NULL, NULL)),
    '100 204 302 404 500 599', 'every_status_is_replayed');
SELECT is((SELECT string_agg(given::text, ' ') FROM unnest('{0,99,600,-1}'::int[]) given
            WHERE pg_temp.state_of(format('SELECT pg_temp.replay(''reply:s%s'', %1$s, NULL, NULL)', given)) <> '22023'), NULL, 'what_is_no_status');
SELECT throws_ok($$ SELECT pg_temp.replay('reply:x', NULL, NULL, NULL) $$, '22004', 'status must not be null', 'no_status');

-- Header fields.
SELECT is(headers, '{"content-TYPE": "text/html", "Content-Language": "de", "content-location": "/c", "Content-Disposition": "inline", "LOCATION": "/o/7",
                     "ETag": "\"x\"", "Last-Modified": "y", "Link": ["</a>", "</b>"], "Retry-After": "5", "Idempotent-Replayed": "true"}', 'default_list')
  FROM pg_temp.replay('reply:default', 200, '{"content-TYPE": "text/html", "Content-Language": "de", "content-location": "/c", "Content-Disposition": "inline",
                     "LOCATION": "/o/7", "ETag": "\"x\"", "Last-Modified": "y", "Link": ["</a>", "</b>"], "Retry-After": "5",
                     "Set-Cookie": "session=1", "X-Request-Id": "1", "Date": "today", "Connection": "close", "Cache-Control": "no-store"}', '1');
SELECT is((SELECT string_agg(key, ' ') FROM idem_keys WHERE starts_with(key, 'reply:') AND response::text ~* 'session|x-request-id|close'), NULL,
    'what_is_not_on_it_is_not_stored');
SELECT idem_http_scope_set('reply:s', stored_headers => '{x-request-ID,Location}');
SELECT is(headers, '{"X-Request-Id": "1", "location": ["/a", "/b"], "Idempotent-Replayed": "true"}', 'list_of_the_scope')
  FROM pg_temp.replay('reply:listed', 200, '{"X-Request-Id": "1", "location": ["/a", "/b"], "ETag": "x", "X-Request": "2", "X-Request-Id2": "3"}', NULL, 'reply:s');
SELECT idem_http_scope_set('reply:s', mismatch_status => 409);
SELECT is((SELECT stored_headers FROM idem_scopes WHERE scope = 'reply:s'), '{x-request-ID,Location}'::text[], 'null_leaves_the_list_as_is');
SELECT idem_http_scope_set('reply:s', stored_headers => '{}');
SELECT is(headers, '{"Idempotent-Replayed": "true"}', 'empty_list_stores_none') FROM pg_temp.replay('reply:none', 200, '{"Location": "/a"}', NULL, 'reply:s');
SELECT is((SELECT string_agg(name, ' ') FROM unnest(ARRAY['Set-Cookie', 'set-cookie', 'SET-COOKIE2', 'Connection', 'keep-alive', 'Proxy-Connection', 'TE', 'Trailer',
                                                          'Transfer-Encoding', 'Upgrade', 'Idempotent-Replayed', '', 'a b', 'Location,Set-Cookie', E'X\r\nY', 'é']) name
            WHERE pg_temp.state_of(format('SELECT idem_http_scope_set(''reply:s'', stored_headers => ARRAY[''ETag'', %L])', name)) <> '22023'),
    NULL, 'fields_that_no_list_has');
SELECT throws_ok($$ SELECT idem_http_scope_set('reply:s', stored_headers => '{Set-Cookie}') $$, '22023', 'header field "Set-Cookie" cannot be stored', 'cookies_above_all');
SELECT throws_ok($$ SELECT idem_http_scope_set('reply:s', stored_headers => '{NULL}') $$, '22004', NULL, 'list_with_null');
UPDATE idem_scopes SET stored_headers = '{Set-Cookie,ETag,NULL,"ETag,set-cookie2"}' WHERE scope = 'reply:s';
SELECT is(headers, '{"ETag": "x", "Idempotent-Replayed": "true"}', 'never_a_cookie_even_when_the_table_says_so')
  FROM pg_temp.replay('reply:cookie', 200, '{"Set-Cookie": "a=1", "set-cookie": ["b=2"], "Set-Cookie2": "c", "ETag": "x"}', NULL, 'reply:s');
SELECT is((SELECT response FROM idem_lookup('reply:cookie', scope => 'reply:s')), '{"headers": {"ETag": "x"}}', 'nor_in_the_table_of_keys');
UPDATE idem_scopes SET stored_headers = '{{ETag},{Link}}' WHERE scope = 'reply:s';
SELECT is(headers, '{"ETag": "x", "Idempotent-Replayed": "true"}', 'list_of_lists') FROM pg_temp.replay('reply:lists', 200, '{"ETag": "x", "Set-Cookie": "a"}', NULL, 'reply:s');
SELECT is((SELECT string_agg(given, ' | ')
             FROM unnest(ARRAY['[]', '"Location: /"', '1', 'null', '[{"Location": "/"}]', '{"Location": 1}', '{"Location": null}', '{"Location": true}', '{"Location": {}}',
                               '{"Location": [1]}', '{"Location": [["/"]]}', '{"Location": ["/", null]}', '{"Location": "/\r\nSet-Cookie: a=1"}', '{"Location": "/\n"}',
                               '{"Location": "\r/"}', '{"Location": ["/", "a\nb"]}', '{"X-Other": "a\r\nb"}', '{"": "/"}', '{"Lo cation": "/"}',
                               '{"Location\r\nX": "/"}', '{"Location:": "/"}']) given
            WHERE pg_temp.state_of(format('SELECT pg_temp.replay(''reply:malformed'', 200, %L, NULL)', given)) <> '22023'), NULL, 'malformed_headers');
SELECT is((SELECT count(*) FROM idem_lookup('reply:malformed')), 0::bigint, 'store_nothing');
SELECT is(headers, '{"Link": [], "Location": "", "Idempotent-Replayed": "true"}', 'empty_values')
  FROM pg_temp.replay('reply:empty', 200, '{"Location": "", "Link": []}', NULL);

-- A response that is too large: status and headers are there, the work is not done again.
SELECT idem_scope_set('reply:small', max_response_size => 200);
SET client_min_messages = error;
SELECT is(r, ROW('replay', 201, '{"Location": "/o/7", "Idempotent-Replayed": "true"}'::jsonb, NULL, NULL)::idem.idem_http_answer, 'large_body_is_left_out')
  FROM pg_temp.replay('reply:large', 201, '{"Location": "/o/7"}', to_jsonb(repeat('x', 500)), 'reply:small') r;
SELECT ok(response_omitted, 'as_lookup_says') FROM idem_lookup('reply:large', scope => 'reply:small');
SELECT is(r, ROW('replay', 201, '{"Idempotent-Replayed": "true"}'::jsonb, NULL, NULL)::idem.idem_http_answer, 'large_headers_are_left_out_too')
  FROM pg_temp.replay('reply:huge', 201, jsonb_build_object('Location', repeat('y', 500)), to_jsonb(repeat('x', 500)), 'reply:small') r;
RESET client_min_messages;
SELECT is(length(body #>> '{}'), 500000, 'long_body_is_replayed_whole') FROM pg_temp.replay('reply:long', 200, NULL, to_jsonb(repeat('x', 500000)));

-- Completed without a response, or by other functions.
BEGIN;
SELECT is(r, ROW('replay', 204, '{"Idempotent-Replayed": "true"}'::jsonb, NULL, NULL)::idem.idem_http_answer, 'work_without_a_response_is_204')
  FROM idem_http_begin('POST', '/', 'reply:claimed') AS first, idem_http_begin('POST', '/', 'reply:claimed') r;
COMMIT;
SELECT is((SELECT string_agg(format('%s %s %s', r.status, r.headers, r.body), ' | ' ORDER BY n)
             FROM unnest(ARRAY[NULL, '"paid"', '{"headers": 1, "body": 2}', '{"headers": {}, "body": 2, "more": 3}', '[1]', '{"body": 2}']::jsonb[], ARRAY[202, 201, NULL, 200, NULL, 200])
                  WITH ORDINALITY AS c (response, code, n),
                  idem_http_begin('POST', '/', 'reply:other' || n) AS first, idem_complete('reply:other' || n, response, code), idem_http_begin('POST', '/', 'reply:other' || n) r),
    '202 {"Idempotent-Replayed": "true"}  | 201 {"Idempotent-Replayed": "true"} "paid" | 200 {"Idempotent-Replayed": "true"} {"body": 2, "headers": 1} | '
    '200 {"Idempotent-Replayed": "true"} {"body": 2, "more": 3, "headers": {}} | 200 {"Idempotent-Replayed": "true"} [1] | 200 {"Idempotent-Replayed": "true"} {"body": 2}',
    'response_that_idem_complete_stored');

-- What only looks like a stored response is a body: no line break, cookie or name comes back that could not be stored.
SELECT is((SELECT string_agg(r.headers::text || (r.body IS NOT DISTINCT FROM response)::text, ' ' ORDER BY n)
             FROM unnest(ARRAY['{"headers": {"X": "a\r\nSet-Cookie: s=1"}, "body": 1}', '{"headers": {"set-cookie": "s=1"}, "body": 1}',
                               '{"headers": {"idempotent-replayed": "false"}}', '{"headers": {"X": {"q": 1}}}', '{"headers": {"a b": "c"}}']::jsonb[])
                  WITH ORDINALITY AS c (response, n),
                  idem_http_begin('POST', '/', 'reply:like' || n) AS first, idem_complete('reply:like' || n, response), idem_http_begin('POST', '/', 'reply:like' || n) r),
    '{"Idempotent-Replayed": "true"}true {"Idempotent-Replayed": "true"}true {"Idempotent-Replayed": "true"}true {"Idempotent-Replayed": "true"}true {"Idempotent-Replayed": "true"}true',
    'what_was_never_to_be_stored_is_not_replayed_as_headers');
-- A key that is no request's tells nothing of itself.
SELECT idem_execute('reply:secret', 'SELECT 42 AS secret'), idem_claim('reply:plain'), idem_begin('reply:leased plain', lease => '1 hour');
SELECT is((SELECT string_agg(format('%s %s', r.action, r.body ->> 'code'), ', ') FROM unnest('{reply:secret,reply:plain,"\"reply:leased plain\""}'::text[]) k, idem_http_begin('POST', '/', k) r),
    'reject key_reused, reject key_reused, reject key_reused', 'key_of_something_else');

-- Which key.
SELECT lives_ok($$ SELECT idem_http_complete(NULL, 200, '{"Location": "/"}', '1') $$, 'no_key_is_no_op');
SELECT throws_ok($$ SELECT idem_http_complete('reply:absent', 200, NULL, NULL) $$, 'ID001', NULL, 'key_that_was_not_begun');
SELECT throws_ok($$ SELECT idem_http_complete('reply:a', 200, NULL, NULL) $$, 'ID001', NULL, 'key_that_was_committed_before');
SELECT throws_ok($$ SELECT idem_http_complete('a, b', 200, NULL, NULL) $$, '22023', 'idempotency key is malformed', 'malformed_key');
SELECT throws_ok($$ SELECT idem_http_complete(NULL, 200, NULL, NULL, scope => NULL) $$, '22004', NULL, 'scope_is_not_null');

-- Leased.
SELECT fence FROM idem_http_begin('POST', '/pay', 'reply:leased', lease => '1 hour') \gset
SELECT throws_ok($$ SELECT idem_http_complete('reply:leased', 200, NULL, NULL) $$, 'ID001', NULL, 'leased_key_needs_its_fence');
SELECT throws_ok(format($$ SELECT idem_http_complete('reply:leased', 200, NULL, NULL, %s) $$, :fence - 1), 'ID001', NULL, 'stale_fence');
SELECT lives_ok(format($$ SELECT idem_http_complete('"reply:leased"', 200, '{"ETag": "x"}', '1', %s) $$, :fence), 'right_fence');
SELECT lives_ok(format($$ SELECT idem_http_complete('reply:leased', 200, '{"ETag": "x", "Date": "now"}', '1', %s) $$, :fence), 'same_response_again');
SELECT throws_ok(format($$ SELECT idem_http_complete('reply:leased', 200, '{"ETag": "y"}', '1', %s) $$, :fence), 'ID001', NULL, 'another_response');
SELECT is((SELECT status || ' ' || body FROM idem_http_begin('POST', '/pay', 'reply:leased')), '200 1', 'first_one_is_replayed');
SELECT fence FROM idem_http_begin('POST', '/pay', 'reply:lapsed', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT fence AS successor FROM idem_http_begin('POST', '/pay', 'reply:lapsed', lease => '1 hour') \gset
SELECT throws_ok(format($$ SELECT idem_http_complete('reply:lapsed', 200, NULL, NULL, %s) $$, :fence), 'ID001', NULL, 'fence_of_who_was_replaced');
SELECT lives_ok(format($$ SELECT idem_http_complete('reply:lapsed', 200, NULL, NULL, %s) $$, :successor), 'fence_of_the_successor');

-- Rolled back, read-only.
BEGIN;
SELECT action FROM idem_http_begin('POST', '/', 'reply:undone') \gset
SELECT idem_http_complete('reply:undone', 200, NULL, '1');
ROLLBACK;
SELECT is((SELECT count(*) FROM idem_lookup('reply:undone')), 0::bigint, 'response_is_rolled_back_with_the_work');
BEGIN READ ONLY;
SELECT is(headers ->> 'ETag', 'x', 'read_only_transaction_replays_headers') FROM idem_http_begin('POST', '/pay', 'reply:leased');
SELECT throws_ok(format($$ SELECT idem_http_complete('reply:second', 200, NULL, NULL, %s) $$, :successor), 'ID001', NULL, 'absent_key_in_a_read_only_transaction');
SELECT throws_ok($$ SELECT idem_http_scope_set('reply:s', 400) $$, '25006', NULL, 'read_only_transaction_sets_no_codes');
ROLLBACK;
SELECT fence FROM idem_http_begin('POST', '/pay', 'reply:writable', lease => '1 hour') \gset
BEGIN READ ONLY;
SELECT throws_ok(format($$ SELECT idem_http_complete('reply:writable', 200, NULL, NULL, %s) $$, :fence), '25006', NULL, 'read_only_transaction_completes_nothing');
ROLLBACK;
SELECT is(is_superuser, 'on', 'the_session_is_as_before') FROM current_setting('is_superuser') AS is_superuser;

CALL pg_temp.clean('reply:');
SELECT * FROM finish();
