-- Rate limits.

-- Each call that is allowed changes the row of its bucket: leave half of each page for that.
CREATE TABLE idem_rates (
    expires_at timestamptz NOT NULL,
    as_of      timestamptz NOT NULL,
    full_at    bigint      NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE idem_rates IS
'Token buckets of idem_allow: one row for each name in its scope, until the bucket is full again. The names are apart from the keys. Change it only by the functions.';
COMMENT ON COLUMN idem_rates.expires_at IS 'When the bucket is full again.';
COMMENT ON COLUMN idem_rates.as_of IS 'When units were last taken (database time).';
COMMENT ON COLUMN idem_rates.full_at IS 'When the bucket is full again, in nanoseconds since 2000-01-01 UTC.';
COMMENT ON COLUMN idem_rates.scope IS 'The space in which the name is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_rates.key IS 'The name; 1 to 1024 bytes.';

SELECT pg_catalog.pg_extension_config_dump('idem_rates', '');

CREATE FUNCTION idem_allow(name text, rate double precision, burst integer, cost integer DEFAULT 1, scope text DEFAULT '',
                           OUT allowed boolean, OUT remaining integer, OUT retry_after_ms integer)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_allow(text, double precision, integer, integer, text) IS
'Takes cost units from the token bucket of this name, or none if there is no room; the bucket holds burst units and regains rate units a second (GCRA). In any span of time at most burst + rate * span units are allowed, however many callers ask at once. remaining: whole units left. retry_after_ms: milliseconds until there would be room, at most 2147483647 (25 days); NULL when allowed.
Transactional: a rollback gives the units back, and other callers that ask for the same name wait until this transaction ends. So call it in a transaction of its own, before the work. A call that is rejected writes nothing, except once after the clock was set back. A changed rate or burst takes effect with the next call; the debt is then at most burst units, at the new rate. Names share no space with keys, locks and counters. Each name has one row, which is swept when its bucket is full.
Errors: 22004 name, rate or burst is null; 22023 name empty or over 1024 bytes, scope over 255 bytes, rate not positive or over 1e9, burst or cost not positive, cost over burst; 25006 in a read-only transaction; 42501 scope of another owner.';
