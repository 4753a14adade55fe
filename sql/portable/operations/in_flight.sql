-- Those that a transaction holds are not to be seen from another one: only leased keys, and those in doubt.
CREATE FUNCTION idem_in_flight LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    now     CONSTANT timestamptz := clock_timestamp();
    owned   record;
    others  text[] := '{}'; -- scopes that the caller may not use
BEGIN
    FOR owned IN SELECT s.scope, s.owner FROM ONLY idem_scopes s WHERE s.owner IS NOT NULL LOOP
        IF NOT _idem_may_use(owned.owner) THEN
            others := others || owned.scope;
        END IF;
    END LOOP;
    RETURN QUERY
    SELECT k.scope, k.key, 'leased', NULL::integer, k.created_at, k.lease_until
      FROM ONLY idem_keys k LEFT JOIN ONLY idem_scopes s ON s.scope = k.scope
     WHERE k.state IN ('p', 'd') AND k.scope <> ALL (others)
       AND NOT (k.expires_at <= now AND k.state = 'p' AND k.lease_until <= now AND s.on_lease_expiry IS DISTINCT FROM 'manual');
END
$$;
