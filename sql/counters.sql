-- Counters.

CREATE FUNCTION idem_hit(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_hit(text, interval, text) IS
'How often this key was seen within its ttl, this time included: 1 is the first. The window starts at the first hit. Counters share no names with claimed keys. Transactional: a rollback takes the hit back, and concurrent hits of one key queue.';
