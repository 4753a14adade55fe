-- Those that a transaction holds are not to be seen from another one: only leased keys, and those in doubt.
CREATE FUNCTION idem_in_flight LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    now     CONSTANT timestamptz := clock_timestamp();
    holder  oid;
    others  oid[] := '{}'; -- owners whose scopes the caller may not use
BEGIN
    FOR holder IN SELECT DISTINCT s.owner FROM ONLY idem_scopes s WHERE s.owner IS NOT NULL LOOP
        IF NOT _idem_may_use(holder) THEN
            others := others || holder;
        END IF;
    END LOOP;
    RETURN QUERY
    SELECT k.scope, k.key, 'leased', NULL::integer, k.created_at, k.lease_until
      FROM ONLY idem_keys k LEFT JOIN ONLY idem_scopes s ON s.scope = k.scope
           LEFT JOIN ONLY idem_scopes f ON f.scope = CASE WHEN strpos(k.scope, '/') > 1 THEN split_part(k.scope, '/', 1) END -- workers of Citus have no _idem_family
     WHERE k.state IN ('p', 'd') AND coalesce(s.owner, f.owner, 0) <> ALL (others)
       AND NOT (k.expires_at <= now AND k.state = 'p' AND k.lease_until <= now AND coalesce(s.on_lease_expiry, f.on_lease_expiry) IS DISTINCT FROM 'manual');
END
$$;
