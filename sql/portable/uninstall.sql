-- idem @version@, the portable edition: takes idem and all its keys away. Made by the build; do not edit.
--
-- One statement, as idem--portable.sql, for the schema "idem" or the one that SET idem.schema names. The schema stays.
DO $idem_uninstall$
DECLARE
    own       pg_catalog.text[];
    named     pg_catalog.text;
    home      pg_catalog.text;
    guards    pg_catalog.record;
    statement pg_catalog.text;
BEGIN
    own := ARRAY[pg_catalog.current_setting('search_path'), pg_catalog.current_setting('client_min_messages')];
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('client_min_messages', 'warning', true);
    -- A server that preloads the C edition reserves idem.*.
    named := coalesce(nullif(current_setting('idem.schema', true), ''), nullif(current_setting('idem_portable.schema', true), ''), 'idem');
    home := quote_ident(named);
    IF to_regclass(home || '.idem_keys') IS NULL THEN
        RAISE undefined_object USING MESSAGE = format('idem is not installed in schema "%s"', named), HINT = 'Name its schema: SET idem.schema = ''...''.';
    END IF;
    SELECT pg_get_userbyid(n.nspowner) AS owner INTO guards FROM pg_namespace n WHERE n.nspname = named;
    IF guards.owner <> current_user THEN -- what is there would run with the rights of this call
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of schema %s', named), DETAIL = format('The owner is "%s".', guards.owner),
            HINT = 'Name another schema in idem.schema, or become that role, if you trust it.';
    END IF;
    EXECUTE replace($guards$
        WITH guards AS (
            SELECT g.target, g.kind, g.column_name,
                   CASE g.kind WHEN 'state' THEN format('SELECT @extschema@.idem_machine_detach(%L, %L);', g.target, g.column_name)
                               ELSE format('SELECT @extschema@.optimistic_disable(%L);', g.target) END AS call
              FROM @extschema@.idem_guards g
            UNION ALL -- made by hand
            SELECT t.tgrelid, 'trigger', t.tgname, format('DROP TRIGGER %I ON %s;', t.tgname, t.tgrelid::regclass)
              FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
             WHERE p.pronamespace = '@extschema@'::regnamespace AND t.tgparentid = 0
               AND NOT EXISTS (SELECT FROM @extschema@.idem_guards g WHERE g.target = t.tgrelid))
        SELECT count(*) AS number, string_agg(format('%s "%s" of table %s', g.kind, g.column_name, g.target), ', ' ORDER BY g.target, g.column_name) AS names,
               string_agg(g.call, ' ' ORDER BY g.target, g.column_name) AS calls FROM guards g$guards$, '@extschema@', home) INTO guards;
    IF guards.number > 0 THEN
        RAISE dependent_objects_still_exist USING MESSAGE = 'cannot remove idem because tables have guards', DETAIL = format('They guard: %s.', guards.names),
            HINT = format('Run first: %s', guards.calls);
    END IF;
    FOREACH statement IN ARRAY string_to_array($drops$@drops@$drops$, E'\n') LOOP
        EXECUTE 'DROP ' || replace(statement, '@extschema@', home);
    END LOOP;
    PERFORM set_config('client_min_messages', own[2], true), set_config('search_path', own[1], true);
END
$idem_uninstall$;
