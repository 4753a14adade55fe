-- Which roles may use which objects. Nothing that touches idem's tables is for PUBLIC; applications and operators have separate grants.

CREATE FUNCTION idem_objects(OUT classid regclass, OUT objid oid, OUT is_new boolean, OUT is_inner boolean)
RETURNS SETOF record LANGUAGE sql STABLE PARALLEL SAFE ROWS 150
SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.classid, d.objid, d.xmin = e.xmin, false
      FROM pg_extension e JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
     WHERE e.extname = 'idem'
$$;
COMMENT ON FUNCTION idem_objects() IS
'Internal, for idem_members: each object of the extension. is_new: it was created by the installation or by the last update. is_inner: a helper of the portable edition that only functions with the owner''s rights call.';

-- The only list of audiences. A function that it does not name is for applications, a relation that it does not name is for the owner alone.
-- From PostgreSQL 17 on, the types of rows and arrays are members, too; they have no privileges of their own. The query is parsed when it runs: BEGIN
-- ATOMIC would bind it to operators that somebody has put into the schema before the installation.
CREATE FUNCTION idem_members(OUT objid oid, OUT kind text, OUT name text, OUT audience text, OUT privilege text, OUT owner oid, OUT acl aclitem[],
                             OUT is_new boolean)
RETURNS SETOF record LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 150
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE format($query$
        WITH members AS (SELECT * FROM %s.idem_objects())
        SELECT objid, 'ROUTINE', objid::regprocedure::text,
               CASE WHEN is_inner THEN 'owner'
                    -- Other helpers of the portable edition run with their callers' rights.
                    WHEN proname LIKE '\_idem\_%%' AND NOT prosecdef THEN 'public'
                    WHEN proname IN ('idem_key', 'idem_fingerprint', 'idem_fingerprint_text', 'idem_fingerprint_bytes', 'idem_next_id',
                                     'idem_id_parts', 'idem_uuid_v7', 'idem_can_transition', 'idem_check_transition', 'idem_request_message',
                                     'idem_version') THEN 'public'
                    -- Guards are created on the callers' own tables.
                    WHEN prorettype = 'trigger'::regtype AND proname NOT LIKE 'idem\_%%\_guard'
                      OR proname IN ('idem_objects', 'idem_members', 'idem_set_privileges', 'idem_unintended_privileges', 'idem_grant', 'idem_revoke',
                                     'idem_health_library', 'idem_ring_adopt', 'idem_ring_check', 'idem_ring_filters', 'idem_filter_handler', 'idem_citus_distribute') THEN 'owner'
                    WHEN proname IN ('idem_forget', 'idem_resolve', 'idem_redact', 'idem_scope_set', 'idem_scope_reset', 'idem_scope_drop', 'idem_scope_rings', 'idem_scope_sizes', 'idem_machine_define', '_idem_machine_store',
                                     'idem_machine_drop', 'idem_token_rotate_secret', 'idem_api_key_set', 'idem_api_key_drop',
                                     'idem_webhook_source_set', 'idem_webhook_source_drop',
                                     'idem_ring_create', 'idem_ring_drop', 'idem_ring_rebuild_filter', 'idem_ring_windows',
                                     'idem_citus_colocate', 'idem_http_profiles', 'idem_http_scope_set', 'idem_outbox_retry', 'idem_outbox_discard', 'idem_outbox_dead_letters', 'idem_outbox_backlog',
                                     'idem_sweep', 'idem_sweep_status', '_idem_sweep_begin', '_idem_sweep_batch', '_idem_sweep_tell', 'idem_stats_reset', 'idem_in_flight', 'idem_health') THEN 'operator'
                    ELSE 'application' END,
               'EXECUTE', proowner, coalesce(proacl, acldefault('f', proowner)), is_new
          FROM members JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid
        UNION ALL
        SELECT objid, CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, objid::regclass::text,
               CASE WHEN relname IN ('idem_stats', 'idem_guards') THEN 'application'
                    WHEN relname IN ('idem_sweep_progress', 'idem_dead_letters', 'idem_replicated_tables', 'idem_rings', 'idem_scope_settings') THEN 'operator'
                    WHEN relname = 'idem_transition_log' THEN 'named'
                    ELSE 'owner' END,
               'SELECT', relowner, coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, relowner)), is_new
          FROM members JOIN pg_class c ON classid = 'pg_class'::regclass AND objid = c.oid
         WHERE relkind NOT IN ('c', 'i', 'I')
        UNION ALL
        SELECT objid, 'TYPE', objid::regtype::text, 'public', 'USAGE', typowner, coalesce(typacl, acldefault('T', typowner)), is_new
          FROM members JOIN pg_type t ON classid = 'pg_type'::regclass AND objid = t.oid
         WHERE typelem = 0 -- no array
           AND NOT EXISTS (SELECT FROM pg_class WHERE oid = typrelid AND relkind <> 'c')$query$,
        (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem'));
END
$$;
COMMENT ON FUNCTION idem_members() IS
'Internal: each object of the extension that has privileges, and the audience of its privilege (EXECUTE, SELECT or USAGE). public: every role; application and operator: roles with idem_grant; named: roles that a GRANT names; owner: no other role. is_new: the object was created by the installation or by the last update.';

CREATE FUNCTION idem_set_privileges()
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home   pg_catalog.regnamespace := (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem');
    member pg_catalog.record;
BEGIN
    FOR member IN EXECUTE
        format('SELECT m.*, (SELECT string_agg(DISTINCT '', '' || grantee::regrole::text, '''') FROM aclexplode(acl)'
               ' WHERE grantee NOT IN (0, owner)) AS others FROM %s.idem_members() m WHERE is_new', home)
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM PUBLIC%s', member.kind, member.name, member.others);
        EXECUTE format('GRANT ALL ON %s %s TO %s', member.kind, member.name, member.owner::regrole);
        IF member.audience = 'public' THEN
            EXECUTE format('GRANT %s ON %s %s TO PUBLIC', member.privilege, member.kind, member.name);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_set_privileges() IS
'Internal: gives the objects that the running script has created the privileges of an installation, whatever ALTER DEFAULT PRIVILEGES gave them. It is the last statement of the installation and of every update; these scripts have no GRANT and no REVOKE of their own. Older objects keep the grants of roles.';

CREATE FUNCTION idem_unintended_privileges()
RETURNS SETOF text LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE format($query$
        WITH members AS (SELECT * FROM %s.idem_members()),
        privileges AS (
            SELECT name, audience, privilege, owner, a.* FROM members, aclexplode(acl) a
            UNION ALL
            SELECT name || '.' || quote_ident(attname), audience, privilege, owner, a.*
              FROM members JOIN pg_attribute ON kind = 'TABLE' AND attrelid = objid, aclexplode(attacl) a)
        SELECT format('%%s on %%s to %%s', string_agg(privilege_type, ', '), name, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
          FROM privileges
         WHERE grantee <> owner
           AND NOT (privilege_type = privilege AND NOT is_grantable
                    AND (audience = 'public' OR grantee <> 0 AND audience <> 'owner'))
         GROUP BY name, grantee ORDER BY name, grantee$query$,
        (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem'));
END
$$;
COMMENT ON FUNCTION idem_unintended_privileges() IS
'Internal, for idem_health: privileges on objects of the extension that come neither from the installation, nor from idem_grant, nor from a GRANT of such a privilege to a role.';

CREATE FUNCTION idem_grant(role regrole, operator boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home   pg_catalog.regnamespace := (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem');
    member pg_catalog.record;
BEGIN
    IF role IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role must not be null';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE oid = role) THEN
        RAISE undefined_object USING MESSAGE = format('role with OID %s does not exist', role::oid);
    END IF;
    -- Two calls at once would change the same row of a catalog. Another installation's would not.
    PERFORM pg_advisory_xact_lock(hashtextextended('idem_grant', home::oid::bigint));
    IF NOT has_schema_privilege(role, home, 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', home, role);
    END IF;
    FOR member IN EXECUTE
        format('SELECT * FROM %s.idem_members() WHERE audience = ''application'' OR audience = ''operator'' AND $1', home) USING coalesce(operator, false)
    LOOP
        EXECUTE format('GRANT %s ON %s %s TO %s', member.privilege, member.kind, member.name, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_grant(regrole, boolean) IS
'Lets a role use idem: it grants the functions and views for applications, and with operator => true also those for operators. Grants USAGE on the extension''s schema if it is missing. For the extension''s owner and superusers.';

CREATE FUNCTION idem_revoke(role regrole)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home   pg_catalog.regnamespace := (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem');
    member pg_catalog.record;
BEGIN
    IF role IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role must not be null';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE oid = role) THEN
        RAISE undefined_object USING MESSAGE = format('role with OID %s does not exist', role::oid);
    END IF;
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'idem_revoke() needs the isolation level READ COMMITTED' USING ERRCODE = 'invalid_transaction_state',
            DETAIL = 'It would leave privileges that were granted after the transaction''s snapshot.';
    END IF;
    -- Two calls at once would change the same row of a catalog. Another installation's would not.
    PERFORM pg_advisory_xact_lock(hashtextextended('idem_grant', home::oid::bigint));
    FOR member IN EXECUTE
        format('SELECT * FROM %s.idem_members() WHERE owner <> $1 AND (EXISTS (SELECT FROM aclexplode(acl) WHERE grantee = $1)'
               ' OR kind = ''TABLE'' AND EXISTS (SELECT FROM pg_attribute, aclexplode(attacl) WHERE attrelid = objid AND grantee = $1))', home)
        USING role::oid
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM %s', member.kind, member.name, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_revoke(regrole) IS
'Revokes all privileges that a role has on functions, views, tables, sequences and types of idem, whether by idem_grant or by GRANT. USAGE on the schema stays. Needs READ COMMITTED (25000). For the extension''s owner and superusers.';

SELECT idem_set_privileges();
