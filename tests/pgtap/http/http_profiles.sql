-- The profiles of idem_http_scope_set: what Idempotency-Key means in five protocols. tests/vectors/http_profiles.json has the requests, and names those that
-- the conformance suite sends, or that are not idem's.
\ir ../include/helpers.psql
SELECT plan(17);
CALL pg_temp.clean('vector:');

\set vectors `cat tests/vectors/http_profiles.json`
CREATE TEMP TABLE vector AS SELECT v ->> 'no' AS no, v AS vector FROM jsonb_array_elements(:'vectors') AS v;
CREATE TEMP TABLE fault (no text, place integer, fault text);

-- Sends the requests of a vector, each in a transaction of its own, and notes what is not as expected.
CREATE PROCEDURE pg_temp.send(no text, vector jsonb) LANGUAGE plpgsql AS $$
DECLARE
    settings CONSTANT jsonb := vector - '{no,profile,requests}'::text[];
    api      CONSTANT text := 'vector:' || no;
    requests CONSTANT jsonb[] := ARRAY(SELECT jsonb_array_elements(vector -> 'requests'));
    request  jsonb;
    answer   idem.idem_http_answer;
    stored   idem.idem_http_stored;
    held     bigint;
    space    text;
    key      text;
    outcome  text;
BEGIN
    PERFORM idem_http_scope_set(api, profile => vector ->> 'profile', documentation_url => settings ->> 'documentation_url',
        mismatch_status => (settings ->> 'mismatch_status')::integer, key_syntax => settings ->> 'key_syntax', missing_key => settings ->> 'missing_key',
        stored_headers => nullif(ARRAY(SELECT jsonb_array_elements_text(settings -> 'stored_headers')), '{}'),
        fingerprint_of => nullif(ARRAY(SELECT jsonb_array_elements_text(settings -> 'fingerprint_of')), '{}'));
    COMMIT;
    FOR i IN 1..cardinality(requests) LOOP
        request := requests[i];
        space := format('%s/%s %s', api, coalesce(request ->> 'client', '1'), request ->> 'operation');
        key := CASE WHEN request ? 'key' THEN request ->> 'key' WHEN vector ->> 'profile' = 'ietf' THEN '"k"' ELSE 'k' END;
        IF request ? 'finish' THEN
            stored := idem_http_complete(space, key, (request ->> 'finish')::integer, body => request ->> 'response', fence => held);
            INSERT INTO fault SELECT no, i, 'stored: ' || stored WHERE stored::text <> coalesce(request ->> 'stored', 'stored');
            COMMIT;
            CONTINUE;
        END IF;
        PERFORM set_config('transaction_read_only', coalesce(request ->> 'read_only', 'off'), true);
        BEGIN
            SELECT * INTO answer FROM idem_http_begin(space, coalesce(request ->> 'method', 'POST'), coalesce(request ->> 'route', '/'), key,
                CASE WHEN request ? 'body' THEN request ->> 'body' ELSE '{}' END, lease => CASE WHEN request ? 'hold' THEN interval '1 h' END,
                ttl => (request ->> 'ttl')::interval, content_type => 'application/json; charset=utf-8');
            outcome := answer.action;
        EXCEPTION WHEN OTHERS THEN
            outcome := SQLSTATE;
        END;
        INSERT INTO fault
        SELECT no, i, f.fault
          FROM (VALUES (CASE WHEN outcome <> request ->> 'expect' THEN 'is ' || outcome END),
                       (CASE WHEN answer.status <> (request ->> 'status')::integer THEN 'status ' || answer.status END),
                       (CASE WHEN answer.code IS DISTINCT FROM request ->> 'code' AND request ? 'code' THEN format('code %s', answer.code) END),
                       (CASE WHEN answer.retryable <> (request ->> 'retryable')::boolean THEN 'retryable' END),
                       (CASE WHEN NOT coalesce(answer.headers, '{}') @> coalesce(request -> 'headers', '{}') THEN format('headers %s', answer.headers) END),
                       (CASE WHEN NOT answer.headers ?| ARRAY(SELECT jsonb_array_elements_text(request -> 'has')) AND request ? 'has' THEN 'no such header' END),
                       (CASE WHEN answer.body <> request ->> 'body_is' THEN 'body ' || answer.body END),
                       (CASE WHEN request ? 'error' AND NOT answer.body::jsonb @> (request -> 'error') THEN 'error ' || answer.body END)) AS f (fault)
         WHERE f.fault IS NOT NULL;
        held := coalesce(answer.fence, held);
        IF request ? 'respond' THEN
            stored := idem_http_complete(space, key, (request ->> 'respond')::integer, request -> 'response_headers', request ->> 'response');
            INSERT INTO fault SELECT no, i, 'stored: ' || stored WHERE stored <> 'stored';
        END IF;
        IF request ? 'kept' THEN
            INSERT INTO fault SELECT no, i, 'kept for ' || (k.expires_at - k.completed_at) FROM idem.idem_keys k
             WHERE k.scope = space AND k.expires_at - k.completed_at <> (request ->> 'kept')::interval;
        END IF;
        IF request ? 'rollback' THEN ROLLBACK; ELSE COMMIT; END IF;
        IF request ? 'ttl' THEN PERFORM pg_sleep(0.005); END IF;
    END LOOP;
