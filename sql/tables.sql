-- Where keys, tokens, locks, scopes, counters and state machines live. All access goes through the functions.

-- The columns that every row has come first: that keeps rows small and reading them cheap.
CREATE TABLE idem_keys (
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    attempt          integer     NOT NULL,
    state            "char"      NOT NULL CHECK (state IN ('p', 'c', 'r', 'd')),
    scope            text COLLATE "C" NOT NULL,
    key              text COLLATE "C" NOT NULL,
    lease_until      timestamptz,
    fence            bigint,
    status_code      integer,
    response_omitted boolean,
    owner            text COLLATE "C",
    fingerprint      bytea,
    recovery_point   text,
    response         jsonb,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

COMMENT ON TABLE idem_keys IS
'Idempotency keys: one row for each key in its scope. No column that changes is indexed, and pages keep some room, so that completions are heap-only updates. Read it freely; change it only by the functions. User triggers and row-level security on it have no effect on them.';
COMMENT ON COLUMN idem_keys.created_at IS 'When the current attempt was claimed (database time).';
COMMENT ON COLUMN idem_keys.expires_at IS 'When the retention ends; infinity: never.';
COMMENT ON COLUMN idem_keys.attempt IS 'Which attempt at the work this is, from 1.';
COMMENT ON COLUMN idem_keys.state IS 'p: in progress (leased), c: completed, r: released, d: in doubt.';
COMMENT ON COLUMN idem_keys.scope IS 'The space in which the key is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_keys.key IS 'The key; 1 to 1024 bytes.';
COMMENT ON COLUMN idem_keys.lease_until IS 'When the holder''s lease ends; NULL in transactional mode.';
COMMENT ON COLUMN idem_keys.fence IS 'Fencing token of the last holder; NULL in transactional mode.';
COMMENT ON COLUMN idem_keys.status_code IS 'Status code stored with the response.';
COMMENT ON COLUMN idem_keys.response_omitted IS 'True when the response was too large to be stored, otherwise NULL.';
COMMENT ON COLUMN idem_keys.owner IS 'The holder''s nonce, if it gave one.';
COMMENT ON COLUMN idem_keys.fingerprint IS 'Hash of the request that claimed the key, if it gave one.';
COMMENT ON COLUMN idem_keys.recovery_point IS 'Where the attempt said it had come to.';
COMMENT ON COLUMN idem_keys.response IS 'The stored response.';

-- Tokens and locks are kept as keys are, each in a table of its own, so that no name of one is in the way of another's.
CREATE TABLE idem_tokens (
    LIKE idem_keys INCLUDING COMMENTS INCLUDING INDEXES, CHECK (state IN ('p', 'c', 'r', 'd'))
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
COMMENT ON TABLE idem_tokens IS
'Redeemed tokens: a space of names apart from the keys, with the same columns. Change it only by the functions.';
COMMENT ON COLUMN idem_tokens.scope IS 'The scope that the token was issued for.';
COMMENT ON COLUMN idem_tokens.key IS 'What tells the token from every other.';

-- A lock's row changes hands again and again: leave half of each page for that.
CREATE TABLE idem_locks (
    LIKE idem_keys INCLUDING COMMENTS INCLUDING INDEXES, CHECK (state IN ('p', 'c', 'r', 'd'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE idem_locks IS
'Lease locks: one row for each name in its scope, kept for a day beyond its last lease; a space of names apart from the keys, with the same columns. Change it only by the functions.';
COMMENT ON COLUMN idem_locks.created_at IS 'When the lock was last taken (database time).';
COMMENT ON COLUMN idem_locks.expires_at IS 'From when on the row of a lock that nobody holds may be deleted.';
COMMENT ON COLUMN idem_locks.attempt IS 'How often the lock was taken, as long as the row has been there.';
COMMENT ON COLUMN idem_locks.state IS 'p: taken, r: free.';
COMMENT ON COLUMN idem_locks.scope IS 'The space in which the name is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_locks.key IS 'The lock''s name; 1 to 1024 bytes.';
COMMENT ON COLUMN idem_locks.lease_until IS 'When the holder''s lease ends, or ended; NULL when the lock is free.';
COMMENT ON COLUMN idem_locks.fence IS 'Fencing token of the last holder.';

-- A bucket is a row that changes with every call that it lets through: leave half of each page for that.
CREATE TABLE idem_rates (
    expires_at timestamptz NOT NULL,
    as_of      timestamptz NOT NULL,
    full_at    bigint      NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE idem_rates IS
'Token buckets of idem_allow: one row for each name in its scope, until the bucket is full again; a space of names apart from the keys. Change it only by the functions.';
COMMENT ON COLUMN idem_rates.expires_at IS 'When the bucket is full again.';
COMMENT ON COLUMN idem_rates.as_of IS 'When units were last taken (database time).';
COMMENT ON COLUMN idem_rates.full_at IS 'When the bucket is full again, in nanoseconds since 2000-01-01 UTC.';
COMMENT ON COLUMN idem_rates.scope IS 'The space in which the name is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_rates.key IS 'The name; 1 to 1024 bytes.';

CREATE TABLE idem_scopes (
    scope                text COLLATE "C" PRIMARY KEY,
    ttl                  interval,
    keep_forever         boolean,
    lease                interval,
    on_lease_expiry      text CHECK (on_lease_expiry IN ('takeover', 'manual')),
    max_response_size    integer CHECK (max_response_size >= 0),
    owner                regrole,
    missing_key_status   integer CHECK (missing_key_status BETWEEN 400 AND 599),
    malformed_key_status integer CHECK (malformed_key_status BETWEEN 400 AND 599),
    mismatch_status      integer CHECK (mismatch_status BETWEEN 400 AND 599),
    in_flight_status     integer CHECK (in_flight_status BETWEEN 400 AND 599),
    in_doubt_status      integer CHECK (in_doubt_status BETWEEN 400 AND 599),
    stored_headers       text[]
);
COMMENT ON TABLE idem_scopes IS 'Policies of the scopes that have one (idem_scope_set, idem_http_scope_set). NULL: the setting applies.';
COMMENT ON COLUMN idem_scopes.scope IS 'The scope.';
COMMENT ON COLUMN idem_scopes.ttl IS 'How long its keys stay unique; NULL: idem.default_ttl.';
COMMENT ON COLUMN idem_scopes.keep_forever IS 'True: its keys never expire, whatever ttl a call gives.';
COMMENT ON COLUMN idem_scopes.lease IS 'How long a lease lasts when the call does not say; NULL: idem.default_lease.';
COMMENT ON COLUMN idem_scopes.on_lease_expiry IS 'takeover: the next caller takes a lapsed key over; manual: it is in doubt until an operator decides.';
COMMENT ON COLUMN idem_scopes.max_response_size IS 'The largest response stored, in bytes; NULL: idem.max_response_size.';
COMMENT ON COLUMN idem_scopes.owner IS 'Only roles with this role''s privileges may use the scope; NULL or -: everybody.';
COMMENT ON COLUMN idem_scopes.missing_key_status IS 'Status of idem_http_begin for a request without a key; NULL: 400.';
COMMENT ON COLUMN idem_scopes.malformed_key_status IS 'The same for a key that is malformed; NULL: 400.';
COMMENT ON COLUMN idem_scopes.mismatch_status IS 'The same for a key of another request; NULL: 422.';
COMMENT ON COLUMN idem_scopes.in_flight_status IS 'The same for a key whose request is being processed; NULL: 409.';
COMMENT ON COLUMN idem_scopes.in_doubt_status IS 'The same for a key that is in doubt; NULL: 409.';
COMMENT ON COLUMN idem_scopes.stored_headers IS 'The header fields that idem_http_complete stores; NULL: those that docs/http.md lists.';

CREATE TABLE idem_counters (
    expires_at timestamptz NOT NULL,
    hits       bigint      NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 70);
COMMENT ON TABLE idem_counters IS 'What idem_hit counts: a space of names apart from the keys.';
COMMENT ON COLUMN idem_counters.expires_at IS 'When the counter''s window ends and it starts again.';
COMMENT ON COLUMN idem_counters.hits IS 'How often the key was seen in this window.';
COMMENT ON COLUMN idem_counters.scope IS 'The scope.';
COMMENT ON COLUMN idem_counters.key IS 'The key.';

CREATE TABLE idem_machines (
    name       text COLLATE "C" PRIMARY KEY,
    definition jsonb NOT NULL
);
COMMENT ON TABLE idem_machines IS 'State machines (idem_machine_define). Read it freely; change it only by the functions, which check the rows of the attached tables.';
COMMENT ON COLUMN idem_machines.name IS 'The machine''s name; 1 to 255 bytes.';
COMMENT ON COLUMN idem_machines.definition IS 'Its definition, as it was given.';

CREATE TABLE idem_transition_log (
    target       text NOT NULL,
    key          jsonb NOT NULL,
    state_column text NOT NULL,
    from_state   text,
    to_state     text NOT NULL,
    at           timestamptz NOT NULL,
    by           text NOT NULL
);
-- A B-tree would refuse keys over 2,704 bytes, and with them the row's transition.
CREATE INDEX idem_transition_log_key ON idem_transition_log USING hash (key);
COMMENT ON TABLE idem_transition_log IS
'Moves of the rows of tables that were attached with log => true, in the transaction that made them. Nothing deletes from it. User triggers and row-level security on it have no effect on the guard that writes it.';
COMMENT ON COLUMN idem_transition_log.target IS 'The table that the machine is attached to: schema and name, quoted where needed.';
COMMENT ON COLUMN idem_transition_log.key IS 'Which row: {"column": value, ...} of its primary key, or of its first usable unique index.';
COMMENT ON COLUMN idem_transition_log.state_column IS 'The state column.';
COMMENT ON COLUMN idem_transition_log.from_state IS 'The state before; NULL: the row was inserted.';
COMMENT ON COLUMN idem_transition_log.to_state IS 'The state after.';
COMMENT ON COLUMN idem_transition_log.at IS 'When the guard saw the move (database time, not the transaction''s start).';
COMMENT ON COLUMN idem_transition_log.by IS 'The current user.';
COMMENT ON INDEX idem_transition_log_key IS 'Finds a row''s history: WHERE key = ''{"id": 1}''.';

-- No key, so no index: rows are few, and are written past it. No statistics: they would have secrets in them.
CREATE TABLE idem_token_secrets (
    key_id     integer     NOT NULL,
    database   oid         NOT NULL,
    created_at timestamptz NOT NULL,
    secret     bytea       NOT NULL
);
ALTER TABLE idem_token_secrets ALTER key_id SET STATISTICS 0, ALTER database SET STATISTICS 0,
    ALTER created_at SET STATISTICS 0, ALTER secret SET STATISTICS 0, ALTER secret SET STORAGE PLAIN;
COMMENT ON TABLE idem_token_secrets IS
'What tokens are signed with. Not dumped: after a restore from a dump, outstanding tokens are invalid. Change it only by idem_token_rotate_secret; whoever can read it can make tokens.';
COMMENT ON COLUMN idem_token_secrets.key_id IS 'What tokens name their secret by; the greatest one signs.';
COMMENT ON COLUMN idem_token_secrets.database IS 'The database that made it; a copy of that database makes its own.';
COMMENT ON COLUMN idem_token_secrets.created_at IS 'When it was made. Its predecessor verifies for eight days from then on.';
COMMENT ON COLUMN idem_token_secrets.secret IS 'The key of HMAC-SHA256.';

-- As with idem_token_secrets: no index, no statistics, nothing that could carry a secret away.
CREATE TABLE idem_api_keys (
    key_id     text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    secret     bytea       NOT NULL
);
ALTER TABLE idem_api_keys ALTER key_id SET STATISTICS 0, ALTER created_at SET STATISTICS 0, ALTER expires_at SET STATISTICS 0,
    ALTER secret SET STATISTICS 0, ALTER secret SET STORAGE PLAIN;
COMMENT ON TABLE idem_api_keys IS
'What signed requests are verified with. Not dumped: set the secrets again after a restore. Change it only by idem_api_key_set and idem_api_key_drop; whoever can read it can sign.';
COMMENT ON COLUMN idem_api_keys.key_id IS 'What requests name their secret by; 1 to 255 bytes.';
COMMENT ON COLUMN idem_api_keys.created_at IS 'When it was set.';
COMMENT ON COLUMN idem_api_keys.expires_at IS 'Until when it verifies; infinity: until it is replaced.';
COMMENT ON COLUMN idem_api_keys.secret IS 'The key of HMAC-SHA256; of one over 64 bytes, its SHA-256, which gives the same.';

CREATE SEQUENCE idem_fence_high_water;
COMMENT ON SEQUENCE idem_fence_high_water IS
'How far fencing tokens have come, and been reserved. Only the page is a sequence''s: nextval is never called on it, as a sequence issues values twice after a crash.';

CREATE SEQUENCE idem_id_high_water;
COMMENT ON SEQUENCE idem_id_high_water IS
'How far the numbers of idem_next_id have come, and been reserved: kept as idem_fence_high_water is. nextval is never called on it.';

-- Keys, tokens, locks, rates, policies, machines, histories and the high-water marks are the user's data: dump them. Secrets are not: never dump them.
SELECT pg_catalog.pg_extension_config_dump('idem_keys', '');
SELECT pg_catalog.pg_extension_config_dump('idem_tokens', '');
SELECT pg_catalog.pg_extension_config_dump('idem_locks', '');
SELECT pg_catalog.pg_extension_config_dump('idem_rates', '');
SELECT pg_catalog.pg_extension_config_dump('idem_scopes', '');
SELECT pg_catalog.pg_extension_config_dump('idem_counters', '');
SELECT pg_catalog.pg_extension_config_dump('idem_machines', '');
SELECT pg_catalog.pg_extension_config_dump('idem_transition_log', '');
SELECT pg_catalog.pg_extension_config_dump('idem_fence_high_water', '');
SELECT pg_catalog.pg_extension_config_dump('idem_id_high_water', '');

-- Sessions keep what scopes and machines say in memory.
CREATE FUNCTION idem_definitions_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_definitions_changed() IS 'Internal: makes every session read the table again.';

-- For each row: a subscriber of logical replication fires no others.
CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON idem_scopes
    FOR EACH ROW EXECUTE FUNCTION idem_definitions_changed();
CREATE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON idem_scopes
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_scopes ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated;
COMMENT ON TRIGGER idem_definitions_changed ON idem_scopes IS 'Makes every session read the table again.';
COMMENT ON TRIGGER idem_definitions_truncated ON idem_scopes IS 'Makes every session read the table again.';

CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON idem_machines
    FOR EACH ROW EXECUTE FUNCTION idem_definitions_changed();
CREATE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON idem_machines
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_machines ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated;
COMMENT ON TRIGGER idem_definitions_changed ON idem_machines IS 'Makes every session read the table again.';
COMMENT ON TRIGGER idem_definitions_truncated ON idem_machines IS 'Makes every session read the table again.';
