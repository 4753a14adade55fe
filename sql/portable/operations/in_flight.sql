-- Those that a transaction holds are not to be seen from another one: only leased keys, and those in doubt.
CREATE FUNCTION idem_in_flight LANGUAGE sql SECURITY DEFINER AS $$
    SELECT k.scope, k.key, 'leased', NULL::integer, k.created_at, k.lease_until
      FROM ONLY idem_keys k LEFT JOIN ONLY idem_scopes s ON s.scope = k.scope
     WHERE k.state IN ('p', 'd') AND _idem_may_use(s.owner) AND NOT _idem_is_expired(k, clock_timestamp(), s.on_lease_expiry IS NOT DISTINCT FROM 'manual')
$$;
