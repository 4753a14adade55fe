-- Scopes: policies for retention, leases and responses, and owners.

CREATE TABLE idem_scopes (
    scope                text COLLATE "C" PRIMARY KEY,
    ttl                  interval,
    keep_forever         boolean,
    lease                interval,
    on_lease_expiry      text CHECK (on_lease_expiry IN ('takeover', 'manual')),
    max_response_size    integer CHECK (max_response_size >= 0),
    owner                regrole,
    response_ttl         interval,
    missing_key          text CHECK (missing_key IN ('reject', 'run')),
    keyed_methods        text[],
    unstored_statuses    text[],
    documentation_url    text,
    missing_key_status   integer CHECK (missing_key_status BETWEEN 400 AND 599),
    malformed_key_status integer CHECK (malformed_key_status BETWEEN 400 AND 599),
    mismatch_status      integer CHECK (mismatch_status BETWEEN 400 AND 599),
    in_flight_status     integer CHECK (in_flight_status BETWEEN 400 AND 599),
    in_doubt_status      integer CHECK (in_doubt_status BETWEEN 400 AND 599),
    stored_headers       text[],
    ignored_methods      text[],
    key_syntax           text CHECK (key_syntax IN ('string_or_bare', 'string', 'opaque')),
    compare              text CHECK (compare IN ('bytes', 'json')),
    fingerprint_of       text[] CHECK (fingerprint_of OPERATOR(pg_catalog.<@) '{method,route,body}' AND fingerprint_of OPERATOR(pg_catalog.<>) '{}'),
    error_format         text CHECK (error_format IN ('problem', 'stripe', 'acp', 'ucp')),
    echo_key             boolean
);
COMMENT ON TABLE idem_scopes IS 'Policies of the scopes that have one (idem_scope_set, idem_http_scope_set). NULL: of a scope a/b, the row of its family a decides; else the default.';
COMMENT ON COLUMN idem_scopes.scope IS 'The scope.';
COMMENT ON COLUMN idem_scopes.ttl IS 'How long its keys stay unique; NULL: idem.default_ttl.';
COMMENT ON COLUMN idem_scopes.keep_forever IS 'True: its keys never expire, whatever ttl a call gives.';
COMMENT ON COLUMN idem_scopes.lease IS 'Length of a lease when the call gives none; NULL: idem.default_lease.';
COMMENT ON COLUMN idem_scopes.on_lease_expiry IS 'takeover: the next caller takes over a key whose lease has run out; manual: the key is in doubt until an operator decides.';
COMMENT ON COLUMN idem_scopes.max_response_size IS 'The largest response stored, in bytes; NULL: idem.max_response_size.';
COMMENT ON COLUMN idem_scopes.owner IS 'Only roles with this role''s privileges may use the scope; NULL (of a family too) or -: every role may.';
COMMENT ON COLUMN idem_scopes.response_ttl IS 'How long responses are kept, from the completion on; the sweep removes older ones, and keeps the keys. NULL: as long as the key.';
COMMENT ON COLUMN idem_scopes.missing_key IS 'How idem_http_begin treats a request that needs a key and has none: reject or run; NULL: reject.';
COMMENT ON COLUMN idem_scopes.keyed_methods IS 'The HTTP methods that need a key; NULL: POST and PATCH.';
COMMENT ON COLUMN idem_scopes.unstored_statuses IS 'The statuses of responses that idem_http_complete does not store, such as 429 or 5xx; NULL: none.';
COMMENT ON COLUMN idem_scopes.documentation_url IS 'The page on keys that rejections name; NULL or empty: none.';
COMMENT ON COLUMN idem_scopes.missing_key_status IS 'Status of idem_http_begin for a request without a key; NULL: 400.';
COMMENT ON COLUMN idem_scopes.malformed_key_status IS 'The same for a key that is malformed; NULL: 400.';
COMMENT ON COLUMN idem_scopes.mismatch_status IS 'The same for a key of another request; NULL: 422.';
COMMENT ON COLUMN idem_scopes.in_flight_status IS 'The same for a key whose request is being processed; NULL: 409.';
COMMENT ON COLUMN idem_scopes.in_doubt_status IS 'The same for a key that is in doubt; NULL: 409.';
COMMENT ON COLUMN idem_scopes.stored_headers IS 'The header fields that idem_http_complete stores in addition to Content-Type and Content-Encoding; NULL: those that docs/http.md lists.';
COMMENT ON COLUMN idem_scopes.ignored_methods IS 'The HTTP methods with which a key is not used; NULL: none.';
COMMENT ON COLUMN idem_scopes.key_syntax IS 'What a key is in its header field: string_or_bare (a Structured Fields string, or the same without quotes), string, or opaque (the field as it is); NULL: string_or_bare.';
COMMENT ON COLUMN idem_scopes.compare IS 'How bodies are compared: bytes, or json, which compares those with a Content-Type of JSON by their values; NULL: bytes.';
COMMENT ON COLUMN idem_scopes.fingerprint_of IS 'The parts of a request that make it another one: method, route, body; NULL: all.';
COMMENT ON COLUMN idem_scopes.error_format IS 'The body of a rejection: problem (RFC 9457), stripe, acp or ucp; NULL: problem.';
COMMENT ON COLUMN idem_scopes.echo_key IS 'True: each response to a request with a key has the Idempotency-Key field.';

