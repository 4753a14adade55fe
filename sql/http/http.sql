-- HTTP: from the Idempotency-Key header to a replayed response.

CREATE TYPE idem_http_answer AS (
    action     text,
    status     integer,
    headers    jsonb,
    body       text,
    body_bytes bytea,
    fence      bigint,
    code       text,
    retryable  boolean
);
COMMENT ON TYPE idem_http_answer IS 'The result of idem_http_begin. Call the function as SELECT * FROM idem_http_begin(...).';
COMMENT ON COLUMN idem_http_answer.action IS 'run: do the work; replay: the work is done, send the stored response; reject: do nothing, send the error.';
COMMENT ON COLUMN idem_http_answer.status IS 'The status of the response to send; NULL for run.';
COMMENT ON COLUMN idem_http_answer.headers IS 'The header fields of the response to send, {"name": "value" or ["value", ...]}. For run: those to add to the handler''s response (echo_key), else NULL.';
COMMENT ON COLUMN idem_http_answer.body IS 'The body of the response to send: the stored text, or the error in the scope''s error_format. NULL for run, for a body that was stored as bytes, and if no body was stored.';
COMMENT ON COLUMN idem_http_answer.body_bytes IS 'The same body as bytes; a text is in UTF-8. NULL for run, and if no body was stored.';
COMMENT ON COLUMN idem_http_answer.fence IS 'The fencing token of the claim; for run in leased mode only.';
COMMENT ON COLUMN idem_http_answer.code IS 'For reject, in every error_format: key_missing, key_malformed, mismatch, in_flight or in_doubt. For run: unkeyed, when nothing was claimed (pass NULL as the key to idem_http_complete), else NULL. For replay: NULL.';
COMMENT ON COLUMN idem_http_answer.retryable IS 'For reject: whether the same request may succeed when it is repeated later. Otherwise NULL.';

CREATE TYPE idem_http_stored AS ENUM ('stored', 'omitted', 'released', 'unkeyed');
COMMENT ON TYPE idem_http_stored IS
'The result of idem_http_complete. stored: the response is stored; omitted: only its status and headers are, as it is over the scope''s max_response_size, or the caller omitted the body (commit); released: the leased key was released, as the scope does not store the status (roll back); unkeyed: the request has no key.';

CREATE FUNCTION idem_http_begin(scope text, method text, route text, idempotency_key text, body text DEFAULT NULL, body_bytes bytea DEFAULT NULL,
                                lease interval DEFAULT NULL, wait interval DEFAULT NULL, ttl interval DEFAULT NULL, fingerprint bytea DEFAULT NULL,
                                content_type text DEFAULT NULL)
RETURNS idem_http_answer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_begin(text, text, text, text, text, bytea, interval, interval, interval, bytea, text) IS
'Decides what to do with an HTTP request: run it, replay its stored response, or reject it. If the request has a key, the call claims it as idem_begin does, with method, route and body as the fingerprint. Without a key, POST and PATCH are rejected and other methods run (idem_http_scope_set changes that).
scope: the space in which the key is unique; it names the client, or tenant, and the API. idempotency_key: the header field as received, quoted (RFC 9651) or bare; NULL if it is missing. route: the path with its query, or the name of an operation. body, body_bytes: the body as received, as text or as bytes; neither: no body. The fingerprint takes a text in UTF-8. lease, wait, ttl: as for idem_begin. fingerprint: the caller''s own digest, 1 to 255 bytes, in place of route and body: of the parts of a multipart form, whose boundary changes with each attempt. content_type: the header field, for scopes that compare JSON.
reject: 400 the key is missing or malformed; 422 the key was used for another request; 409 the key is in flight (with Retry-After) or in doubt. idem_http_scope_set changes these statuses. Call it as SELECT * FROM idem_http_begin(...).
Errors: 22004 scope, method or route is null; 22023 empty scope, method is not a token, two of body, body_bytes and fingerprint, and as idem_begin; 25P01 as idem_begin; 55000 this transaction has the key open already: idem_http_begin returned run, and idem_http_complete has not been called.';

CREATE FUNCTION idem_http_complete(scope text, idempotency_key text, status integer, headers jsonb DEFAULT NULL, body text DEFAULT NULL,
                                   body_bytes bytea DEFAULT NULL, fence bigint DEFAULT NULL, omit boolean DEFAULT false)
RETURNS idem_http_stored LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_complete(text, text, integer, jsonb, text, bytea, bigint, boolean) IS
'Stores the response of a request for which idem_http_begin returned run, so that it can be replayed byte for byte. Returns stored; omitted: only status and headers are stored, as the response is over the scope''s max_response_size (with a warning) or omit is true; released: its status is one of the scope''s unstored_statuses, and the leased key was released; unkeyed: idempotency_key is NULL.
headers: {"name": "value", number or an array of them}; null values are skipped. Only the fields that the scope stores are checked and stored. Set-Cookie and the fields of a connection are never stored. body, body_bytes: the body as text or as bytes; neither: no body. omit: true for a body that the caller sends without giving it here, such as a stream. A replay of an omitted response has the header Idempotent-Body-Omitted, and no Content-Type.
Errors: ID001 stale fence, or without fence not this transaction''s claim; 22004 scope or status is null; 22023 empty scope, malformed key, status not from 200 to 599, both body and body_bytes, a body with omit, headers not as above, with CR, LF or NUL in a value, or with one stored name in two spellings; 25000 a transactional claim and one of the unstored_statuses: roll back, then send the response.';

