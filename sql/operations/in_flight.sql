-- Whose work is not done yet.

CREATE FUNCTION idem_in_flight(OUT scope text, OUT key text, OUT mode text, OUT pid integer, OUT since timestamptz, OUT lease_until timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100 COST 100000 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_in_flight() IS
'The keys that somebody is working on: those that a transaction claimed, changed or deleted and has not committed (pid: its process; NULL: it is prepared), and those that are leased or in doubt (pid is NULL, lease_until may have passed). mode: transactional or leased; since: when it was claimed. In order of place, for the scopes that the caller may use.
Shows the moment, not the snapshot: a key that changes hands meanwhile may be shown twice, or not at all. On a standby only what is committed and leased. Reads the whole table idem_keys once, and the windows of rings, past the cache for the most part; waits for nobody, writes nothing, can be cancelled. Operators.';