END $$;

SELECT is((SELECT count(*) FROM vector), 57::bigint, 'vectors');
SELECT is((SELECT string_agg(no, ' ') FROM vector WHERE NOT vector ? 'requests' AND (vector ->> 'where' NOT IN ('conformance', 'neither') OR vector ->> 'why' IS NULL)),
          NULL, 'what_is_not_sent_here_has_a_place_or_a_reason');
SELECT format('CALL pg_temp.send(%L, %L)', no, vector) FROM vector WHERE vector ? 'requests' \gexec
SELECT is((SELECT string_agg(format('%s.%s: %s', no, place, fault), '; ') FROM fault), NULL, 'answers');

-- Profiles and single settings.
SELECT is((SELECT string_agg(profile, ' ' ORDER BY profile) FROM idem_http_profiles()), 'acp ietf stripe ucp', 'profiles');
SELECT idem_http_scope_set('vector:p', profile => 'acp', mismatch_status => 409);
SELECT is((SELECT format('%s %s %s %s', mismatch_status, compare, ttl, unstored_statuses) FROM idem_scopes WHERE scope = 'vector:p'),
          '409 json 24:00:00 {5xx}', 'an_argument_takes_precedence');
SELECT idem_http_scope_set('vector:p', profile => 'ucp');
SELECT is((SELECT format('%s %s %s %s', mismatch_status, compare, ttl, echo_key) FROM idem_scopes WHERE scope = 'vector:p'),
          '409 bytes 48:00:00 f', 'another_profile_replaces_all_settings');
SELECT is((SELECT string_agg(call, ' | ') FROM unnest(ARRAY['profile => ''visa''', 'compare => ''xml''', 'key_syntax => ''''', 'error_format => ''html''', 'fingerprint_of => ''{}''',
                                                            'fingerprint_of => ''{head}''', 'ignored_methods => ''{a b}''']) call
            WHERE pg_temp.state_of(format('SELECT idem_http_scope_set(''vector:p'', %s)', call)) <> '22023'), NULL, 'words_that_are_none');

-- Fingerprints.
SELECT idem_http_scope_set('vector:json', compare => 'json'), idem_http_scope_set('vector:strict', key_syntax => 'string');
CREATE FUNCTION pg_temp.mark(scope text, body text, body_bytes bytea, type text, OUT mark bytea) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM idem_http_begin(scope, 'POST', '/', '"f"', body, body_bytes, content_type => type);
    SELECT fingerprint INTO mark FROM idem.idem_keys k WHERE k.scope = mark.scope AND key = 'f';
    DELETE FROM idem.idem_keys k WHERE k.scope = mark.scope;
END $$;
SELECT is((SELECT count(DISTINCT pg_temp.mark('vector:json', body, NULL, 'application/vnd.api+JSON ; v=1')) FROM unnest(ARRAY['{"a":1,"b":[":"]}', E'{ "b": ["\\u003a"], "a": 1.0 }']) body),
          1::bigint, 'equal_json');
SELECT is((SELECT count(DISTINCT pg_temp.mark('vector:json', body, NULL, type))
             FROM (VALUES ('{"a":1,"a":1}', 'application/json'), ('{"a":1}', 'application/json'), ('{"a": 1}', 'text/plain'), ('{"a":1}', NULL), ('{"a":', 'application/json'),
                          ('{"a":"\u0000"}', 'application/json'), ('{"b":{"a":1,"a":2}}', 'application/json'), ('{"b":{"a":2}}', 'application/json'), ('', 'application/json')) AS b (body, type)),
          9::bigint, 'what_is_no_json_is_compared_as_bytes');
