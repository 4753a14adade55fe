-- Who may call what. Nothing that touches idem's tables is PUBLIC's; applications and operators are two grants.

CREATE FUNCTION idem_functions(operator boolean)
RETURNS SETOF regprocedure LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.oid::regprocedure
    FROM pg_depend d
    JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
    JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
    WHERE e.extname = 'idem'
      -- Guards are put on the callers' own tables.
      AND (p.prorettype <> 'trigger'::regtype OR p.proname LIKE 'idem\_%\_guard')
      AND p.proname NOT IN ('idem_functions', 'idem_grant', 'idem_revoke', 'idem_health_library', 'idem_health_sample')
      AND NOT has_function_privilege('public', p.oid, 'EXECUTE')
      AND (p.proname IN ('idem_forget', 'idem_resolve', 'idem_scope_set', 'idem_scope_drop', 'idem_machine_define',
                         'idem_machine_drop', 'idem_token_rotate_secret', 'idem_api_key_set', 'idem_api_key_drop',
                         'idem_http_scope_set', 'idem_outbox_retry', 'idem_outbox_discard', 'idem_outbox_dead_letters',
                         'idem_sweep', 'idem_sweep_status', 'idem_stats_reset', 'idem_in_flight', 'idem_health')) = operator
$$;
COMMENT ON FUNCTION idem_functions(boolean) IS
'The functions of one of the two sets that idem_grant hands out: false, those for applications; true, those that operators get besides.';

CREATE FUNCTION idem_grant(role regrole, operator boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home     regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'idem');
    function regprocedure;
BEGIN
    IF role IS NULL OR operator IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role and operator must not be null';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE oid = role) THEN
        RAISE undefined_object USING MESSAGE = format('role with OID %s does not exist', role::oid);
    END IF;
    IF NOT has_schema_privilege(role, home, 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', home, role);
    END IF;
    FOR function IN EXECUTE
        format('SELECT %1$s.idem_functions(false) UNION ALL SELECT %1$s.idem_functions(true) WHERE $1', home) USING operator
    LOOP
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %s', function, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_grant(regrole, boolean) IS
'Lets a role use idem: the functions for applications, and with operator => true also those for operators. Grants USAGE on the extension''s schema where it is missing. To be called by the extension''s owner or a superuser.';

CREATE FUNCTION idem_revoke(role regrole)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home     regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'idem');
    function regprocedure;
BEGIN
    IF role IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role must not be null';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE oid = role) THEN
        RAISE undefined_object USING MESSAGE = format('role with OID %s does not exist', role::oid);
    END IF;
    FOR function IN EXECUTE
        format('SELECT %1$s.idem_functions(false) UNION ALL SELECT %1$s.idem_functions(true)', home)
    LOOP
        EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM %s', function, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_revoke(regrole) IS 'Takes back what idem_grant gave, except USAGE on the schema. To be called by the extension''s owner or a superuser.';

DO $$
DECLARE
    function regprocedure;
BEGIN
    -- The path of CREATE EXTENSION is this schema, where others may have made an operator that fits better than pg_catalog's.
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOR function IN
        SELECT p.oid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
        JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
        WHERE e.extname = 'idem'
          AND p.proname NOT IN ('idem_key', 'idem_fingerprint', 'idem_fingerprint_text', 'idem_fingerprint_bytes',
                                'idem_next_id', 'idem_id_parts', 'idem_uuid_v7', 'idem_can_transition', 'idem_check_transition',
                                'idem_request_message', 'idem_http_key')
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', function);
    END LOOP;
END
$$;
