-- HTTP: from the Idempotency-Key header to a replayed response.

CREATE TYPE idem_http_answer AS (
    action  text,
    status  integer,
    headers jsonb,
    body    jsonb,
    fence   bigint
);
COMMENT ON TYPE idem_http_answer IS 'The answer of idem_http_begin. Call it as SELECT * FROM idem_http_begin(...).';
COMMENT ON COLUMN idem_http_answer.action IS 'run: do the work; replay: it is done, send the stored response; reject: do nothing, send the error.';
COMMENT ON COLUMN idem_http_answer.status IS 'Status of the response to send; NULL for run.';
COMMENT ON COLUMN idem_http_answer.headers IS 'Header fields of the response to send, {"name": "value" or ["value", ...]}; NULL for run.';
COMMENT ON COLUMN idem_http_answer.body IS 'Body of the response to send: the stored one, or the error as application/problem+json (RFC 9457). NULL for run, and where none was stored.';
COMMENT ON COLUMN idem_http_answer.fence IS 'Fencing token of the holder; run in leased mode only.';

CREATE FUNCTION idem_http_begin(method text, route text, idempotency_key text, body bytea DEFAULT NULL, lease interval DEFAULT NULL,
                                wait interval DEFAULT '0', ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS idem_http_answer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_begin(text, text, text, bytea, interval, interval, interval, text) IS
'Says what to do with an HTTP request: run it, replay the response it had, or reject it. For GET, HEAD, OPTIONS, TRACE, PUT and DELETE always run, and no key is claimed. Other methods claim the key as idem_begin does, with method, route and body as the fingerprint.
idempotency_key: the header field as it came, NULL where it is missing; quoted (RFC 9651) or bare. route: what the request is for, such as its path. body: as it came, NULL: none. lease, wait, ttl: as of idem_begin.
reject: 400 key missing or malformed, 422 another request''s key, 409 in flight (with Retry-After) or in doubt; idem_http_scope_set changes the codes. Call it as SELECT * FROM idem_http_begin(...).
Errors: 22004 method, route or scope is null; 22023 method is not a token, and as idem_begin.';

CREATE FUNCTION idem_http_complete(idempotency_key text, status integer, headers jsonb, body jsonb, fence bigint DEFAULT NULL,
                                   scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_complete(text, integer, jsonb, jsonb, bigint, text) IS
'Stores the response of a request that idem_http_begin said to run, so that it can be replayed. Does nothing when idempotency_key is NULL: pass NULL for methods that claim no key.
headers: {"name": "value" or ["value", ...]}; only those that the scope stores are kept, never Set-Cookie nor those of a connection. body: NULL for none. Over the scope''s max_response_size, status and headers alone are stored, with a warning.
Errors: ID001 stale fence, or without fence not this transaction''s claim; 22004 status is null; 22023 malformed key, status not from 100 to 599, headers not as above or with CR, LF or NUL in a value.';

CREATE FUNCTION idem_http_key(idempotency_key text) RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_key(text) IS
'The key in an Idempotency-Key header field, quoted or bare, as idem_lookup, idem_release and the others take it. NULL when it is malformed: neither a Structured Fields string (RFC 9651) nor visible ASCII without quotes and commas, empty, or over 1024 bytes.';

CREATE FUNCTION idem_http_scope_set(scope text, missing_key_status integer DEFAULT NULL, malformed_key_status integer DEFAULT NULL,
                                    mismatch_status integer DEFAULT NULL, in_flight_status integer DEFAULT NULL,
                                    in_doubt_status integer DEFAULT NULL, stored_headers text[] DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_scope_set(text, integer, integer, integer, integer, integer, text[]) IS
'Registers a scope, or changes how it answers HTTP requests: the status of each rejection, and which header fields are stored with a response. NULL leaves as is. Holds for every session at once. Operators.
Errors: 22004 scope or a name is null; 22023 scope over 255 bytes, a status not from 400 to 599, stored_headers with what is no field name, Set-Cookie, or a field of the connection; 42501 the scope has an owner whose privileges the caller lacks.';