SELECT is(pg_temp.mark('vector:json', NULL, convert_to('{"a": "ü"}', 'UTF8'), 'application/json'), pg_temp.mark('vector:json', E'{"a":"\\u00fc"}', NULL, 'application/json'), 'bytes_of_json');
SELECT is((SELECT string_agg(to_hex(get_byte(pg_temp.mark('vector:m' || n, '{}', NULL, 'application/json'), 0)), ' ' ORDER BY n)
             FROM (SELECT n, idem_http_scope_set('vector:m' || n, fingerprint_of => parts, compare => compare)
                     FROM (SELECT parts, compare, row_number() OVER (ORDER BY p.n, compare) AS n
                             FROM (VALUES (1, '{method,route,body}'::text[]), (2, '{body}'), (3, '{method,body}'), (4, '{route,body}'), (5, '{method}'), (6, '{route}'), (7, '{route,method}')) AS p (n, parts),
                                  (VALUES ('bytes'), ('json')) AS c (compare)) AS numbered) AS s), '1 8 2 5 3 6 4 7 9 9 a a b b', 'versions');
SELECT is(idem_http_key('k', 'vector:strict') IS NULL AND idem_http_key('"k"', 'vector:strict') = 'k' AND idem_http_key('"k"', 'vector:S1') = '"k"' AND idem_http_key('a, b', 'vector:S1/1') = 'a, b',
          true, 'syntax_of_the_scope');

-- The caller's own digest, of an upload: in place of route and body.
CREATE FUNCTION pg_temp.upload(method text, route text, digest bytea) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', action, code) FROM idem_http_begin('vector:upload', method, route, 'k', fingerprint => digest)
$$;
SELECT is(pg_temp.upload('POST', '/a', '\x01') || ' ' || idem_http_complete('vector:upload', 'k', 201), 'run stored', 'upload');
SELECT is((SELECT string_agg(pg_temp.upload(method, route, digest), ', ' ORDER BY n) FROM (VALUES (1, 'POST', '/b', '\x01'::bytea), (2, 'POST', '/a', '\x02'), (3, 'PUT', '/a', '\x01')) AS u (n, method, route, digest)),
          'replay, reject mismatch, reject mismatch', 'repeated_uploads');
SELECT is((SELECT format('%s %s', get_byte(fingerprint, 0), octet_length(fingerprint)) FROM idem.idem_keys WHERE scope = 'vector:upload'), '13 33', 'digest_is_hashed_in_the_same_form');
SELECT is((SELECT string_agg(pg_temp.state_of('SELECT idem_http_begin(''vector:upload'', ''POST'', ''/'', ''n'', ' || call || ')'), ' ')
             FROM unnest(ARRAY['''b'', fingerprint => ''\x01''', 'body_bytes => ''\x02'', fingerprint => ''\x01''', 'fingerprint => ''''', 'fingerprint => decode(repeat(''00'', 256), ''hex'')']) call),
          '22023 22023 22023 22023', 'digests_that_are_refused');

-- A released key without steps may be used for another request, however it was released.
SELECT idem_scope_set('vector:doubt', on_lease_expiry => 'manual');
SELECT fence AS released FROM idem_http_begin('vector:free', 'POST', '/', 'released', 'a', lease => '1 h') \gset
SELECT fence AS stepped FROM idem_http_begin('vector:free', 'POST', '/', 'stepped', 'a', lease => '1 h') \gset
SELECT action FROM idem_http_begin('vector:doubt', 'POST', '/', 'resolved', 'a', lease => '1 ms') \gset
SELECT idem_step('stepped', :stepped, 'paid', '1', scope => 'vector:free'), idem_release('released', :released, scope => 'vector:free'), idem_release('stepped', :stepped, scope => 'vector:free');
CALL pg_temp.sleep('5 ms');
SELECT code FROM idem_http_begin('vector:doubt', 'POST', '/', 'resolved', 'a') \gset
SELECT idem_resolve('resolved', 'released', scope => 'vector:doubt');
SELECT is((SELECT string_agg(concat_ws(' ', key, action, code), ', ' ORDER BY key)
             FROM (VALUES ('released', 'free'), ('stepped', 'free'), ('resolved', 'doubt')) AS k (key, space), idem_http_begin('vector:' || space, 'POST', '/', key, 'b', lease => '1 h')),
          'released run, resolved run, stepped reject mismatch', 'released_keys');
CALL pg_temp.clean('vector:');
SELECT * FROM finish();
