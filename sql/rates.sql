-- Rate limits.

CREATE FUNCTION idem_allow(name text, rate double precision, burst integer, cost integer DEFAULT 1, scope text DEFAULT '',
                           OUT allowed boolean, OUT remaining integer, OUT retry_after interval)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_allow(text, double precision, integer, integer, text) IS
'Whether there is room for cost units under this name, and if so takes them: a token bucket that holds burst units and gets rate units a second (GCRA). In no span of time are more than burst + rate * span let through, however many ask at once. remaining: whole units left; retry_after: until there would be room, NULL when allowed.
Transactional: a rollback gives the units back, and until the commit others who ask for the same name wait. So ask in a transaction of its own, before the work. A call that is refused writes nothing, except once after the clock was set back. A changed rate or burst holds from the next call on: what is owed is then at most the burst, at the present rate. Names share no space with keys, locks and counters; a row per name, swept when its bucket is full.
Errors: 22004 an argument is null; 22023 name empty or over 1024 bytes, scope over 255 bytes, rate not positive or over 1e9, burst or cost not positive, cost over burst; 25006 in a read-only transaction; 42501 scope of another owner.';
