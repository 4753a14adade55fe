-- The guards of versions and states, for applications to check when they start: test suites, schema tools and migrations that
-- recreate a table drop its triggers without a warning.

CREATE VIEW idem_guards AS
    WITH RECURSIVE guards AS (
        -- A trigger that was created by hand with one of these functions, and does not fire for every row, is not a guard.
        SELECT t.oid, t.tgrelid, CASE WHEN t.tgnargs = 1 THEN 'version' ELSE 'state' END AS kind,
               pg_catalog.string_to_array(pg_catalog.regexp_replace(pg_catalog.encode(t.tgargs, 'hex'), '(..)', '\1 ', 'g'), '00 ') AS arguments
          FROM pg_catalog.pg_trigger t
         WHERE t.tgparentid = 0 AND t.tgqual IS NULL AND t.tgattr = ''
           AND (t.tgfoid = 'idem_version_guard'::pg_catalog.regproc AND t.tgnargs = 1 AND t.tgtype & 83 = 19
                OR t.tgfoid = 'idem_state_guard'::pg_catalog.regproc AND t.tgnargs = 4 AND t.tgtype & 87 = 21)),
    -- Guards with their copies on partitions.
    copies AS (
        SELECT g.oid AS guard, t.oid, t.tgenabled FROM guards g JOIN pg_catalog.pg_trigger t ON t.oid = g.oid
        UNION ALL
        SELECT c.guard, t.oid, t.tgenabled FROM copies c JOIN pg_catalog.pg_trigger t ON t.tgparentid = c.oid)
    SELECT g.tgrelid::pg_catalog.regclass AS target, g.kind,
           pg_catalog.convert_from(pg_catalog.decode(g.arguments[CASE g.kind WHEN 'state' THEN 2 ELSE 1 END], 'hex'), pg_catalog.getdatabaseencoding())::name
               AS column_name,
           CASE g.kind WHEN 'state' THEN pg_catalog.convert_from(pg_catalog.decode(g.arguments[1], 'hex'), pg_catalog.getdatabaseencoding()) END AS machine,
           (SELECT pg_catalog.bool_and(c.tgenabled IN ('O', 'A')) FROM copies c WHERE c.guard = g.oid) AS is_enabled,
           g.kind = 'version' OR pg_catalog.decode(g.arguments[4], 'hex') = 'valid'::pg_catalog.bytea AS is_valid
      FROM guards g;
COMMENT ON VIEW idem_guards IS
'The guards of this database: one row for each version column (optimistic_enable) and each state column (idem_machine_attach). A partitioned table has one row; its partitions have none.';
COMMENT ON COLUMN idem_guards.target IS 'The table.';
COMMENT ON COLUMN idem_guards.kind IS 'version or state.';
COMMENT ON COLUMN idem_guards.column_name IS 'The guarded column, by the name that it had when the guard was created.';
COMMENT ON COLUMN idem_guards.machine IS 'The state machine; NULL for a version.';
COMMENT ON COLUMN idem_guards.is_enabled IS 'Whether the guard fires, also on every partition. In the portable edition on Citus: false for a distributed table, where only idem_transition and optimistic_update check it.';
COMMENT ON COLUMN idem_guards.is_valid IS 'Whether the rows that are older than the guard are known to obey it: false after idem_machine_attach with validate => false, until idem_machine_validate.';
