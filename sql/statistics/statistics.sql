-- Outcomes, counted for each scope: in shared memory, so only when the library is preloaded.

CREATE FUNCTION idem_stats_counters(OUT scope text, OUT is_other boolean, OUT acquired bigint, OUT duplicates bigint, OUT in_flight bigint,
                                    OUT in_doubt bigint, OUT mismatches bigint, OUT takeovers bigint, OUT stale_fences bigint,
                                    OUT swept bigint)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_stats_counters() IS 'Internal: the rows of the view idem_stats.';

CREATE VIEW idem_stats AS
    SELECT scope, acquired, duplicates, in_flight, in_doubt, mismatches, takeovers, stale_fences, swept, is_other
      FROM idem_stats_counters();
COMMENT ON VIEW idem_stats IS
'Outcomes in each scope of this database since idem_stats_reset, or since the counters began; keys, tokens and locks of a scope together. Empty unless idem is in shared_preload_libraries.
An outcome is counted when it is returned, also in a transaction that rolls back afterwards: a claim that is rolled back and repeated counts as acquired twice. A call that ends in an error other than ID001, ID005 or ID006 is not counted.
Counters survive a restart of the server, not a crash. A scope with an owner is shown to roles that have the owner''s privileges. Scopes beyond idem.stats_max_scopes are counted together, in a row with is_other.';
COMMENT ON COLUMN idem_stats.scope IS 'The scope; NULL where is_other.';
COMMENT ON COLUMN idem_stats.acquired IS 'Claims that were granted: keys, tokens, locks; not counting takeovers.';
COMMENT ON COLUMN idem_stats.duplicates IS 'Claims of keys whose work had committed, and of tokens that were redeemed.';
COMMENT ON COLUMN idem_stats.in_flight IS 'Claims that found another holder, also where the call raises ID005; locks that were busy.';
COMMENT ON COLUMN idem_stats.in_doubt IS 'Claims of keys in doubt, also where the call raises ID005.';
COMMENT ON COLUMN idem_stats.mismatches IS 'Claims with a fingerprint other than the stored one.';
COMMENT ON COLUMN idem_stats.takeovers IS 'Claims that took over from a holder whose lease had run out.';
COMMENT ON COLUMN idem_stats.stale_fences IS 'Changes that were rejected because the fence was not, or no longer, the holder''s: ID001, and false from idem_lock_renew and idem_unlock.';
COMMENT ON COLUMN idem_stats.swept IS 'Expired keys, redeemed tokens and locks that were swept.';
COMMENT ON COLUMN idem_stats.is_other IS 'True: the row is not one scope, but all scopes beyond idem.stats_max_scopes.';

CREATE FUNCTION idem_stats_reset() RETURNS void LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_stats_reset() IS
'Sets the counters of idem_stats to zero, in this database, for the scopes that the caller may use. Takes effect at once; a rollback does not undo it. Operators.';