CREATE FUNCTION idem_http_key(idempotency_key text, scope text DEFAULT NULL) RETURNS text LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_key(text, text) IS
'Returns the key in an Idempotency-Key header field, as idem_lookup, idem_release and other functions take it. scope: its key_syntax is that of the key; NULL: a Structured Fields string (RFC 9651), or the same without quotes. NULL if the field is malformed: not of the syntax, empty, or over 1024 bytes.
Errors: 22023 scope over 255 bytes.';

CREATE FUNCTION idem_http_profiles(OUT profile text, OUT ttl interval, OUT missing_key text, OUT keyed_methods text[], OUT unstored_statuses text[],
                                   OUT documentation_url text, OUT missing_key_status integer, OUT malformed_key_status integer,
                                   OUT mismatch_status integer, OUT in_flight_status integer, OUT in_doubt_status integer,
                                   OUT stored_headers text[], OUT ignored_methods text[], OUT key_syntax text, OUT compare text,
                                   OUT fingerprint_of text[], OUT error_format text, OUT echo_key boolean)
RETURNS SETOF record LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 4
BEGIN ATOMIC
    SELECT p.profile, p.ttl::interval, p.missing_key, p.keyed_methods::text[], p.unstored_statuses::text[], NULL::text, 400, 400, p.mismatch, 409, 409,
           NULL::text[], p.ignored_methods::text[], p.key_syntax, p.compare, p.fingerprint_of::text[], p.error_format, p.echo_key
      FROM (VALUES
        ('ietf',   NULL,   'reject', '{POST,PATCH}', '{}',    422, '{}',           'string', 'bytes', '{method,route,body}', 'problem', false),
        ('stripe', '24 h', 'run',    '{POST}',       '{}',    400, '{GET,DELETE}', 'opaque', 'bytes', '{method,route,body}', 'stripe',  true),
        ('acp',    '24 h', 'reject', '{POST}',       '{5xx}', 422, '{}',           'opaque', 'json',  '{body}',              'acp',     true),
        ('ucp',    '48 h', 'reject', '{POST,PUT}',   '{5xx}', 409, '{}',           'opaque', 'bytes', '{body}',              'ucp',     false)
        ) AS p (profile, ttl, missing_key, keyed_methods, unstored_statuses, mismatch, ignored_methods, key_syntax, compare, fingerprint_of, error_format, echo_key);
END;
COMMENT ON FUNCTION idem_http_profiles() IS
'The settings of each profile of idem_http_scope_set: ietf (draft-ietf-httpapi-idempotency-key-header), stripe (the Stripe API, version 1), acp (the Agentic Commerce Protocol) and ucp (the Universal Commerce Protocol over REST). NULL: the profile leaves the setting as it is.';

CREATE FUNCTION idem_http_scope_set(scope text, missing_key text DEFAULT NULL, keyed_methods text[] DEFAULT NULL,
                                    unstored_statuses text[] DEFAULT NULL, documentation_url text DEFAULT NULL,
                                    missing_key_status integer DEFAULT NULL, malformed_key_status integer DEFAULT NULL,
                                    mismatch_status integer DEFAULT NULL, in_flight_status integer DEFAULT NULL,
                                    in_doubt_status integer DEFAULT NULL, stored_headers text[] DEFAULT NULL,
                                    ignored_methods text[] DEFAULT NULL, key_syntax text DEFAULT NULL, compare text DEFAULT NULL,
                                    fingerprint_of text[] DEFAULT NULL, error_format text DEFAULT NULL, echo_key boolean DEFAULT NULL,
                                    profile text DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_scope_set(text, text, text[], text[], text, integer, integer, integer, integer, integer, text[], text[], text, text, text[], text, boolean, text) IS
'Registers a scope, or changes how it answers HTTP requests. NULL leaves a setting as it is. A new value holds for every session at once, and for each scope a/b of a scope a that does not set it. Operators.
profile: all settings of a protocol at once (idem_http_profiles); an argument that is given takes precedence. keyed_methods: the methods that need a key (default: POST and PATCH). missing_key: the action for such a request without a key: reject (default) or run. ignored_methods: the methods with which a key is not used (default: none). key_syntax: string_or_bare (default), string, which refuses keys without quotes, or opaque, which takes the field as it is. fingerprint_of: the parts of a request that make it another one: method, route, body (default: all). compare: bytes (default), or json, which compares a body with a Content-Type of JSON by its value; one that is no JSON, or has two members of one name, is compared as bytes. unstored_statuses: the statuses whose responses are not stored, so that a retry runs again, such as {5xx,429} (default: none). error_format: the body of rejections: problem (RFC 9457, default), stripe, acp or ucp. echo_key: each response has the key as a header field. documentation_url: a page on keys for the developers of clients, which rejections name in a Link field; an empty string: none. missing_key_status and the other arguments that end in _status: the statuses of rejections. stored_headers: the header fields that are stored in addition to Content-Type and Content-Encoding.
Errors: 22004 scope, or an element of an array, is null; 22023 scope over 255 bytes, a word that is none of the above, a method that is not a token, an empty fingerprint_of, a status pattern not as above, documentation_url not an absolute http or https URI of printable ASCII up to 1000 bytes, a status not from 400 to 599, stored_headers with something that is not a field name, with Set-Cookie, or with a field of the connection; 42501 the scope has an owner whose privileges the caller lacks.';