SELECT pg_catalog.pg_extension_config_dump('idem_scopes', '');

CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON idem_scopes
    FOR EACH ROW EXECUTE FUNCTION idem_definitions_changed();
CREATE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON idem_scopes
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_scopes ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated;
COMMENT ON TRIGGER idem_definitions_changed ON idem_scopes IS 'Makes every session read the table again.';
COMMENT ON TRIGGER idem_definitions_truncated ON idem_scopes IS 'Makes every session read the table again.';

CREATE FUNCTION idem_scope_set(scope text, ttl interval DEFAULT NULL, keep_forever boolean DEFAULT NULL, lease interval DEFAULT NULL,
                               on_lease_expiry text DEFAULT NULL, max_response_size integer DEFAULT NULL, owner regrole DEFAULT NULL,
                               ring text DEFAULT NULL, response_ttl interval DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_scope_set(text, interval, boolean, interval, text, integer, regrole, text, interval) IS
'Registers a scope, or changes its policy. NULL leaves a setting as it is; owner ''-'' removes the owner. Takes effect in every session at once. Operators.
response_ttl: the sweep removes responses that were stored that long ago, including those that are there already, and keeps the keys; replays then say response_omitted.
ring: the scope''s new keys go into this ring (idem_ring_create), whose retention is then their ttl. Keys that the scope has already still count. The call waits until the transactions that have claimed a key of any scope end, and claims wait for it until it commits. idem_scope_reset(scope, ''ring'') takes the scope out again.
Errors: 22004 scope is null; 22023 scope over 255 bytes, ttl, lease or response_ttl not positive, unknown on_lease_expiry (takeover, manual), negative max_response_size, keep_forever of a scope in a ring; 42501 the scope has an owner whose privileges the caller lacks; 42704 there is no such ring; 54000 the scope has left too many rings that still have keys of it.';

CREATE FUNCTION idem_scope_reset(scope text, VARIADIC settings text[])
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_scope_reset(text, text[]) IS
'Resets settings of a scope to their defaults, by the names that they have in idem_scope_set and idem_http_scope_set: idem_scope_reset(''payments'', ''ttl'', ''owner''). The scope stays registered. Returns true; false: the scope is not registered, so it has the defaults already. Takes effect in every session at once. Operators.
Errors: 22004 scope, settings or one of them is null; 22023 scope over 255 bytes, a setting that scopes do not have; 25006 in a read-only transaction; 42501 the scope has an owner whose privileges the caller lacks.';

CREATE FUNCTION idem_scope_drop(scope text) RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_scope_drop(text) IS 'Drops a scope''s policy and owner; its keys stay. True if the scope was registered. Operators.';

-- The body is parsed when it is created, so its names refer to this schema, whatever the schema's name.
CREATE FUNCTION idem_scope_rings(OUT scope text, OUT ring text, OUT retention interval)
RETURNS SETOF record LANGUAGE sql VOLATILE PARALLEL SAFE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT p.scope, r.ring, r.retention FROM ONLY idem_scope_places p JOIN ONLY idem_ring_registry r ON r.id = p.ring WHERE p.is_current;
END;
COMMENT ON FUNCTION idem_scope_rings() IS 'Internal, for the view idem_scope_settings: the scopes that live in a ring. Operators.';

-- One row for each scope and setting. idem_http_profiles has the settings of profiles.
CREATE VIEW idem_scope_settings AS
    SELECT s.scope, v.setting, v.own,
           CASE WHEN r.ring IS NOT NULL AND v.setting = 'ttl'::text THEN r.retention::text
                WHEN r.ring IS NOT NULL AND v.setting = 'keep_forever'::text THEN 'false'
                ELSE coalesce(v.own, v.inherited, v.fallback) END AS effective,
           CASE WHEN r.ring IS NOT NULL AND v.setting = ANY ('{ttl,keep_forever}'::text[]) THEN 'ring'
                WHEN v.own IS NOT NULL THEN 'scope'
                WHEN v.inherited IS NOT NULL THEN 'family'
                ELSE 'default' END AS source
      FROM ONLY idem_scopes s
      LEFT JOIN ONLY idem_scopes f ON f.scope = CASE WHEN pg_catalog.strpos(s.scope, '/') > 1 THEN pg_catalog.split_part(s.scope, '/', 1) END
      LEFT JOIN idem_scope_rings() r ON r.scope = s.scope,
      LATERAL (VALUES
        ('ttl'::text, s.ttl::text, f.ttl::text, coalesce(nullif(pg_catalog.current_setting('idem.default_ttl', true), ''), '1d')),
        ('keep_forever', s.keep_forever::text, f.keep_forever::text, 'false'),
        ('lease', s.lease::text, f.lease::text, coalesce(nullif(pg_catalog.current_setting('idem.default_lease', true), ''), '30s')),
        ('on_lease_expiry', s.on_lease_expiry, f.on_lease_expiry, 'takeover'),
        ('max_response_size', s.max_response_size::text, f.max_response_size::text,
                              coalesce(nullif(pg_catalog.current_setting('idem.max_response_size', true), ''), '1MB')),
        ('owner', s.owner::text, f.owner::text, '-'),
        ('ring', r.ring, NULL, NULL),
        ('response_ttl', s.response_ttl::text, f.response_ttl::text, NULL),
        ('missing_key', s.missing_key, f.missing_key, 'reject'),
        ('keyed_methods', s.keyed_methods::text, f.keyed_methods::text, '{POST,PATCH}'),
        ('unstored_statuses', s.unstored_statuses::text, f.unstored_statuses::text, '{}'),
        ('documentation_url', s.documentation_url, f.documentation_url, NULL),
        ('missing_key_status', s.missing_key_status::text, f.missing_key_status::text, '400'),
        ('malformed_key_status', s.malformed_key_status::text, f.malformed_key_status::text, '400'),
        ('mismatch_status', s.mismatch_status::text, f.mismatch_status::text, '422'),
        ('in_flight_status', s.in_flight_status::text, f.in_flight_status::text, '409'),
        ('in_doubt_status', s.in_doubt_status::text, f.in_doubt_status::text, '409'),
        ('stored_headers', s.stored_headers::text, f.stored_headers::text,
                           '{Content-Language,Content-Location,Content-Disposition,Location,ETag,Last-Modified,Link,Retry-After}'),
        ('ignored_methods', s.ignored_methods::text, f.ignored_methods::text, '{}'),
        ('key_syntax', s.key_syntax, f.key_syntax, 'string_or_bare'),
        ('compare', s.compare, f.compare, 'bytes'),
        ('fingerprint_of', s.fingerprint_of::text, f.fingerprint_of::text, '{method,route,body}'),
        ('error_format', s.error_format, f.error_format, 'problem'),
        ('echo_key', s.echo_key::text, f.echo_key::text, 'false')
      ) AS v (setting, own, inherited, fallback);
COMMENT ON VIEW idem_scope_settings IS
'The settings of each registered scope: one row for each, as text. A scope of a family that is not registered has the settings of its family. Operators.';
COMMENT ON COLUMN idem_scope_settings.scope IS 'The scope.';
COMMENT ON COLUMN idem_scope_settings.setting IS 'The setting, by its name in idem_scope_set or idem_http_scope_set.';
COMMENT ON COLUMN idem_scope_settings.own IS 'The value that the scope itself has; NULL: none.';
COMMENT ON COLUMN idem_scope_settings.effective IS 'The value that applies to the scope. NULL: none, as described for the column of that name in idem_scopes.';
COMMENT ON COLUMN idem_scope_settings.source IS
'Where it comes from: scope; family; ring (of a scope in a ring, the retention replaces ttl and keep_forever); default, which for ttl, lease and max_response_size is the setting idem.default_ttl, idem.default_lease or idem.max_response_size of the session that asks.';

CREATE FUNCTION idem_scope_sizes(OUT scope text, OUT keys bigint, OUT bytes bigint)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100 COST 100000 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_scope_sizes() IS
'Counts the keys of each scope that the caller may use, registered or not, also in rings, and the bytes of their rows, without indexes and dead rows. Keys that have expired count until they are swept. Reads all keys: for a report at night. Operators.';
