-- Those that a transaction holds are not to be seen from another one: only leased keys, and those in doubt.
CREATE FUNCTION idem_in_flight LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    usable CONSTANT oid[] := _idem_usable_owners();
    now    CONSTANT timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT k.scope, k.key, 'leased', NULL::integer, k.created_at, k.lease_until
      FROM ONLY idem_keys k LEFT JOIN ONLY idem_scopes s ON s.scope = k.scope
     WHERE k.state IN ('p', 'd') AND coalesce(s.owner, 0) = ANY (usable)
       AND NOT (k.expires_at <= now AND k.state = 'p' AND k.lease_until <= now AND s.on_lease_expiry IS DISTINCT FROM 'manual');
END
$$;
