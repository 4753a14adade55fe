-- Counters.

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

SELECT pg_catalog.pg_extension_config_dump('idem_counters', '');

CREATE FUNCTION idem_hit(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_hit(text, interval, text) IS
'How often this key was seen within its ttl, this time included: 1 is the first. The window starts at the first hit. Counters share no names with claimed keys. Transactional: a rollback takes the hit back, and concurrent hits of one key queue.';

CREATE FUNCTION idem_hits(key text, scope text DEFAULT '', OUT hits bigint, OUT expires_at timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL SAFE ROWS 1 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_hits(text, text) IS
'What idem_hit has counted for this key in its present window, and when that ends, without counting. No row: never seen, or the window is over. Waits for nothing, and works on a hot standby.
Errors: 22004 key is null; 22023 key empty or over 1024 bytes, scope over 255 bytes; 42501 scope of another owner.';
