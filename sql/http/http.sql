-- HTTP: from the Idempotency-Key header to a replayed response.

CREATE TYPE idem_http_answer AS (
    action     text,
    status     integer,
    headers    jsonb,
    body       text,
    body_bytes bytea,
    fence      bigint
);
COMMENT ON TYPE idem_http_answer IS 'The result of idem_http_begin. Call the function as SELECT * FROM idem_http_begin(...).';
COMMENT ON COLUMN idem_http_answer.action IS 'run: do the work; replay: the work is done, send the stored response; reject: do nothing, send the error.';
COMMENT ON COLUMN idem_http_answer.status IS 'The status of the response to send; NULL for run.';
COMMENT ON COLUMN idem_http_answer.headers IS 'The header fields of the response to send, {"name": "value" or ["value", ...]}; NULL for run.';
COMMENT ON COLUMN idem_http_answer.body IS 'The body of the response to send: the stored text, or the error as application/problem+json (RFC 9457). NULL for run, for a body that was stored as bytes, and if no body was stored.';
COMMENT ON COLUMN idem_http_answer.body_bytes IS 'The same body as bytes; a text is in UTF-8. NULL for run, and if no body was stored.';
COMMENT ON COLUMN idem_http_answer.fence IS 'The fencing token of the claim; for run in leased mode only.';

CREATE FUNCTION idem_http_begin(scope text, method text, route text, idempotency_key text, body text DEFAULT NULL, body_bytes bytea DEFAULT NULL,
                                lease interval DEFAULT NULL, wait interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS idem_http_answer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_begin(text, text, text, text, text, bytea, interval, interval, interval) IS
'Decides what to do with an HTTP request: run it, replay its stored response, or reject it. If the request has a key, the call claims it as idem_begin does, with method, route and body as the fingerprint. Without a key, POST and PATCH are rejected and other methods run (idem_http_scope_set changes that).
scope: the space in which the key is unique; it names the client, or tenant, and the API. idempotency_key: the header field as received, quoted (RFC 9651) or bare; NULL if it is missing. route: the path with its query, or the name of an operation. body, body_bytes: the body as received, as text or as bytes; neither: no body. The fingerprint takes a text in UTF-8. lease, wait, ttl: as for idem_begin.
reject: 400 the key is missing or malformed; 422 the key was used for another request; 409 the key is in flight (with Retry-After) or in doubt. idem_http_scope_set changes these statuses. Call it as SELECT * FROM idem_http_begin(...).
Errors: 22004 scope, method or route is null; 22023 empty scope, method is not a token, both body and body_bytes, and as idem_begin; 25P01 as idem_begin.';

CREATE FUNCTION idem_http_complete(scope text, idempotency_key text, status integer, headers jsonb DEFAULT NULL, body text DEFAULT NULL,
                                   body_bytes bytea DEFAULT NULL, fence bigint DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_complete(text, text, integer, jsonb, text, bytea, bigint) IS
'Stores the response of a request for which idem_http_begin returned run, so that it can be replayed byte for byte. True: the response is stored. False: it is not stored. Then idempotency_key is NULL; or the response is over the scope''s max_response_size (only status and headers are stored, with a warning); or its status is one of the scope''s unstored_statuses, and the leased key was released.
headers: {"name": "value", number or an array of them}; null values are skipped. Only the fields that the scope stores are checked and stored. Set-Cookie and the fields of a connection are never stored. body, body_bytes: the body as text or as bytes; neither: no body.
Errors: ID001 stale fence, or without fence not this transaction''s claim; 22004 scope or status is null; 22023 empty scope, malformed key, status not from 200 to 599, both body and body_bytes, headers not as above, with CR, LF or NUL in a value, or with one stored name in two spellings; 25000 a transactional claim and one of the unstored_statuses: roll back, then send the response.';

CREATE FUNCTION idem_http_key(idempotency_key text) RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_key(text) IS
'Returns the key in an Idempotency-Key header field, quoted or bare, as idem_lookup, idem_release and other functions take it. NULL if the field is malformed: it is neither a Structured Fields string (RFC 9651) nor visible ASCII without quotes and commas, it is empty, or it is over 1024 bytes.';

CREATE FUNCTION idem_http_scope_set(scope text, missing_key text DEFAULT NULL, keyed_methods text[] DEFAULT NULL,
                                    unstored_statuses text[] DEFAULT NULL, documentation_url text DEFAULT NULL,
                                    missing_key_status integer DEFAULT NULL, malformed_key_status integer DEFAULT NULL,
                                    mismatch_status integer DEFAULT NULL, in_flight_status integer DEFAULT NULL,
                                    in_doubt_status integer DEFAULT NULL, stored_headers text[] DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_scope_set(text, text, text[], text[], text, integer, integer, integer, integer, integer, text[]) IS
'Registers a scope, or changes how it answers HTTP requests. NULL leaves a setting as it is. A new value holds for every session at once. Operators.
keyed_methods: the methods that need a key (default: POST and PATCH). missing_key: the action for such a request without a key: reject (default) or run. unstored_statuses: the statuses whose responses are not stored, so that a retry runs again, such as {5xx,429} (default: none). documentation_url: a page on keys for the developers of clients; rejections name it as type and in a Link field. missing_key_status and the other arguments that end in _status: the statuses of rejections. stored_headers: the header fields that are stored in addition to Content-Type and Content-Encoding.
Errors: 22004 scope, or an element of an array, is null; 22023 scope over 255 bytes, missing_key neither reject nor run, a method that is not a token, a status pattern not as above, documentation_url not an absolute http or https URI of printable ASCII up to 1000 bytes, a status not from 400 to 599, stored_headers with something that is not a field name, with Set-Cookie, or with a field of the connection; 42501 the scope has an owner whose privileges the caller lacks.';
