-- Texts are compared, and patterns are matched, in the collation "C": that of an argument could be one in which "post" is "POST". Strings with
-- a backslash are E'...': others depend on the caller's standard_conforming_strings.

-- --- Fields and methods ---------------------------------------------------------------------------------------------------------------

-- A method or a field name (RFC 9110, section 5.6.2).
CREATE FUNCTION _idem_is_http_token(given text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT given COLLATE "C" ~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]+$'
$$;

-- A field that is stored whatever a scope lists, and one that never is (extension/src/core/http_message.hpp).
CREATE FUNCTION _idem_http_is_always_stored(name text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(name COLLATE "C") IN ('content-type', 'content-encoding')
$$;

CREATE FUNCTION _idem_http_is_never_stored(name text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(name COLLATE "C") IN ('set-cookie', 'set-cookie2', 'connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding',
                                       'upgrade', 'idempotent-replayed', 'idempotent-body-omitted')
$$;

-- A name that a JSON object of fields has in two spellings, in lower case; NULL: none. Fields that are null do not count.
CREATE FUNCTION _idem_http_repeated(fields jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(f.key COLLATE "C") FROM jsonb_each(CASE jsonb_typeof(fields) WHEN 'object' THEN fields END) f
     WHERE jsonb_typeof(f.value) <> 'null' GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 LIMIT 1
$$;

-- Whether a response can end with the status (RFC 9110, section 15): 1xx responses precede another one.
CREATE FUNCTION _idem_http_is_final(status integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT status BETWEEN 200 AND 599
$$;

-- The items of a list of a scope. A list that was changed by hand may have commas in its items.
CREATE FUNCTION _idem_http_items(list text[]) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT string_to_array(array_to_string(list, ','), ',')
$$;

-- What is wrong with one value of a field, as the end of a sentence; NULL: nothing.
CREATE FUNCTION _idem_http_fault(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE jsonb_typeof(value)
           WHEN 'string' THEN CASE WHEN (value #>> '{}') COLLATE "C" ~ E'[\r\n]' THEN 'has a line break in it' END
           WHEN 'number' THEN NULL
           WHEN 'null' THEN NULL
           ELSE 'is neither a string nor a number, nor an array of them' END
$$;

-- The key in an Idempotency-Key field; NULL: the field is malformed (extension/src/core/http_key.hpp).
CREATE FUNCTION _idem_http_key(field text, syntax text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    given      text COLLATE "C" := btrim(field, E' \t');
    quoted     text COLLATE "C";
    parameters text COLLATE "C";
BEGIN
    IF syntax = 'opaque' COLLATE "C" THEN
        RETURN CASE WHEN octet_length(given) BETWEEN 1 AND 1024 AND given !~ E'[\\x01-\\x1f\\x7f]' THEN given END;
    ELSIF left(given, 1) <> '"' THEN
        RETURN CASE WHEN octet_length(given) <= 1024 AND given ~ '^[!#-+.-~-]+$' AND syntax IS DISTINCT FROM 'string' COLLATE "C" THEN given END;
    END IF;
    quoted := substring(given FROM E'^"((?:[ !#-\\[\\]-~]|\\\\["\\\\])*)"');
    parameters := substr(given, length(quoted) + 3);
    quoted := regexp_replace(quoted, E'\\\\(.)', E'\\1', 'g');
    IF quoted IS NULL OR octet_length(quoted) NOT BETWEEN 1 AND 1024 THEN
        RETURN NULL;
    END IF;
    -- The values: a string, an integer, a decimal, a token, bytes, a boolean, a date, a display string.
    IF parameters <> '' AND parameters !~ (E'^(?:; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[ !#-\\[\\]-~]|\\\\["\\\\])*"|-?[0-9]{1,15}|-?[0-9]{1,12}\\.[0-9]{1,3}'
            || E'|[A-Za-z*][A-Za-z0-9:/!#$%&''*+.^_`|~-]*|:[A-Za-z0-9+/=]*:|\\?[01]|@-?[0-9]{1,15}|%"(?:[ !#$&-~]|%[0-9a-f]{2})*"))?)*$') THEN
        RETURN NULL;
    END IF;
    RETURN quoted;
END
$$;

CREATE FUNCTION idem_http_key LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM _idem_check_scope_size(scope) WHERE idempotency_key IS NOT NULL;
    RETURN _idem_http_key(idempotency_key, (_idem_http_settings(scope)).key_syntax);
END
$$;

-- --- Arguments ------------------------------------------------------------------------------------------------------------------------

-- A scope's settings on HTTP: those of its row, and of its family's row where it has none.
CREATE FUNCTION _idem_http_settings(wanted text) RETURNS idem_scopes LANGUAGE plpgsql STABLE INNER AS $$
DECLARE
    settings idem_scopes;
BEGIN
    SELECT coalesce(s.missing_key, f.missing_key), coalesce(s.keyed_methods, f.keyed_methods), coalesce(s.unstored_statuses, f.unstored_statuses),
           nullif(coalesce(s.documentation_url, f.documentation_url), ''), coalesce(s.missing_key_status, f.missing_key_status),
           coalesce(s.malformed_key_status, f.malformed_key_status), coalesce(s.mismatch_status, f.mismatch_status),
           coalesce(s.in_flight_status, f.in_flight_status), coalesce(s.in_doubt_status, f.in_doubt_status), coalesce(s.stored_headers, f.stored_headers),
           coalesce(s.ignored_methods, f.ignored_methods), coalesce(s.key_syntax, f.key_syntax), coalesce(s.compare, f.compare),
           coalesce(s.fingerprint_of, f.fingerprint_of), coalesce(s.error_format, f.error_format), coalesce(s.echo_key, f.echo_key)
      INTO settings.missing_key, settings.keyed_methods, settings.unstored_statuses, settings.documentation_url, settings.missing_key_status,
           settings.malformed_key_status, settings.mismatch_status, settings.in_flight_status, settings.in_doubt_status, settings.stored_headers,
           settings.ignored_methods, settings.key_syntax, settings.compare, settings.fingerprint_of, settings.error_format, settings.echo_key
      FROM (SELECT wanted AS scope) w LEFT JOIN ONLY idem_scopes s ON s.scope = w.scope COLLATE "C"
           LEFT JOIN ONLY idem_scopes f ON f.scope = _idem_family(w.scope) COLLATE "C";
    RETURN settings;
END
$$;

CREATE FUNCTION _idem_http_check_scope(scope text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF scope IS NULL THEN
        PERFORM _idem_null('scope');
    ELSIF octet_length(scope) = 0 THEN
        PERFORM _idem_invalid('scope must not be empty', hint => 'Name the client and the API, such as ''shop:17'': clients choose their keys, and those '
            'of two clients must not meet.');
    END IF;
    PERFORM _idem_check_scope_size(scope);
END
$$;

CREATE FUNCTION _idem_http_check_body(body text, body_bytes bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF body IS NOT NULL AND body_bytes IS NOT NULL THEN
        PERFORM _idem_invalid('body and body_bytes cannot be given together', hint => 'Give the body as text or as bytes, and NULL for the other.');
    END IF;
END
$$;

-- A digest of the caller's, in place of route and body.
CREATE FUNCTION _idem_http_check_digest(digest bytea, body text, body_bytes bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _idem_check_fingerprint(digest);
    IF digest IS NOT NULL AND (body IS NOT NULL OR body_bytes IS NOT NULL) THEN
        PERFORM _idem_invalid('body and fingerprint cannot be given together', hint => 'The fingerprint stands for the body: give NULL for it.');
    END IF;
END
$$;

-- --- Fingerprints ---------------------------------------------------------------------------------------------------------------------

-- Whether a Content-Type names JSON (RFC 6839).
CREATE FUNCTION _idem_http_is_json(content_type text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(btrim(split_part(content_type COLLATE "C", ';', 1), E' \t')) ~ '^application/json$|.[+]json$'
$$;

-- How many members all objects in a JSON text have, those of one name as often as they are there. Outside of strings, a colon stands in a member alone.
CREATE FUNCTION _idem_http_members(written text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT length(regexp_replace(written COLLATE "C", E'"(?:[^"\\\\]|\\\\.)*"|[^":]+', '', 'g'))
$$;

-- The canonical form of a body. NULL: jsonb refuses it, or it has two members of one name, of which jsonb would keep the last.
CREATE FUNCTION _idem_http_canonical(body text, body_bytes bytea) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    written  text;
    document jsonb;
BEGIN
    written := coalesce(body, convert_from(body_bytes, 'UTF8'));
    document := written::jsonb;
    RETURN CASE WHEN _idem_http_members(written) = _idem_http_members(document::text) THEN _idem_canonical(document) END;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;

-- No method contains a blank and no text a zero byte, so different requests have different bytes. The planner puts it into the statement.
CREATE FUNCTION _idem_http_mark(version integer, request text, body bytea) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT set_byte(E'\\x00', 0, version) || sha256(convert_to(request, 'UTF8') || E'\\x00'::bytea || body)
$$;

-- The fingerprint of a request in a scope that has settings, or with a digest of the caller's (extension/src/http/http_fingerprint.cpp, with the versions).
CREATE FUNCTION _idem_http_fingerprint(settings idem_scopes, method text, route text, body text, body_bytes bytea, digest bytea, content_type text)
RETURNS bytea LANGUAGE plpgsql STABLE AS $$
DECLARE
    parts     CONSTANT text[] COLLATE "C" := coalesce(settings.fingerprint_of, '{method,route,body}');
    version   CONSTANT integer := ('method' = ANY (parts))::integer + 2 * ('route' = ANY (parts))::integer + 4 * ('body' = ANY (parts))::integer;
    request   text := CASE WHEN 'method' = ANY (parts) THEN method ELSE '' END || ' ';
    bytes     bytea := coalesce(convert_to(body, 'UTF8'), body_bytes, '');
    canonical text;
BEGIN
    IF digest IS NOT NULL THEN
        RETURN _idem_http_mark(12 + version % 2, request, digest);
    END IF;
    request := request || CASE WHEN 'route' = ANY (parts) THEN route ELSE '' END;
    IF version < 4 THEN
        RETURN _idem_http_mark(8 + version, request, '');
    ELSIF settings.compare = 'json' THEN
        IF _idem_http_is_json(content_type) AND (body IS NOT NULL OR body_bytes IS NOT NULL) THEN
            canonical := _idem_http_canonical(body, body_bytes);
        END IF;
        RETURN _idem_http_mark(1 + version, request, coalesce(convert_to('j' || canonical, 'UTF8'), 'b'::bytea || bytes));
    END IF;
    RETURN _idem_http_mark(CASE version WHEN 7 THEN 1 ELSE version - 2 END, request, bytes);
END
$$;

-- --- Responses ------------------------------------------------------------------------------------------------------------------------

-- A response as the key's row has it: {"headers": {...}}, and with a body one of "text" (it was given as text), "utf8" (it was given as bytes
-- that are text) and "base64" (other bytes). `stored_headers`: the scope's list.
CREATE FUNCTION _idem_http_response(headers jsonb, body text, body_bytes bytea, stored_headers text[]) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    names    text[] := CASE WHEN stored_headers IS NULL
                       THEN '{content-language,content-location,content-disposition,location,etag,last-modified,link,retry-after}'
                       ELSE _idem_http_items(ARRAY[lower(array_to_string(stored_headers, ',') COLLATE "C")]) END;
    response jsonb := '{}';
    field    record;
    fault    text;
BEGIN
    IF jsonb_typeof(headers) <> 'object' THEN
        PERFORM _idem_invalid('headers are malformed', 'They are not a JSON object.', 'Give names and values, such as ''{"Location": "/orders/7"}''.');
    END IF;
    FOR field IN SELECT h.key AS name, h.value, jsonb_typeof(h.value) = 'array' AS is_array FROM jsonb_each(headers) h
                  WHERE jsonb_typeof(h.value) <> 'null' AND NOT _idem_http_is_never_stored(h.key)
                    AND (_idem_http_is_always_stored(h.key) OR lower(h.key COLLATE "C") = ANY (names)) LOOP
        IF field.is_array THEN
            fault := (SELECT _idem_http_fault(e.value) FROM jsonb_array_elements(field.value) AS e (value)
                       WHERE _idem_http_fault(e.value) IS NOT NULL LIMIT 1);
        ELSE
            fault := _idem_http_fault(field.value);
        END IF;
        IF fault IS NOT NULL THEN
            PERFORM _idem_invalid('headers are malformed', format('The value of "%s" %s.', field.name, fault),
                'Give names and values, such as ''{"Location": "/orders/7"}''.');
        END IF;
        response := response || jsonb_build_object(field.name, CASE WHEN field.is_array
            THEN (SELECT coalesce(jsonb_agg(e.value #>> '{}' ORDER BY e.place), '[]')
                    FROM jsonb_array_elements(field.value) WITH ORDINALITY AS e (value, place) WHERE jsonb_typeof(e.value) <> 'null')
            ELSE to_jsonb(field.value #>> '{}') END);
    END LOOP;
    fault := _idem_http_repeated(response);
    IF fault IS NOT NULL THEN
        PERFORM _idem_invalid('headers are malformed', format('The field "%s" is given in two spellings.', fault),
            'Give names and values, such as ''{"Location": "/orders/7"}''.');
    END IF;
    response := jsonb_build_object('headers', response);
    IF body IS NOT NULL THEN
        RETURN response || jsonb_build_object('text', body);
    ELSIF body_bytes IS NULL THEN
        RETURN response;
    END IF;
    IF getdatabaseencoding() = 'UTF8' THEN
        BEGIN
            RETURN response || jsonb_build_object('utf8', convert_from(body_bytes, 'UTF8'));
        EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
            NULL;
        END;
    END IF;
    RETURN response || jsonb_build_object('base64', replace(encode(body_bytes, 'base64'), E'\n', ''));
END
$$;

-- The answer that replays a stored response. One that idem_http_complete cannot have stored is a body, as JSON. One without its body says so. echoed: the Idempotency-Key; NULL: not sent.
CREATE FUNCTION _idem_http_replay(stored idem_keys, echoed text) RETURNS idem_http_answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    response jsonb := stored.response;
    answer   idem_http_answer;
    is_ours  boolean := false;
BEGIN
    answer.action := 'replay';
    -- idem_complete stores any number as the code, and no response can have some of them.
    answer.status := CASE WHEN _idem_http_is_final(stored.status_code) THEN stored.status_code
                          WHEN stored.status_code IS NULL AND response IS NULL AND stored.response_omitted IS NULL THEN 204 ELSE 200 END;
    answer.headers := jsonb_strip_nulls(jsonb_build_object('Idempotent-Replayed', 'true', 'Idempotency-Key', echoed,
        'Idempotent-Body-Omitted', CASE WHEN stored.response_omitted THEN 'true' END));
    IF response IS NULL THEN
        RETURN answer;
    END IF;
    IF jsonb_typeof(response) = 'object' THEN
        response := response - '{}'::text[]; -- no change, but out of TOAST, once for all that follows
        is_ours := jsonb_typeof(response -> 'headers') = 'object' AND NOT EXISTS (
            SELECT FROM jsonb_each(CASE WHEN jsonb_typeof(response -> 'headers') = 'object' THEN response -> 'headers' ELSE '{}' END) h
             WHERE NOT _idem_is_http_token(h.key) OR _idem_http_is_never_stored(h.key)
                OR CASE WHEN jsonb_typeof(h.value) = 'array'
                   THEN EXISTS (SELECT FROM jsonb_array_elements(h.value) AS e (value) WHERE _idem_http_fault(e.value) IS NOT NULL)
                   ELSE _idem_http_fault(h.value) IS NOT NULL END)
            AND _idem_http_repeated(response -> 'headers') IS NULL;
    END IF;
    IF NOT is_ours OR is_ours IS NULL THEN
        is_ours := false;
    ELSIF response - '{headers,text}'::text[] = '{}' THEN
        is_ours := coalesce(jsonb_typeof(response -> 'text') = 'string', true);
        IF is_ours THEN
            answer.body := response ->> 'text';
            answer.body_bytes := convert_to(answer.body, 'UTF8');
        END IF;
    ELSIF response - '{headers,utf8}'::text[] = '{}' THEN
        is_ours := jsonb_typeof(response -> 'utf8') = 'string' AND getdatabaseencoding() = 'UTF8';
        IF is_ours THEN
            answer.body_bytes := convert_to(response ->> 'utf8', 'UTF8');
        END IF;
    ELSIF response - '{headers,base64}'::text[] = '{}' AND jsonb_typeof(response -> 'base64') = 'string' THEN
        BEGIN
            answer.body_bytes := decode(response ->> 'base64', 'base64');
        EXCEPTION WHEN invalid_parameter_value THEN
            is_ours := false;
        END;
    ELSE
        is_ours := false;
    END IF;
    IF is_ours THEN
        answer.headers := CASE WHEN stored.response_omitted
            THEN coalesce((SELECT jsonb_object_agg(h.key, h.value) FROM jsonb_each(response -> 'headers') h WHERE NOT _idem_http_is_always_stored(h.key)), '{}')
            ELSE response -> 'headers' END || answer.headers;
    ELSE
        answer.headers := answer.headers || '{"Content-Type": "application/json"}';
        answer.body := response::text;
        answer.body_bytes := convert_to(answer.body, 'UTF8');
    END IF;
    RETURN answer;
END
$$;

-- The reason phrase of an error status, or of its class (the IANA registry of HTTP status codes).
CREATE FUNCTION _idem_http_reason(status integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE status
           WHEN 400 THEN 'Bad Request' WHEN 401 THEN 'Unauthorized' WHEN 402 THEN 'Payment Required' WHEN 403 THEN 'Forbidden' WHEN 404 THEN 'Not Found'
           WHEN 405 THEN 'Method Not Allowed' WHEN 406 THEN 'Not Acceptable' WHEN 407 THEN 'Proxy Authentication Required' WHEN 408 THEN 'Request Timeout'
           WHEN 409 THEN 'Conflict' WHEN 410 THEN 'Gone' WHEN 411 THEN 'Length Required' WHEN 412 THEN 'Precondition Failed'
           WHEN 413 THEN 'Content Too Large' WHEN 414 THEN 'URI Too Long' WHEN 415 THEN 'Unsupported Media Type' WHEN 416 THEN 'Range Not Satisfiable'
           WHEN 417 THEN 'Expectation Failed' WHEN 421 THEN 'Misdirected Request' WHEN 422 THEN 'Unprocessable Content' WHEN 423 THEN 'Locked'
           WHEN 424 THEN 'Failed Dependency' WHEN 425 THEN 'Too Early' WHEN 426 THEN 'Upgrade Required' WHEN 428 THEN 'Precondition Required'
           WHEN 429 THEN 'Too Many Requests' WHEN 431 THEN 'Request Header Fields Too Large' WHEN 451 THEN 'Unavailable For Legal Reasons'
           WHEN 500 THEN 'Internal Server Error' WHEN 501 THEN 'Not Implemented' WHEN 502 THEN 'Bad Gateway' WHEN 503 THEN 'Service Unavailable'
           WHEN 504 THEN 'Gateway Timeout' WHEN 505 THEN 'HTTP Version Not Supported' WHEN 506 THEN 'Variant Also Negotiates'
           WHEN 507 THEN 'Insufficient Storage' WHEN 508 THEN 'Loop Detected' WHEN 511 THEN 'Network Authentication Required'
           ELSE CASE WHEN status < 500 THEN 'Bad Request' ELSE 'Internal Server Error' END END
$$;

-- The answer that rejects a request, in the scope's error_format. The codes that another API has no word for are idem's own.
CREATE FUNCTION _idem_http_reject(settings idem_scopes, code text, echoed text DEFAULT NULL, retry_after bigint DEFAULT NULL) RETURNS idem_http_answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    style   CONSTANT text COLLATE "C" := coalesce(settings.error_format, 'problem');
    page    CONSTANT text := settings.documentation_url;
    answer  idem_http_answer;
    refusal record;
BEGIN
    SELECT * INTO refusal FROM (VALUES
        ('key_missing', settings.missing_key_status, 400, 'invalid_request_error', 'idempotency_key_required', 'idempotency_key_required',
         'The request needs an Idempotency-Key header field.'),
        ('key_malformed', settings.malformed_key_status, 400, 'invalid_request_error', 'idempotency_key_malformed', 'idempotency_key_malformed',
         'The Idempotency-Key header field is not one string of 1 to 1024 printable ASCII characters.'),
        ('mismatch', settings.mismatch_status, 422, 'idempotency_error', NULL, 'idempotency_conflict',
         'The Idempotency-Key was used before, with another method, route or body.'),
        ('in_flight', settings.in_flight_status, 409, 'invalid_request_error', 'idempotency_key_in_use', 'idempotency_in_flight',
         'The request with this Idempotency-Key is being processed. Repeat it later.'),
        ('in_doubt', settings.in_doubt_status, 409, 'api_error', 'idempotency_key_in_doubt', 'idempotency_in_doubt',
         'What became of the request with this Idempotency-Key is not known yet. An operator has to decide.'))
        AS r (code, status, usual_status, stripe_type, stripe_code, other_code, detail) WHERE r.code = $2 COLLATE "C";
    answer.action := 'reject';
    answer.status := coalesce(refusal.status, refusal.usual_status);
    answer.code := refusal.code;
    answer.retryable := refusal.code = 'in_flight';
    answer.headers := jsonb_strip_nulls(jsonb_build_object(
        'Content-Type', CASE style WHEN 'problem' THEN 'application/problem+json' ELSE 'application/json' END, 'Link', '<' || page || '>; rel="describedby"',
        'Retry-After', retry_after::text, 'Idempotency-Key', echoed));
    answer.body := CASE style
        WHEN 'stripe' THEN jsonb_strip_nulls(jsonb_build_object('error', jsonb_build_object(
            'type', refusal.stripe_type, 'code', refusal.stripe_code, 'message', refusal.detail, 'doc_url', page)))
        WHEN 'acp' THEN jsonb_build_object('type', CASE refusal.code WHEN 'in_doubt' THEN 'processing_error' ELSE 'invalid_request' END, 'code', refusal.other_code,
                                           'message', refusal.detail)
        WHEN 'ucp' THEN jsonb_build_object('code', upper(refusal.other_code COLLATE "C"), 'content', refusal.detail)
        ELSE jsonb_build_object('type', coalesce(page, 'about:blank'), 'title', _idem_http_reason(answer.status), 'status', answer.status,
                                'detail', refusal.detail, 'code', refusal.code) END::text;
    answer.body_bytes := convert_to(answer.body, 'UTF8');
    RETURN answer;
END
$$;

-- --- Requests -------------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION idem_http_begin LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    space       text COLLATE "C" := $1;
    verb        text COLLATE "C" := $2;
    wanted      text COLLATE "C";
    policy      record;
    settings    idem_scopes;
    retention   interval;
    given       interval;
    until       timestamptz;
    mark        bytea;
    echoed      text COLLATE "C";
    claimed     _idem_claimed;
    answer      idem_http_answer;
BEGIN
    IF space IS NULL OR octet_length(space) NOT BETWEEN 1 AND 255 THEN
        PERFORM _idem_http_check_scope(space);
    ELSIF verb IS NULL THEN
        PERFORM _idem_null('method');
    ELSIF NOT _idem_is_http_token(verb) THEN
        PERFORM _idem_invalid(format('"%s" is no HTTP method', verb), hint => 'Give the method of the request, such as ''POST''.');
    ELSIF $3 IS NULL THEN
        PERFORM _idem_null('route');
    END IF;
    IF $5 IS NOT NULL AND $6 IS NOT NULL OR $10 IS NOT NULL THEN
        PERFORM _idem_http_check_body($5, $6), _idem_http_check_digest($10, $5, $6);
    END IF;
    policy := _idem_policy(space);
    retention := _idem_retention(policy.ttl, policy.keep_forever, $9);
    IF $7 IS NOT NULL THEN
        given := _idem_lease($7, 'lease');
    END IF;
    IF $8 IS NOT NULL THEN
        until := _idem_wait_until($8);
    END IF;
    answer.action := 'run';
    IF policy.is_registered THEN
        settings := _idem_http_settings(space);
        IF verb = ANY (_idem_http_items(settings.ignored_methods)) THEN
            answer.code := 'unkeyed';
            RETURN answer;
        END IF;
    END IF;
    IF $4 IS NULL THEN
        IF settings.missing_key = 'run' OR verb <> ALL (coalesce(_idem_http_items(settings.keyed_methods), '{POST,PATCH}')) THEN
            answer.code := 'unkeyed';
            RETURN answer;
        END IF;
        RETURN _idem_http_reject(settings, 'key_missing');
    END IF;
    wanted := _idem_http_key($4, settings.key_syntax);
    IF wanted IS NULL THEN
        RETURN _idem_http_reject(settings, 'key_malformed');
    END IF;
    IF policy.is_registered OR $10 IS NOT NULL THEN
        mark := _idem_http_fingerprint(settings, verb, $3, $5, $6, $10, $11);
        echoed := CASE WHEN settings.echo_key THEN $4 END;
    END IF;
    claimed := _idem_claim('idem_http_begin()', space, wanted,
        coalesce(mark, _idem_http_mark(1, verb || ' ' || $3, coalesce(convert_to($5, 'UTF8'), $6, ''))), NULL, retention, given, policy.is_manual, false, until);
    IF claimed.outcome IN ('acquired', 'taken_over') THEN
        answer.fence := (claimed.stored).fence;
        IF echoed IS NOT NULL THEN
            answer.headers := jsonb_build_object('Idempotency-Key', echoed);
        END IF;
        RETURN answer;
    END IF;
    -- A second call for a request whose work has not ended would send the client an answer of its own making. A doubt was perhaps written by a call that said so.
    IF claimed.outcome <> 'in_doubt' AND (claimed.stored).fingerprint IS NOT NULL AND (claimed.stored).completed_at IS NULL AND _idem_wrote(space, wanted) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('key "%s" is already open in this transaction', wanted),
            DETAIL = 'idem_http_begin() has answered "run" for it, and no response is stored yet.',
            HINT = 'A middleware is probably mounted twice: mount it once.';
    END IF;
    -- A key without a fingerprint was not claimed by a request. A request that sends such a key must not learn anything about it.
    IF claimed.outcome = 'mismatch' OR (claimed.stored).key IS NOT NULL AND (claimed.stored).fingerprint IS NULL THEN
        RETURN _idem_http_reject(settings, 'mismatch', echoed);
    ELSIF claimed.outcome = 'completed' THEN
        RETURN _idem_http_replay(claimed.stored, echoed);
    ELSIF claimed.outcome = 'in_doubt' THEN
        RETURN _idem_http_reject(settings, 'in_doubt', echoed);
    END IF;
    RETURN _idem_http_reject(settings, 'in_flight', echoed, greatest(ceil(extract(epoch FROM (claimed.stored).lease_until - claimed.at)), 1)::bigint);
END
$$;

CREATE FUNCTION idem_http_complete LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    space    text COLLATE "C" := $1;
    wanted   text COLLATE "C";
    policy   record;
    settings idem_scopes;
    response jsonb;
    fallback jsonb;
BEGIN
    PERFORM _idem_http_check_scope(space);
    policy := _idem_policy(space);
    IF $2 IS NULL THEN -- the request has no key
        RETURN 'unkeyed';
    ELSIF $3 IS NULL THEN
        PERFORM _idem_null('status');
    ELSIF NOT _idem_http_is_final($3) THEN
        PERFORM _idem_invalid('status must be from 200 to 599');
    END IF;
    IF policy.is_registered THEN
        settings := _idem_http_settings(space);
    END IF;
    wanted := _idem_http_key($2, settings.key_syntax);
    IF wanted IS NULL THEN
        PERFORM _idem_invalid('idempotency key is malformed', hint => 'Give the header field for which idem_http_begin said to run.');
    END IF;
    PERFORM _idem_http_check_body($5, $6);
    -- A retry has to run again. A commit would keep what this attempt wrote, so only a leased key can be released here.
    IF ARRAY[$3::text, left($3::text, 1) || 'xx'] && _idem_http_items(ARRAY[lower(array_to_string(settings.unstored_statuses, ',') COLLATE "C")]) THEN
        IF $7 IS NULL THEN
            RAISE invalid_transaction_state USING MESSAGE = format('a response with status %s is not stored in scope "%s"', $3, space),
                DETAIL = 'A commit would keep the rows of this request, and its retry would run again.', HINT = 'Roll back, then send the response.';
        END IF;
        PERFORM _idem_held(space, wanted, $7, '{p}', 'idem_http_complete()');
        PERFORM _idem_release(space, wanted);
        RETURN 'released';
    END IF;
    response := _idem_http_response($4, $5, $6, settings.stored_headers);
    IF $8 AND ($5 IS NOT NULL OR $6 IS NOT NULL) THEN
        PERFORM _idem_invalid('a body that is omitted cannot be given', hint => 'Give the body, or omit => true.');
    ELSIF $8 OR ($5 IS NOT NULL OR $6 IS NOT NULL) AND _idem_size(response) > policy.max_response_size THEN
        fallback := jsonb_build_object('headers', response -> 'headers');
        response := CASE WHEN $8 THEN NULL ELSE response END;
    END IF;
    RETURN CASE WHEN _idem_complete('idem_http_complete()', space, policy.max_response_size, wanted, response, $3, $7, fallback) THEN 'stored' ELSE 'omitted' END;
END
$$;

-- --- Scopes ---------------------------------------------------------------------------------------------------------------------------

-- An argument that is one of some words.
CREATE FUNCTION _idem_http_check_word(name text, given text, words text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT integer := cardinality(words);
BEGIN
    IF given COLLATE "C" <> ALL (words) THEN
        PERFORM _idem_invalid(format('unknown value "%s" for %s', given, name),
            hint => format('Use ''%s'' or ''%s''.', array_to_string(words[:most - 1], ''', '''), words[most]));
    END IF;
END
$$;

-- Those of idem_http_scope_set that are arrays.
CREATE FUNCTION _idem_http_check_lists(fingerprint_of text[], keyed_methods text[], ignored_methods text[], unstored_statuses text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    item text COLLATE "C";
    list text;
BEGIN
    FOREACH item IN ARRAY coalesce(fingerprint_of, '{}') LOOP
        IF item IS NULL THEN
            PERFORM _idem_null('a part in fingerprint_of');
        ELSIF item NOT IN ('method', 'route', 'body') THEN
            PERFORM _idem_invalid(format('"%s" is no part of a request', item), hint => 'The parts are ''method'', ''route'' and ''body''.');
        END IF;
    END LOOP;
    IF fingerprint_of = '{}' THEN
        PERFORM _idem_invalid('fingerprint_of must not be empty', hint => 'The parts are ''method'', ''route'' and ''body''.');
    END IF;
    FOR item, list IN SELECT k.method, 'keyed_methods' FROM unnest(keyed_methods) AS k (method)
                      UNION ALL SELECT i.method, 'ignored_methods' FROM unnest(ignored_methods) AS i (method) LOOP
        IF item IS NULL THEN
            PERFORM _idem_null('a method in ' || list);
        ELSIF NOT _idem_is_http_token(item) THEN
            PERFORM _idem_invalid(format('"%s" is no HTTP method', item));
        END IF;
    END LOOP;
    FOREACH item IN ARRAY coalesce(unstored_statuses, '{}') LOOP
        IF item IS NULL THEN
            PERFORM _idem_null('a status in unstored_statuses');
        ELSIF item !~ '^[1-5]([0-9][0-9]|[xX][xX])$' THEN
            PERFORM _idem_invalid(format('"%s" is no HTTP status', item), hint => 'Give statuses, such as ''429'', or classes of them, such as ''5xx''.');
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION idem_http_scope_set LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    names   CONSTANT text[] := '{missing_key_status,malformed_key_status,mismatch_status,in_flight_status,in_doubt_status}';
    given   CONSTANT integer[] := ARRAY[$6, $7, $8, $9, $10];
    item    text COLLATE "C";
    profile record;
BEGIN
    PERFORM _idem_check_scope($1 COLLATE "C");
    PERFORM _idem_http_check_word('missing_key', $2, '{reject,run}'), _idem_http_check_word('key_syntax', $13, '{string_or_bare,string,opaque}'),
            _idem_http_check_word('compare', $14, '{bytes,json}'), _idem_http_check_word('error_format', $16, '{problem,stripe,acp,ucp}'),
            _idem_http_check_word('profile', $18, '{ietf,stripe,acp,ucp}'), _idem_http_check_lists($15, $3, $12, $4);
    -- The page is sent as <...> in a header field.
    IF octet_length($5) > 1000 OR $5 COLLATE "C" !~ '^(https?://[]!#-;=?-[_a-z~]+)?$' THEN
        PERFORM _idem_invalid('documentation_url is malformed', format('It must be an absolute http or https URI of at most %s bytes.', 1000));
    END IF;
    FOR i IN 1..5 LOOP
        IF given[i] NOT BETWEEN 400 AND 599 THEN
            PERFORM _idem_invalid(format('%s must be from 400 to 599', names[i]));
        END IF;
    END LOOP;
    FOREACH item IN ARRAY coalesce($11, '{}') LOOP
        IF item IS NULL THEN
            PERFORM _idem_null('a name in stored_headers');
        ELSIF NOT _idem_is_http_token(item) THEN
            PERFORM _idem_invalid(format('"%s" is no name of a header field', item));
        ELSIF _idem_http_is_never_stored(item) THEN
            PERFORM _idem_invalid(format('header field "%s" cannot be stored', item),
                'Cookies are for the client that got them, and fields of a connection for that connection.');
        END IF;
    END LOOP;
    PERFORM _idem_begin_scope_change($1, 'idem_http_scope_set()');
    PERFORM _idem_enter_scope($1);
    SELECT * INTO profile FROM idem_http_profiles() p WHERE p.profile = $18 COLLATE "C";
    UPDATE ONLY idem_scopes AS c SET ttl = coalesce(profile.ttl, c.ttl), missing_key = coalesce($2, profile.missing_key, c.missing_key),
        keyed_methods = coalesce($3, profile.keyed_methods, c.keyed_methods),
        unstored_statuses = coalesce($4, profile.unstored_statuses, c.unstored_statuses),
        documentation_url = coalesce($5, profile.documentation_url, c.documentation_url),
        missing_key_status = coalesce($6, profile.missing_key_status, c.missing_key_status),
        malformed_key_status = coalesce($7, profile.malformed_key_status, c.malformed_key_status),
        mismatch_status = coalesce($8, profile.mismatch_status, c.mismatch_status),
        in_flight_status = coalesce($9, profile.in_flight_status, c.in_flight_status),
        in_doubt_status = coalesce($10, profile.in_doubt_status, c.in_doubt_status),
        stored_headers = coalesce($11, profile.stored_headers, c.stored_headers), ignored_methods = coalesce($12, profile.ignored_methods, c.ignored_methods),
        key_syntax = coalesce($13, profile.key_syntax, c.key_syntax), compare = coalesce($14, profile.compare, c.compare),
        fingerprint_of = coalesce($15, profile.fingerprint_of, c.fingerprint_of), error_format = coalesce($16, profile.error_format, c.error_format),
        echo_key = coalesce($17, profile.echo_key, c.echo_key)
     WHERE c.scope = $1 COLLATE "C";
END
$$;
