-- There is no library. What claims rest on are tables that are logged and their unique indexes; the others of idem's objects are not checked.
CREATE FUNCTION idem_health_library LANGUAGE sql AS $$
    SELECT NULL::text, NULL::text, NULL::boolean, string_agg(format('%s %s', name, trouble), '; ' ORDER BY name)
      FROM (SELECT name, CASE WHEN c.oid IS NULL THEN 'is missing'
                              WHEN c.relkind <> 'r' THEN NULL
                              WHEN c.relpersistence <> 'p' THEN 'is not logged'
                              WHEN c.relforcerowsecurity THEN 'has row security that holds for its owner'
                              WHEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND NOT (i.indisvalid AND i.indisready)) THEN 'has an invalid index'
                              WHEN name <> ALL ('{idem_transition_log,idem_token_secrets,idem_api_keys,idem_webhook_sources}')
                                   AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique) THEN 'has no unique index'
                         END AS trouble
              FROM unnest('@relations@'::text[]) AS name LEFT JOIN pg_class c ON c.oid = to_regclass('@extschema@.' || name)
             WHERE name NOT LIKE '\_idem\_%') checked
     WHERE trouble IS NOT NULL
$$;
