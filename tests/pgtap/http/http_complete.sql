-- idem_http_complete: what is stored of a response, and how it is replayed.
\ir ../include/helpers.psql
SELECT plan(72);
CALL pg_temp.clean('reply:');

-- Begins, completes and replays a request.
CREATE FUNCTION pg_temp.replay(key text, status int, headers jsonb, body text DEFAULT NULL, body_bytes bytea DEFAULT NULL, scope text DEFAULT 'reply')
RETURNS idem.idem_http_answer LANGUAGE plpgsql AS $$
DECLARE
    answer idem.idem_http_answer;
BEGIN
    PERFORM FROM idem_http_begin(scope, 'POST', '/', key);
    PERFORM idem_http_complete(scope, key, status, headers, body, body_bytes);
    SELECT * INTO answer FROM idem_http_begin(scope, 'POST', '/', key);
    RETURN answer;
END $$;

-- Status and body.
SELECT is(r, ROW('replay', 201, '{"Idempotent-Replayed": "true"}'::jsonb, '{"id": 7}', convert_to('{"id": 7}', 'UTF8'), NULL, NULL, NULL)::idem.idem_http_answer, 'status_and_body')
  FROM pg_temp.replay('"reply:a"', 201, NULL, '{"id": 7}') r;
SELECT is(response, '{"headers": {}, "text": "{\"id\": 7}"}', 'as_lookup_shows_them') FROM idem_lookup('reply:a', 'reply');
SELECT is((SELECT status_code FROM idem_lookup('reply:a', 'reply')), 201, 'with_the_status');
SELECT is((SELECT string_agg(format('%s: %s', n, body), ', ')
             FROM unnest(ARRAY['{"b":1,  "a":[]}', '{}', '[]', '', ' ', 'null', E'a\n\t"\\\r', '<html>ü€𝄞</html>', '{"headers": {}, "text": "x"}', repeat('x', 500000)]) WITH ORDINALITY AS b (given, n),
                  pg_temp.replay('reply:body' || n, 200, '{}', given)
            WHERE body IS DISTINCT FROM given OR body_bytes IS DISTINCT FROM convert_to(given, 'UTF8')), NULL, 'text_is_replayed_as_it_was_given');
SELECT is((SELECT string_agg(format('%s: %s', n, body_bytes), ', ')
             FROM unnest(ARRAY['', '\x00', '\xff00fe', '\x1f8b08000000', 'plain'::bytea, convert_to('{"b":1,  "a":[]}', 'UTF8'), convert_to('ü€𝄞', 'UTF8'), convert_to('ü', 'LATIN1'),
                               convert_to(repeat('x', 500000), 'UTF8'), decode(repeat('fe', 300000), 'hex')]) WITH ORDINALITY AS b (given, n),
                  pg_temp.replay('reply:bytes' || n, 200, '{}', body_bytes => given)
            WHERE body IS NOT NULL OR body_bytes IS DISTINCT FROM given), NULL, 'bytes_are_replayed_as_bytes');
