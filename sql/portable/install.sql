-- idem @version@, the portable edition: for servers where no C library can be loaded. Made by the build; do not edit.
--
-- One statement: by psql, a driver, a migration tool or an SQL editor. It makes the schema "idem", or the one that is named before:
--
--     SET idem.schema = 'work';
--
-- Everything in the schema belongs to the role that runs this; no superuser is needed. Again: brings an older installation up to this version.
DO $idem_install$
DECLARE
    settings  CONSTANT pg_catalog.text[] := '{search_path,check_function_bodies,client_min_messages,standard_conforming_strings}';
    own       pg_catalog.text[];
    named     pg_catalog.text;
    home      pg_catalog.text;
    space     pg_catalog.oid;
    is_made   pg_catalog.bool;
    is_new    pg_catalog.bool;
    before    pg_catalog.text[];
    made      pg_catalog.text[] := '{}';
    old_name  pg_catalog.text;
    entry     pg_catalog.record;
    statement pg_catalog.text;
    name      pg_catalog.text;
    -- How a function with the owner's rights begins.
    start     CONSTANT pg_catalog.text := $idem_start$@start@$idem_start$;
BEGIN
    -- From here on, no name is looked up but in pg_catalog.
    own := ARRAY[pg_catalog.current_setting('search_path'), pg_catalog.current_setting('check_function_bodies'),
                 pg_catalog.current_setting('client_min_messages'), pg_catalog.current_setting('standard_conforming_strings')];
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('check_function_bodies', 'off', true),
            pg_catalog.set_config('client_min_messages', 'warning', true), pg_catalog.set_config('standard_conforming_strings', 'on', true);
    -- A server that preloads the C edition reserves idem.*.
    named := coalesce(nullif(current_setting('idem.schema', true), ''), nullif(current_setting('idem_portable.schema', true), ''), 'idem');
    home := quote_ident(named);

    -- The schema
    IF named ~ '[''\\$%@]' THEN
        RAISE invalid_name USING MESSAGE = format('schema name "%s" is not supported', named), DETAIL = 'It must not contain any of ''\$%@.';
    ELSIF octet_length(named) > 63 THEN
        RAISE name_too_long USING MESSAGE = format('schema name "%s" is too long', named), DETAIL = format('It has %s bytes; the most is 63.', octet_length(named));
    END IF;
    -- Several that start at once queue.
    PERFORM pg_advisory_xact_lock(hashtextextended('idem ' || named, 0));
    SELECT n.oid, pg_get_userbyid(n.nspowner) AS owner INTO entry FROM pg_namespace n WHERE n.nspname = named;
    is_made := NOT FOUND;
    IF is_made THEN
        EXECUTE format('CREATE SCHEMA %I', named);
    ELSIF entry.owner <> current_user THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of schema %s', named),
            DETAIL = format('The owner is "%s". The owner of the schema can replace every function of idem.', entry.owner),
            HINT = 'Name another schema in idem.schema, or become that role, if you trust it.';
    END IF;
    space := home::regnamespace;
    SELECT string_agg(o.name, ', ') AS objects INTO entry
      FROM (SELECT pg_describe_object(d.classid, d.objid, 0) AS name
              FROM pg_depend d
             WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = space AND d.deptype = 'n'
               AND NOT EXISTS (SELECT FROM pg_class c WHERE d.classid = c.tableoid AND d.objid = c.oid AND c.relname ~ '@owned@'
                                  AND pg_get_userbyid(c.relowner) = current_user)
               AND NOT EXISTS (SELECT FROM pg_type t WHERE d.classid = t.tableoid AND d.objid = t.oid AND t.typname ~ '@owned@'
                                  AND pg_get_userbyid(t.typowner) = current_user)
               AND NOT EXISTS (SELECT FROM pg_proc p WHERE d.classid = p.tableoid AND d.objid = p.oid
                                  AND p.proname ~ '@owned@'
                                  AND pg_get_userbyid(p.proowner) = current_user)
             ORDER BY 1 LIMIT 10) o;
    IF entry.objects IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('schema "%s" has objects that are not idem''s', named),
            DETAIL = 'They could take the place of idem''s own.', HINT = format('Name another schema in idem.schema, or drop or move these: %s.', entry.objects);
    END IF;
    -- A call that began before a renaming goes on to look names up in the schema of the old name, with the owner's rights. Nobody else is to make it.
    SELECT o.name INTO old_name FROM pg_proc p, substring(p.prosrc FROM 'nspname = ''([^'']+)''') AS o (name)
     WHERE p.pronamespace = space AND p.proname = 'idem_claim' AND NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = o.name);
    IF old_name IS NOT NULL THEN
        EXECUTE format('CREATE SCHEMA %I', old_name);
        RAISE WARNING USING MESSAGE = format('schema "%s" was made, so that nobody else has the old name', old_name),
            HINT = format('When all transactions that are open now have ended: DROP SCHEMA %I.', old_name);
    END IF;
    -- A transaction that is open can have made an object which nobody else sees yet: only a schema that is new has none.
    SELECT string_agg(DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, ', ') AS roles INTO entry
      FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.oid = space AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner;
    IF entry.roles IS NOT NULL AND NOT is_made THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('other roles may create objects in schema "%s"', named),
            DETAIL = format('They could take the place of idem''s own. The roles are: %s.', entry.roles),
            HINT = format('Run REVOKE CREATE ON SCHEMA %I FROM %s CASCADE, wait until the transactions of these roles have ended, and run this again.', named, entry.roles);
    END IF;
    FOR entry IN SELECT n.nspname AS schema, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
                   FROM pg_namespace n, aclexplode(n.nspacl) a -- by default privileges
                  WHERE n.nspname IN (named, old_name) AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner LOOP
        EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM %s CASCADE', entry.schema, entry.role);
    END LOOP;

    -- The objects
    is_new := to_regclass(home || '.idem_keys') IS NULL;
    PERFORM set_config('idem_portable.installed_before', coalesce(string_agg(format('%s:%s', o.catalog, o.oid), ','), ''), true)
       FROM (SELECT tableoid AS catalog, oid FROM pg_proc WHERE pronamespace = space
             UNION ALL SELECT tableoid, oid FROM pg_class WHERE relnamespace = space
             UNION ALL SELECT tableoid, oid FROM pg_type WHERE typnamespace = space) o;
    before := ARRAY(SELECT format('%s %s', p.oid, p.ctid) FROM pg_proc p WHERE p.pronamespace = space);
    FOREACH statement IN ARRAY string_to_array($idem_statements$@statements@$idem_statements$, E'\n;;\n') LOOP
        IF NOT is_new AND starts_with(statement, '--once') THEN -- for a table or type that an older version does not have
            name := substring(statement FROM '@\.(\w+)');
            IF statement ~ '^--once\nCREATE (TABLE|TYPE|DOMAIN|SEQUENCE) ' AND to_regclass(home || '.' || name) IS NULL AND to_regtype(home || '.' || name) IS NULL THEN
                made := made || name;
            END IF;
            CONTINUE WHEN name <> ALL (made);
        END IF;
        name := substring(statement FROM '^CREATE OR REPLACE \w+ @\.(\w+)\(');
        statement := replace(replace(statement, '@home@', start), '@path@', 'SET search_path = pg_catalog, pg_temp');
        statement := replace(replace(replace(statement, '@.', home || '.'), '@extschema@', home), '@named@', named);
        FOR entry IN SELECT DISTINCT m.name[1] AS name FROM regexp_matches(statement, '@oid:([a-z_()]+)@', 'g') AS m (name) LOOP
            statement := replace(statement, '@oid:' || entry.name || '@',
                                 (CASE WHEN entry.name ~ '\(' THEN to_regprocedure(home || '.' || entry.name)::oid
                                       ELSE to_regtype(home || '.' || entry.name)::oid END)::text);
        END LOOP;
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN invalid_function_definition THEN -- the names of its arguments, or its result, are others than before
            FOR entry IN SELECT p.oid::regprocedure AS routine FROM pg_proc p
                          WHERE p.pronamespace = space AND p.proname = name
                            AND format('%s %s', p.oid, p.ctid) = ANY (before) LOOP
                EXECUTE format('DROP ROUTINE %s', entry.routine);
            END LOOP;
            EXECUTE statement;
        END;
    END LOOP;

    -- Each of this version was made or replaced.
    FOR entry IN SELECT p.oid::regprocedure AS routine FROM pg_proc p WHERE p.pronamespace = space AND format('%s %s', p.oid, p.ctid) = ANY (before) LOOP
        EXECUTE format('DROP ROUTINE %s', entry.routine);
    END LOOP;
    FOR entry IN SELECT p.oid::regprocedure AS routine FROM pg_proc p WHERE p.pronamespace = space AND obj_description(p.oid, 'pg_proc') IS NULL LOOP
        EXECUTE format('COMMENT ON ROUTINE %s IS ''Internal: of the portable edition alone.''', entry.routine);
    END LOOP;
    FOR entry IN EXECUTE format('SELECT m.kind, m.name FROM %s.idem_members() m WHERE m.audience = ''owner'' AND NOT m.is_new', home) LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM PUBLIC', entry.kind, entry.name); -- which an earlier version may have granted
    END LOOP;
    FOR i IN REVERSE 4..1 LOOP
        PERFORM set_config(settings[i], own[i], true);
    END LOOP;
END
$idem_install$;
