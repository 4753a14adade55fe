-- Checks for operators, each with a level to alert on.

CREATE FUNCTION idem_health_library(OUT version text, OUT source text, OUT is_preloaded boolean, OUT trouble text)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_health_library() IS
'Internal, for idem_health: the version of the library, the commit that it was built from (NULL: unknown), whether it was preloaded, and what it finds changed on the extension''s tables.';

CREATE FUNCTION idem_health(OUT check_name text, OUT level text, OUT detail text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    most_expired CONSTANT bigint := 10000;
    most_pages CONSTANT bigint := 10000; -- of each table of keys; larger tables are sampled
    home      pg_catalog.text := (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem');
    installed pg_catalog.text;
    library   pg_catalog.record;
    space     pg_catalog.text;
    shared    bigint;
    topic     pg_catalog.text;
    since     pg_catalog.timestamptz;
    pages     bigint;
    share     pg_catalog.float8;
    basis     pg_catalog.text;
    sample    pg_catalog.record;
    members   pg_catalog.oid[];
BEGIN
    -- The library and the SQL
    EXECUTE format('SELECT version FROM %s.idem_version()', home) INTO installed;
    BEGIN
        EXECUTE format('SELECT * FROM %s.idem_health_library()', home) INTO library;
    EXCEPTION WHEN undefined_function OR undefined_file THEN
        RETURN QUERY SELECT 'version', 'critical',
            format('The library is older than the SQL (%s): %s. Install the library of this version and restart the server.', installed, SQLERRM);
        RETURN;
    END;
    IF split_part(library.version, '.', 1) <> split_part(installed, '.', 1) THEN
        RETURN QUERY SELECT 'version', 'critical',
            format('The library has version %s, the SQL in this database %s, and no function works. Install the library of the SQL''s version, or run '
                   'ALTER EXTENSION idem UPDATE; then start new sessions, or restart the server if it preloads idem.', library.version, installed);
        RETURN;
    END IF;
    IF library.version IS NULL THEN -- the portable edition
        RETURN QUERY SELECT 'version', 'ok', format('The portable edition has version %s.', installed);
    ELSE
        RETURN QUERY SELECT 'version', CASE WHEN library.version = installed THEN 'ok' ELSE 'warning' END,
            format('The library has version %s%s, the SQL in this database %s.', library.version, ' (' || library.source || ')', installed) ||
            CASE WHEN library.version = installed THEN ''
                 ELSE ' Run ALTER EXTENSION idem UPDATE, or install the library of that version and restart the server.' END;
        RETURN QUERY SELECT 'preload', CASE WHEN library.is_preloaded THEN 'ok' ELSE 'notice' END,
            CASE WHEN library.is_preloaded THEN 'The library is preloaded.'
                 ELSE 'The library is not in shared_preload_libraries: idem_stats is empty, and no background worker sweeps.' END;
    END IF;
    RETURN QUERY SELECT 'tables', CASE WHEN library.trouble IS NULL AND count(*) = 0 THEN 'ok' ELSE 'critical' END,
        concat_ws('; ', coalesce(library.trouble, CASE WHEN count(*) = 0 THEN 'The tables are as they were installed.' END),
                  'triggers that make sessions read definitions and secrets again are not enabled: ' ||
                      string_agg(format('%s on %s', tgname, tgrelid::regclass), ', ' ORDER BY tgrelid, tgname))
        FROM pg_trigger WHERE tgfoid IN (to_regproc(home || '.idem_definitions_changed'), to_regproc(home || '.idem_ring_row_arrived')) AND tgenabled <> 'A';
    RETURN QUERY EXECUTE format(
        'SELECT ''privileges'', CASE WHEN count(*) = 0 THEN ''ok'' ELSE ''warning'' END, CASE WHEN count(*) = 0 THEN ''No role has more than idem_grant gives.'' '
        'ELSE format(''%%s privileges that neither the installation nor idem_grant gives: %%s'', count(*), '
        'string_agg(privilege, ''; '') FILTER (WHERE place <= 5)) || CASE WHEN count(*) > 5 THEN ''; ...'' ELSE '''' END END '
        'FROM %s.idem_unintended_privileges() WITH ORDINALITY AS p (privilege, place)', home);

    RETURN QUERY SELECT 'schema', CASE WHEN roles IS NULL AND objects IS NULL THEN 'ok' ELSE 'critical' END,
        CASE WHEN roles IS NULL AND objects IS NULL THEN format('No other role may create objects in schema %s.', home)
             ELSE concat_ws(' ', CASE WHEN roles IS NOT NULL THEN
                                     format('Roles may create objects in schema %1$s, which can take the place of idem''s: %2$s. Run REVOKE CREATE ON SCHEMA %1$s FROM %2$s CASCADE.', home, roles) END,
                                 CASE WHEN objects IS NOT NULL THEN
                                     format('Objects in schema %s are not its owner''s, and can take the place of idem''s: %s. Drop them.', home, objects) END) END
        FROM (SELECT string_agg(CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, ', ' ORDER BY grantee) AS roles
                FROM (SELECT DISTINCT grantee FROM pg_namespace, aclexplode(nspacl)
                       WHERE oid = home::regnamespace AND privilege_type = 'CREATE' AND grantee <> nspowner) creators) created,
             (SELECT string_agg(format('%s of %s', pg_describe_object(d.classid, d.objid, 0), s.refobjid::regrole), ', ' ORDER BY d.classid, d.objid) AS objects
                FROM pg_namespace n JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
                     JOIN pg_shdepend s ON s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND s.classid = d.classid AND s.objid = d.objid
                                           AND s.deptype = 'o' AND s.refobjid <> n.nspowner
               WHERE n.oid = home::regnamespace AND library.version IS NULL) made; -- the extension's objects are found by their OIDs

    -- The server
    IF current_setting('server_version_num')::int >= 150000 THEN
        RETURN QUERY SELECT 'collation', CASE WHEN datcollversion <> pg_database_collation_actual_version(oid) THEN 'warning' ELSE 'ok' END,
            CASE WHEN datcollversion <> pg_database_collation_actual_version(oid)
                 THEN format('The database was made with version %s of its collation, the system has %s: unique indexes on your text columns may '
                             'let duplicates pass. Keys of idem compare bytewise, and are not concerned.',
                             datcollversion, pg_database_collation_actual_version(oid))
                 ELSE 'The collation is of the version that the database was made with.' END
            FROM pg_database WHERE datname = current_database();
    END IF;
    EXECUTE format('SELECT array_agg(objid) FROM %s.idem_members() WHERE kind = ''TABLE''', home) INTO members;
    RETURN QUERY
        WITH ours AS (
            SELECT stored.oid, age(stored.relfrozenxid) AS xids, mxid_age(stored.relminmxid) AS multixacts
              FROM pg_class c JOIN pg_class stored ON stored.oid IN (c.oid, c.reltoastrelid)
             WHERE c.oid = ANY (members) AND c.relkind = 'r'
            UNION ALL
            SELECT stored.oid, age(stored.relfrozenxid), mxid_age(stored.relminmxid)
              FROM pg_inherits i JOIN pg_class c ON i.inhparent = to_regclass(home || '.idem_keys') AND c.oid = i.inhrelid
              JOIN pg_class stored ON stored.oid IN (c.oid, c.reltoastrelid)),
        worst AS (SELECT max(xids) AS xids, max(multixacts) AS multixacts FROM ours)
        SELECT 'wraparound',
            CASE WHEN xids > coalesce(current_setting('vacuum_failsafe_age', true)::int, 1600000000) OR multixacts > coalesce(current_setting('vacuum_multixact_failsafe_age', true)::int, 1600000000) THEN 'critical'
                 WHEN xids > 1.25 * current_setting('autovacuum_freeze_max_age')::int
                      OR multixacts > 1.25 * current_setting('autovacuum_multixact_freeze_max_age')::int THEN 'warning'
                 ELSE 'ok' END,
            format('The oldest row of idem''s tables is %s transactions old, the oldest row lock %s multixacts; autovacuum acts at %s and %s.',
                   xids, multixacts, current_setting('autovacuum_freeze_max_age'), current_setting('autovacuum_multixact_freeze_max_age'))
          FROM worst;
    RETURN QUERY SELECT 'prepared_transactions', CASE WHEN min(prepared) <= clock_timestamp() - interval '1 hour' THEN 'warning' ELSE 'ok' END,
        format('%s transactions are prepared%s, and go on holding the keys that they claimed.', count(*),
               coalesce(', the first since ' || min(prepared), ''))
        FROM pg_prepared_xacts WHERE database = current_database();

    -- The application's tables
    RETURN QUERY SELECT 'guards', CASE WHEN count(*) = 0 THEN 'ok' ELSE 'critical' END,
        CASE WHEN count(*) = 0 THEN 'No guard of a version or a state is disabled.'
             ELSE format('%s disabled guards let changes pass unchecked: %s', count(*),
                         string_agg(format('%I on %s', tgname, tgrelid::regclass), ', ' ORDER BY tgrelid, tgname)
                             FILTER (WHERE place <= 5)) || CASE WHEN count(*) > 5 THEN ', ...' ELSE '' END END
        FROM (SELECT t.tgname, t.tgrelid, row_number() OVER (ORDER BY t.tgrelid, t.tgname) AS place
                FROM pg_depend d JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND d.objid = t.oid
               WHERE d.refclassid = 'pg_proc'::regclass AND t.tgenabled IN ('D', 'R')
                 AND d.refobjid IN (to_regproc(home || '.idem_state_guard'), to_regproc(home || '.idem_version_guard'))) disabled;

    -- The contents of the tables, if these are as they were installed
    IF library.trouble IS NOT NULL THEN
        RETURN;
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT ''scope_owners'', CASE WHEN count(*) = 0 THEN ''ok'' ELSE ''warning'' END, CASE WHEN count(*) = 0 THEN ''The owner of every scope exists.'' '
        'ELSE format(''%%s scopes belong to roles that were dropped, and only superusers may use them: %%s'', count(*), '
        'string_agg(quote_literal(scope), '', '') FILTER (WHERE place <= 5)) || CASE WHEN count(*) > 5 THEN '', ...'' ELSE '''' END END '
        'FROM (SELECT scope, row_number() OVER (ORDER BY scope) AS place FROM %s.idem_scopes '
        'WHERE owner::oid <> 0 AND NOT EXISTS (SELECT FROM pg_roles WHERE oid = owner)) lost', home);
    EXECUTE format('SELECT count(*) FROM %s.idem_stats_counters() WHERE is_other', home) INTO shared;
    RETURN QUERY SELECT 'statistics', CASE WHEN shared = 0 THEN 'ok' ELSE 'notice' END,
        CASE WHEN shared = 0 THEN 'Every scope has counters of its own.'
             ELSE 'There are more scopes than idem.stats_max_scopes; some are counted together.' END
        WHERE library.version IS NOT NULL; -- the portable edition has neither counters nor rings
    -- After a large sweep there are many until autovacuum runs.
    RETURN QUERY SELECT 'dead_rows',
        CASE WHEN bool_or(dead > 10000 + 0.2 * live AND vacuumed <= clock_timestamp() - interval '1 hour') THEN 'warning'
             WHEN bool_or(dead > 10000 + 0.2 * live) THEN 'notice' ELSE 'ok' END,
        string_agg(format('%s: %s dead of %s rows', relation, dead, live + dead), ', ')
        FROM (SELECT relation, pg_stat_get_live_tuples(relation) AS live, pg_stat_get_dead_tuples(relation) AS dead,
                     coalesce(greatest(pg_stat_get_last_vacuum_time(relation), pg_stat_get_last_autovacuum_time(relation)),
                              pg_postmaster_start_time()) AS vacuumed
                FROM unnest(ARRAY['idem_keys', 'idem_tokens', 'idem_locks', 'idem_rates', 'idem_counters']) AS name, to_regclass(home || '.' || name) AS relation) counts;
    -- Two candidates for each topic: the first message that can be given out (it is due, and no earlier message of its key has a delay),
    -- and the first one that never had a delay and never failed, which may have been due for longer. Neither search reads the whole outbox.
    EXECUTE format('WITH RECURSIVE topics AS ((SELECT topic FROM %1$s.idem_outbox ORDER BY topic LIMIT 1) UNION ALL '
                   'SELECT n.topic FROM topics t, LATERAL (SELECT topic FROM %1$s.idem_outbox o WHERE o.topic > t.topic '
                   'ORDER BY o.topic LIMIT 1) n), '
                   'ready AS (SELECT t.topic, greatest((%1$s.idem_id_parts(m.id)).at, m.due_at) AS since FROM topics t, unnest(ARRAY[$1, NULL]) AS latest, LATERAL '
                   '(SELECT id, due_at FROM %1$s.idem_outbox o WHERE o.topic = t.topic AND (o.due_at IS NULL OR o.due_at <= latest) '
                   'AND (o.key IS NULL OR NOT EXISTS (SELECT FROM %1$s.idem_outbox d WHERE d.topic = o.topic AND d.key = o.key AND d.id < o.id AND d.due_at > $1)) '
                   'ORDER BY o.id LIMIT 1) m) '
                   'SELECT r.topic, r.since FROM ready r ORDER BY r.since LIMIT 1', home) INTO topic, since USING clock_timestamp();
    RETURN QUERY SELECT 'outbox', CASE WHEN since <= clock_timestamp() - interval '1 hour' THEN 'warning' ELSE 'ok' END,
        CASE WHEN since IS NULL THEN 'No message is due.'
             ELSE format('A message has been due since %s and was not acknowledged (topic %s).', since, topic) END;
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %s.idem_outbox_parked LIMIT 10001) p', home) INTO shared;
    RETURN QUERY SELECT 'dead_letters', CASE WHEN shared = 0 THEN 'ok' ELSE 'warning' END,
        format('%s%s dead letters wait for idem_outbox_retry or idem_outbox_discard.', CASE WHEN shared > 10000 THEN 'More than ' END, least(shared, 10000));
    RETURN QUERY EXECUTE format(
        'WITH late AS (SELECT ring, format(''the open window of ring "%%s" has been open since %%s, although %%s would do'', ring, opened_at, retention / (windows - 2)) AS what '
        'FROM %1$s.idem_rings WHERE state = ''open'' AND keys > 0 AND bytes > 3 * current_setting(''block_size'')::int AND opened_at < $1 - 2 * retention / (windows - 2) '
        'UNION ALL SELECT ring, format(''%%s sealed windows of ring "%%s" are not in its filter'', count(*), ring) FROM %1$s.idem_rings '
        'WHERE state = ''sealed'' AND false_positives IS NULL AND closed_at < $1 - retention / (windows - 2) GROUP BY ring '
        'UNION ALL SELECT ring, format(''the filter of ring "%%s" is missing'', ring) FROM %1$s.idem_ring_filters() WHERE is_missing '
        'UNION ALL SELECT ring, format(''%%s pages of the filter of ring "%%s" are damaged'', damaged_pages, ring) FROM %1$s.idem_ring_filters() WHERE damaged_pages > 0) '
        'SELECT ''rings'', CASE WHEN count(*) = 0 THEN ''ok'' ELSE ''warning'' END, CASE WHEN count(*) = 0 THEN ''Every ring has turned in time, and its filter is whole.'' '
        'ELSE string_agg(what, ''; '' ORDER BY ring, what) END FROM late HAVING $2 IS NOT NULL', home) USING clock_timestamp(), library.version;
    FOREACH space IN ARRAY ARRAY['idem_keys', 'idem_tokens', 'idem_locks', 'idem_rates'] LOOP
        pages := pg_relation_size(to_regclass(home || '.' || space)) / current_setting('block_size')::int;
        share := least(1, most_pages::float8 / greatest(pages, 1));
        basis := CASE WHEN share < 1 THEN format('%s of %s pages', most_pages, pages) END;
        EXECUTE format(
            'SELECT count(*) AS live_rows, count(*) FILTER (WHERE verdict = ''expired'') AS expired, '
            'min(expires_at) FILTER (WHERE verdict = ''expired'') AS oldest_expiry, count(*) FILTER (WHERE verdict = ''leased'') AS leases, '
            'min(created_at) FILTER (WHERE verdict = ''leased'') AS oldest_lease, count(*) FILTER (WHERE verdict = ''lapsed'') AS lapsed, '
            'min(lease_until) FILTER (WHERE verdict = ''lapsed'') AS oldest_lapse, count(*) FILTER (WHERE verdict = ''in doubt'') AS in_doubt '
            'FROM (SELECT k.created_at, k.expires_at, k.lease_until, CASE WHEN k.state = ''d'' THEN ''in doubt'' '
            'WHEN k.state = ''p'' AND k.lease_until > $2 THEN ''leased'' WHEN k.state = ''p'' AND coalesce(s.on_lease_expiry, f.on_lease_expiry) = ''manual'' THEN ''in doubt'' '
            'WHEN k.expires_at <= $2 THEN ''expired'' WHEN k.state = ''p'' THEN ''lapsed'' END AS verdict FROM '
            || CASE WHEN space = 'idem_rates' THEN '(SELECT as_of AS created_at, expires_at, NULL::timestamptz AS lease_until, ''c''::"char" AS state, '
                                                   'scope FROM %1$s.%2$I TABLESAMPLE SYSTEM ($1)) k'
                    ELSE 'ONLY %1$s.%2$I k TABLESAMPLE SYSTEM ($1)' END ||
            ' LEFT JOIN %1$s.idem_scopes s ON s.scope = k.scope LEFT JOIN %1$s.idem_scopes f '
            'ON f.scope = CASE WHEN strpos(k.scope, ''/'') > 1 THEN split_part(k.scope, ''/'', 1) END) judged', home, space)
            INTO sample USING 100 * share, clock_timestamp();
        -- Sweeps run at intervals: if none has finished for a day, they do not work.
        EXECUTE format('SELECT max(complete_from) FROM %s.idem_sweeps WHERE swept = $1', home) INTO since USING to_regclass(home || '.' || space);
        RETURN QUERY SELECT 'sweep_lag_of_' || space,
            CASE WHEN sample.expired / share <= greatest(most_expired, 0.2 * sample.live_rows / share) THEN 'ok'
                 WHEN since > clock_timestamp() - interval '1 day' THEN 'notice' ELSE 'warning' END,
            format('%s of %s rows have expired and were not swept', round(sample.expired / share), round(sample.live_rows / share)) ||
            coalesce(', the first at ' || sample.oldest_expiry, '') || coalesce(' (estimated from ' || basis || ')', '');
        CONTINUE WHEN space <> 'idem_keys';
        RETURN QUERY SELECT 'leases', CASE WHEN sample.oldest_lapse <= clock_timestamp() - interval '1 hour' THEN 'warning' ELSE 'ok' END,
            format('%s leases are live%s; %s have run out and were not taken over%s', sample.leases,
                   coalesce(', the oldest claimed at ' || sample.oldest_lease, ''), sample.lapsed,
                   coalesce(', the first at ' || sample.oldest_lapse, '')) || coalesce(' (in ' || basis || ')', '');
        RETURN QUERY SELECT 'in_doubt', CASE WHEN sample.in_doubt = 0 THEN 'ok' ELSE 'warning' END,
            format('%s keys are in doubt, and wait for idem_resolve or idem_forget', sample.in_doubt) || coalesce(' (in ' || basis || ')', '');
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_health() IS
'Checks the installation, the server and the tables: one row per check, with its level (ok, notice, warning, critical) and the figures on which the level is based. A supported set-up shows nothing above notice: alert on warning and critical. docs/monitoring.md says what each check means and what to do. Reads at most about 10,000 pages of each table of keys; for larger tables, the figures are estimates. Examines all scopes and names no key. Operators.';
