-- Keys whose work is not done yet.

CREATE FUNCTION idem_in_flight(OUT scope text, OUT key text, OUT mode text, OUT pid integer, OUT since timestamptz, OUT lease_until timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100 COST 100000 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_in_flight() IS
'Lists the keys whose work is in progress: those that a transaction claimed, changed or deleted and has not committed, and those that are leased or in doubt. pid: the process of the transaction; NULL if the transaction is prepared, and for keys that are leased or in doubt. lease_until: the end of the lease, which may have passed. mode: transactional or leased. since: when the key was claimed. In physical order, for the scopes that the caller may use.
The result is not a snapshot: a key that changes its holder during the call may be returned twice, or not at all. On a standby only committed keys are visible: those that are leased or in doubt. Reads the whole table idem_keys once, and the windows of rings, mostly without filling the cache. Does not wait for holders, writes nothing, and can be cancelled. Operators.';
