-- Counters.

CREATE TABLE idem_counters (
    expires_at timestamptz NOT NULL,
    hits       bigint      NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 70);
COMMENT ON TABLE idem_counters IS 'The counters of idem_hit: a space of names apart from the keys.';
COMMENT ON COLUMN idem_counters.expires_at IS 'When the counter''s window ends; a later hit starts a new one.';
COMMENT ON COLUMN idem_counters.hits IS 'Number of hits in this window.';
COMMENT ON COLUMN idem_counters.scope IS 'The scope.';
COMMENT ON COLUMN idem_counters.key IS 'The key.';

SELECT pg_catalog.pg_extension_config_dump('idem_counters', '');

CREATE FUNCTION idem_hit(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_hit(text, interval, text) IS
'Counts a hit of this key, and returns the number of hits within its ttl, this one included: 1 is the first. The window starts at the first hit. Counters share no names with claimed keys. Transactional: a rollback takes the hit back, and concurrent hits of one key wait for each other.';

CREATE FUNCTION idem_hits(key text, scope text DEFAULT '', OUT hits bigint, OUT expires_at timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL SAFE ROWS 1 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_hits(text, text) IS
'Returns the hits that idem_hit has counted for this key in its present window, and when the window ends, without counting. No row: the key was never seen, or its window is over. Never waits; works on a hot standby.
Errors: 22004 key is null; 22023 key empty or over 1024 bytes, scope over 255 bytes; 42501 scope of another owner.';
