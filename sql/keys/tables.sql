-- The table of keys. All access goes through the functions.

-- NOT NULL columns come first, which keeps rows small and cheap to read.
CREATE TABLE idem_keys (
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    attempt          integer     NOT NULL,
    state            "char"      NOT NULL CHECK (state IN ('p', 'c', 'r', 'd')),
    scope            text COLLATE "C" NOT NULL,
    key              text COLLATE "C" NOT NULL,
    lease_until      timestamptz,
    fence            bigint,
    completed_at     timestamptz,
    status_code      integer,
    response_omitted boolean,
    owner            text COLLATE "C",
    fingerprint      bytea,
    steps            jsonb,
    response         jsonb,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

COMMENT ON TABLE idem_keys IS
'Idempotency keys: one row for each key in its scope. No column that changes is indexed, and pages keep some room, so that completions are heap-only updates. The extension''s owner may read it; change it only by the functions. User triggers and row-level security on it have no effect on the functions.';
COMMENT ON COLUMN idem_keys.created_at IS 'When the current attempt was claimed (database time).';
COMMENT ON COLUMN idem_keys.expires_at IS 'When the retention ends; infinity: never.';
COMMENT ON COLUMN idem_keys.attempt IS 'Number of this attempt at the work, from 1.';
COMMENT ON COLUMN idem_keys.state IS 'p: in progress (leased), c: completed, r: released, d: in doubt.';
COMMENT ON COLUMN idem_keys.scope IS 'The space in which the key is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_keys.key IS 'The key; 1 to 1024 bytes.';
COMMENT ON COLUMN idem_keys.lease_until IS 'When the holder''s lease ends; NULL in transactional mode.';
COMMENT ON COLUMN idem_keys.fence IS 'Fencing token of the last holder; NULL in transactional mode.';
COMMENT ON COLUMN idem_keys.completed_at IS 'When a call completed the key; NULL for a claim that its commit alone completed, where created_at serves instead.';
COMMENT ON COLUMN idem_keys.status_code IS 'Status code stored with the response.';
COMMENT ON COLUMN idem_keys.response_omitted IS 'True when the response was too large to be stored, or was removed (response_ttl of the scope, idem_redact); otherwise NULL.';
COMMENT ON COLUMN idem_keys.owner IS 'The holder''s nonce, if it gave one.';
COMMENT ON COLUMN idem_keys.fingerprint IS 'Hash of the request that claimed the key, if it gave one.';
COMMENT ON COLUMN idem_keys.steps IS 'The steps of a leased key''s work: {"step": its output, or null while it is intended}.';
COMMENT ON COLUMN idem_keys.response IS 'The stored response.';

SELECT pg_catalog.pg_extension_config_dump('idem_keys', '');