SELECT is((SELECT string_agg(response - 'headers' #>> '{}', ' ' ORDER BY n)
             FROM unnest('{2,3,5,7}'::int[]) WITH ORDINALITY AS c (given, n), idem_lookup('reply:bytes' || given, 'reply')),
    '{"base64": "AA=="} {"base64": "/wD+"} {"utf8": "plain"} {"utf8": "ü€𝄞"}', 'bytes_that_are_text_are_stored_as_text');
SELECT is(r, ROW('replay', 204, '{"Idempotent-Replayed": "true"}'::jsonb, NULL, NULL, NULL, NULL, NULL)::idem.idem_http_answer, 'no_body_is_none') FROM pg_temp.replay('reply:nothing', 204, NULL) r;
SELECT throws_ok($$ SELECT pg_temp.replay('reply:both', 200, NULL, 'a', 'a') $$, '22023', 'body and body_bytes cannot be given together', 'text_or_bytes');
SELECT is((SELECT string_agg(status::text, ' ' ORDER BY status)
             FROM unnest('{200,204,302,404,500,599}'::int[]) given, pg_temp.replay('reply:status' || given, given, NULL, NULL)),
    '200 204 302 404 500 599', 'every_status_is_replayed');
SELECT is((SELECT string_agg(given::text, ' ') FROM unnest('{0,99,100,199,600,-1}'::int[]) given
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
  FROM pg_temp.replay('reply:listed', 200, '{"X-Request-Id": "1", "location": ["/a", "/b"], "ETag": "x", "X-Request": "2", "X-Request-Id2": "3"}', scope => 'reply:s');
SELECT idem_http_scope_set('reply:s', mismatch_status => 409);
SELECT is((SELECT stored_headers FROM idem_scopes WHERE scope = 'reply:s'), '{x-request-ID,Location}'::text[], 'null_leaves_the_list_as_is');
SELECT idem_http_scope_set('reply:s', stored_headers => '{}');
SELECT is(headers, '{"Idempotent-Replayed": "true"}', 'empty_list_stores_none') FROM pg_temp.replay('reply:none', 200, '{"Location": "/a"}', scope => 'reply:s');
SELECT is((SELECT string_agg(name, ' ') FROM unnest(ARRAY['Set-Cookie', 'set-cookie', 'SET-COOKIE2', 'Connection', 'keep-alive', 'Proxy-Connection', 'TE', 'Trailer',
                                                          'Transfer-Encoding', 'Upgrade', 'Idempotent-Replayed', '', 'a b', 'Location,Set-Cookie', E'X\r\nY', 'é']) name
            WHERE pg_temp.state_of(format('SELECT idem_http_scope_set(''reply:s'', stored_headers => ARRAY[''ETag'', %L])', name)) <> '22023'),
    NULL, 'fields_that_no_list_has');
SELECT throws_ok($$ SELECT idem_http_scope_set('reply:s', stored_headers => '{Set-Cookie}') $$, '22023', 'header field "Set-Cookie" cannot be stored', 'cookies_above_all');
SELECT throws_ok($$ SELECT idem_http_scope_set('reply:s', stored_headers => '{NULL}') $$, '22004', NULL, 'list_with_null');
UPDATE idem_scopes SET stored_headers = '{Set-Cookie,ETag,NULL,"ETag,set-cookie2"}' WHERE scope = 'reply:s';
SELECT is(headers, '{"ETag": "x", "Idempotent-Replayed": "true"}', 'never_a_cookie_even_when_the_table_says_so')
  FROM pg_temp.replay('reply:cookie', 200, '{"Set-Cookie": "a=1", "set-cookie": ["b=2"], "Set-Cookie2": "c", "ETag": "x"}', scope => 'reply:s');
SELECT is((SELECT response FROM idem_lookup('reply:cookie', scope => 'reply:s')), '{"headers": {"ETag": "x"}}', 'nor_in_the_table_of_keys');
UPDATE idem_scopes SET stored_headers = '{{ETag},{Link}}' WHERE scope = 'reply:s';
SELECT is(headers, '{"ETag": "x", "Idempotent-Replayed": "true"}', 'list_of_lists') FROM pg_temp.replay('reply:lists', 200, '{"ETag": "x", "Set-Cookie": "a"}', scope => 'reply:s');
SELECT is((SELECT string_agg(given, ' | ')
             FROM unnest(ARRAY['[]', '"Location: /"', '1', 'null', '[{"Location": "/"}]', '{"Location": true}', '{"Location": {}}',
                               '{"Location": [["/"]]}', '{"Location": ["/", false]}', '{"Location": "/\r\nSet-Cookie: a=1"}', '{"Location": "/\n"}',
                               '{"Location": "\r/"}', '{"Location": ["/", "a\nb"]}']) given
            WHERE pg_temp.state_of(format('SELECT pg_temp.replay(''reply:malformed'', 200, %L, NULL)', given)) <> '22023'), NULL, 'malformed_headers');
SELECT is((SELECT string_agg(given, ' | ')
             FROM unnest(ARRAY['{"ETag": "x", "etag": "x"}', '{"LOCATION": "/", "X-Other": "1", "Location": ["/"]}', '{"content-type": "a", "Content-Type": "b"}']) given
            WHERE pg_temp.state_of(format('SELECT pg_temp.replay(''reply:malformed'', 200, %L, NULL)', given)) <> '22023'), NULL, 'two_spellings_of_a_field');
SELECT is(headers, '{"etag": "x", "Idempotent-Replayed": "true"}', 'unless_one_is_null_or_not_stored')
  FROM pg_temp.replay('reply:spelled', 200, '{"ETag": null, "etag": "x", "X-Other": "1", "x-other": "2"}');
SELECT is((SELECT count(*) FROM idem_lookup('reply:malformed', 'reply')), 0::bigint, 'store_nothing');
DO $$ DECLARE told text; BEGIN
    PERFORM pg_temp.replay('reply:malformed', 200, '{"ETag": "x", "Location": [7, true]}');
EXCEPTION WHEN invalid_parameter_value THEN
    GET STACKED DIAGNOSTICS told = PG_EXCEPTION_DETAIL;
    PERFORM set_config('tap.told', told, false);
END $$;
SELECT is(current_setting('tap.told'), 'The value of "Location" is neither a string nor a number, nor an array of them.', 'the_error_names_the_field');
SELECT is(headers, '{"ETag": "1.50", "Link": ["7", "</a>"], "Retry-After": "30", "Last-Modified": [], "Idempotent-Replayed": "true"}', 'numbers_are_text_and_nulls_left_out')
  FROM pg_temp.replay('reply:numbers', 200, '{"Retry-After": 30, "ETag": 1.50, "Location": null, "Link": [null, 7, "</a>"], "Last-Modified": [null]}');
SELECT is(headers, '{"ETag": "x", "Idempotent-Replayed": "true"}', 'what_is_not_stored_is_not_looked_at')
  FROM pg_temp.replay('reply:unseen', 200, '{"ETag": "x", "X-Other": "a\r\nb", "": "/", "Lo cation": {}, "Date": true, "Set-Cookie": [["a"]], "Location\r\nX": "/", "é": null}');
SELECT is(headers, '{"Link": [], "Location": "", "Idempotent-Replayed": "true"}', 'empty_values')
  FROM pg_temp.replay('reply:empty', 200, '{"Location": "", "Link": []}', NULL);

-- A response that is too large: status and headers are there, the work is not done again.
SELECT idem_scope_set('reply:small', max_response_size => 200);
SET client_min_messages = error;
SELECT is(r, ROW('replay', 201, '{"Location": "/o/7", "Idempotent-Replayed": "true", "Idempotent-Body-Omitted": "true"}'::jsonb, NULL, NULL, NULL, NULL, NULL)::idem.idem_http_answer,
    'large_body_is_left_out')
  FROM pg_temp.replay('reply:large', 201, '{"Location": "/o/7", "content-type": "text/plain"}', repeat('x', 500), scope => 'reply:small') r;
SELECT ok(response_omitted, 'as_lookup_says') FROM idem_lookup('reply:large', scope => 'reply:small');
SELECT is(r, ROW('replay', 201, '{"Idempotent-Replayed": "true", "Idempotent-Body-Omitted": "true"}'::jsonb, NULL, NULL, NULL, NULL, NULL)::idem.idem_http_answer,
    'large_headers_are_left_out_too')
  FROM pg_temp.replay('reply:huge', 201, jsonb_build_object('Location', repeat('y', 500)), NULL, convert_to(repeat('x', 500), 'UTF8'), 'reply:small') r;
BEGIN;
SELECT is(idem_http_complete('reply:small', 'reply:told', 200, NULL, repeat('x', length(action) + 500)), 'omitted', 'and_the_caller_is_told')
  FROM idem_http_begin('reply:small', 'POST', '/', 'reply:told');
COMMIT;
RESET client_min_messages;

-- A body that the caller sends and does not give.
SELECT fence FROM idem_http_begin('reply', 'POST', '/', 'reply:stream', lease => '1 hour') \gset
SELECT throws_ok(format($$ SELECT idem_http_complete('reply', 'reply:stream', 200, NULL, '', NULL, %s, true) $$, :fence), '22023', 'a body that is omitted cannot be given', 'body_with_omit');
SELECT is(idem_http_complete('reply', 'reply:stream', 200, '{"ETag": "x", "Content-Type": "text/csv"}', fence => :fence, omit => true), 'omitted', 'body_is_omitted');
SELECT is(idem_http_complete('reply', 'reply:stream', 200, '{"ETag": "x", "Content-Type": "text/csv"}', fence => :fence, omit => true), 'omitted', 'and_again');
SELECT throws_ok(format($$ SELECT idem_http_complete('reply', 'reply:stream', 200, fence => %s) $$, :fence), 'ID001', NULL, 'response_without_a_body_is_another_one');
SELECT is(r, ROW('replay', 200, '{"ETag": "x", "Idempotent-Replayed": "true", "Idempotent-Body-Omitted": "true"}'::jsonb, NULL, NULL, NULL, NULL, NULL)::idem.idem_http_answer,
    'and_its_replay_says_so')
  FROM idem_http_begin('reply', 'POST', '/', 'reply:stream') r;

-- Completed without a response, or by other functions.
BEGIN;
SELECT action FROM idem_http_begin('reply', 'POST', '/', 'reply:claimed') \gset
SELECT throws_ok($$ SELECT idem_http_begin('reply', 'POST', '/', 'reply:claimed') $$, '55000', 'key "reply:claimed" is already open in this transaction', 'begun_again_while_open');
COMMIT;
SELECT is(r, ROW('replay', 204, '{"Idempotent-Replayed": "true"}'::jsonb, NULL, NULL, NULL, NULL, NULL)::idem.idem_http_answer, 'work_without_a_response_is_204')
  FROM idem_http_begin('reply', 'POST', '/', 'reply:claimed') r;
SELECT is((SELECT string_agg(concat_ws(' ', r.status, r.headers ->> 'Content-Type', r.body, length(r.body_bytes)), ' | ' ORDER BY n)
             FROM unnest(ARRAY[NULL, '"paid"', '{"headers": 1, "body": 2}', '{"headers": {}, "body": 2, "more": 3}', '[1]', '{"body": 2}']::jsonb[], ARRAY[202, 201, NULL, 200, NULL, 200])
                  WITH ORDINALITY AS c (response, given, n),
                  idem_http_begin('reply', 'POST', '/', 'reply:other' || n) AS first, idem_complete('reply:other' || n, response, given, scope => 'reply'), idem_http_begin('reply', 'POST', '/', 'reply:other' || n) r),
    '202 | 201 application/json "paid" 6 | 200 application/json {"body": 2, "headers": 1} 25 | '
    '200 application/json {"body": 2, "more": 3, "headers": {}} 37 | 200 application/json [1] 3 | 200 application/json {"body": 2} 11',
    'response_that_idem_complete_stored');

SELECT is((SELECT string_agg(concat_ws(' ', r.status, r.body), ', ' ORDER BY n)
             FROM unnest('{99999,199,-1,0,600,200,599,199}'::int[], array_fill('1'::text, '{7}') || NULL::text) WITH ORDINALITY AS c (given, response, n),
                  idem_http_begin('reply', 'POST', '/', 'reply:code' || n) AS first, idem_complete('reply:code' || n, response::jsonb, given, scope => 'reply'), idem_http_begin('reply', 'POST', '/', 'reply:code' || n) r),
    '200 1, 200 1, 200 1, 200 1, 200 1, 200 1, 599 1, 200', 'code_that_no_response_can_have_is_200');

-- What only looks like a stored response is a body: no line break, cookie or name comes back that could not be stored.
SELECT is((SELECT string_agg(r.headers::text || (r.body::jsonb IS NOT DISTINCT FROM response)::text, ' ' ORDER BY n)
             FROM unnest(ARRAY['{"headers": {"X": "a\r\nSet-Cookie: s=1"}, "text": "1"}', '{"headers": {"set-cookie": "s=1"}, "text": "1"}', '{"headers": {}, "text": 1}',
                               '{"headers": {}, "base64": "no base64!"}', '{"headers": {}, "text": "a", "utf8": "a"}',
                               '{"headers": {"idempotent-replayed": "false"}}', '{"headers": {"X": {"q": 1}}}', '{"headers": {"a b": "c"}}', '{"headers": {"ETag": "1", "etag": "1"}}']::jsonb[])
                  WITH ORDINALITY AS c (response, n),
                  idem_http_begin('reply', 'POST', '/', 'reply:like' || n) AS first, idem_complete('reply:like' || n, response, scope => 'reply'), idem_http_begin('reply', 'POST', '/', 'reply:like' || n) r),
    array_to_string(array_fill('{"Content-Type": "application/json", "Idempotent-Replayed": "true"}true'::text, '{9}'), ' '),
    'what_was_never_to_be_stored_is_not_replayed_as_headers');
-- A key that is no request's tells nothing of itself.
SELECT idem_execute('reply:secret', 'SELECT 42 AS secret', scope => 'reply'), idem_claim('reply:plain', scope => 'reply'),
       idem_begin('reply:leased plain', lease => '1 hour', scope => 'reply');
SELECT is((SELECT string_agg(format('%s %s', r.action, r.body::jsonb ->> 'code'), ', ') FROM unnest('{reply:secret,reply:plain,"\"reply:leased plain\""}'::text[]) k, idem_http_begin('reply', 'POST', '/', k) r),
    'reject mismatch, reject mismatch, reject mismatch', 'key_of_something_else');

-- Which key.
SELECT is(idem_http_complete('reply', NULL, 200, '{"Location": "/"}', '1'), 'unkeyed', 'no_key_is_no_op');
SELECT throws_ok($$ SELECT idem_http_complete('reply', 'reply:absent', 200, NULL, NULL) $$, 'ID001', NULL, 'key_that_was_not_begun');
SELECT throws_ok($$ SELECT idem_http_complete('reply', 'reply:a', 200, NULL, NULL) $$, 'ID001', NULL, 'key_that_was_committed_before');
SELECT throws_ok($$ SELECT idem_http_complete('reply', 'a, b', 200, NULL, NULL) $$, '22023', 'idempotency key is malformed', 'malformed_key');
SELECT throws_ok($$ SELECT idem_http_complete(NULL, NULL, 200, NULL, NULL) $$, '22004', NULL, 'scope_is_not_null');
SELECT throws_ok($$ SELECT idem_http_complete('', 'reply:a', 200) $$, '22023', 'scope must not be empty', 'scope_is_not_empty');

-- Leased.
SELECT fence FROM idem_http_begin('reply', 'POST', '/pay', 'reply:leased', lease => '1 hour') \gset
SELECT throws_ok($$ SELECT idem_http_complete('reply', 'reply:leased', 200, NULL, NULL) $$, 'ID001', NULL, 'leased_key_needs_its_fence');
SELECT throws_ok(format($$ SELECT idem_http_complete('reply', 'reply:leased', 200, NULL, NULL, NULL, %s) $$, :fence - 1), 'ID001', NULL, 'stale_fence');
SELECT lives_ok(format($$ SELECT idem_http_complete('reply', '"reply:leased"', 200, '{"ETag": "x"}', '1', NULL, %s) $$, :fence), 'right_fence');
SELECT lives_ok(format($$ SELECT idem_http_complete('reply', 'reply:leased', 200, '{"ETag": "x", "Date": "now"}', '1', NULL, %s) $$, :fence), 'same_response_again');
SELECT throws_ok(format($$ SELECT idem_http_complete('reply', 'reply:leased', 200, '{"ETag": "y"}', '1', NULL, %s) $$, :fence), 'ID001', NULL, 'another_response');
SELECT is((SELECT status || ' ' || body FROM idem_http_begin('reply', 'POST', '/pay', 'reply:leased')), '200 1', 'first_one_is_replayed');
SELECT fence FROM idem_http_begin('reply', 'POST', '/pay', 'reply:lapsed', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT fence AS successor FROM idem_http_begin('reply', 'POST', '/pay', 'reply:lapsed', lease => '1 hour') \gset
SELECT throws_ok(format($$ SELECT idem_http_complete('reply', 'reply:lapsed', 200, NULL, NULL, NULL, %s) $$, :fence), 'ID001', NULL, 'fence_of_who_was_replaced');
SELECT lives_ok(format($$ SELECT idem_http_complete('reply', 'reply:lapsed', 200, NULL, NULL, NULL, %s) $$, :successor), 'fence_of_the_successor');

-- Statuses that are not stored: a retry runs again.
SELECT idem_http_scope_set('reply:s', unstored_statuses => '{429,5XX}');
SELECT is((SELECT string_agg(given || ' ' || pg_temp.state_of(format('SELECT pg_temp.replay(%L, %s, NULL, ''busy'', scope => ''reply:s'')', 'reply:unstored' || given, given)), ', ')
             FROM unnest('{200,428,429,500,503,599}'::int[]) given), '200 ok, 428 ok, 429 25000, 500 25000, 503 25000, 599 25000', 'transaction_has_to_be_rolled_back');
SELECT is((SELECT count(*) FROM idem_keys WHERE key ~ '^reply:unstored(429|5..)$'), 0::bigint, 'its_key_is_free_then');
SELECT throws_ok($$ SELECT pg_temp.replay('reply:hint', 503, NULL, scope => 'reply:s') $$, '25000', 'a response with status 503 is not stored in scope "reply:s"', 'as_the_error_says');
SELECT fence FROM idem_http_begin('reply:s', 'POST', '/', 'reply:unstored', lease => '1 hour') \gset
SELECT throws_ok(format($$ SELECT idem_http_complete('reply:s', 'reply:unstored', 503, NULL, 'busy', NULL, %s) $$, :fence - 1), 'ID001', NULL, 'stale_fence_releases_nothing');
SELECT is(idem_http_complete('reply:s', 'reply:unstored', 503, NULL, 'busy', NULL, :fence), 'released', 'leased_key_is_released');
SELECT is((SELECT state FROM idem_lookup('reply:unstored', 'reply:s')), 'released', 'as_lookup_says');
SELECT is(action, 'run', 'and_a_retry_runs') FROM idem_http_begin('reply:s', 'POST', '/', 'reply:unstored', lease => '1 hour');

-- Rolled back, read-only.
BEGIN;
SELECT action FROM idem_http_begin('reply', 'POST', '/', 'reply:undone') \gset
SELECT idem_http_complete('reply', 'reply:undone', 200, NULL, '1');
ROLLBACK;
SELECT is((SELECT count(*) FROM idem_lookup('reply:undone', 'reply')), 0::bigint, 'response_is_rolled_back_with_the_work');
BEGIN READ ONLY;
SELECT is(headers ->> 'ETag', 'x', 'read_only_transaction_replays_headers') FROM idem_http_begin('reply', 'POST', '/pay', 'reply:leased');
SELECT throws_ok(format($$ SELECT idem_http_complete('reply', 'reply:second', 200, NULL, NULL, NULL, %s) $$, :successor), 'ID001', NULL, 'absent_key_in_a_read_only_transaction');
SELECT throws_ok($$ SELECT idem_http_scope_set('reply:s', mismatch_status => 400) $$, '25006', NULL, 'read_only_transaction_sets_no_codes');
ROLLBACK;
SELECT fence FROM idem_http_begin('reply', 'POST', '/pay', 'reply:writable', lease => '1 hour') \gset
BEGIN READ ONLY;
SELECT throws_ok(format($$ SELECT idem_http_complete('reply', 'reply:writable', 200, NULL, NULL, NULL, %s) $$, :fence), '25006', NULL, 'read_only_transaction_completes_nothing');
ROLLBACK;
SELECT is(is_superuser, 'on', 'the_session_is_as_before') FROM current_setting('is_superuser') AS is_superuser;

CALL pg_temp.clean('reply:');
SELECT * FROM finish();
