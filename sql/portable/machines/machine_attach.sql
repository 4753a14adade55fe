-- Tables that machines are attached to. Tables whose rows Citus keeps on workers have no guard: what is attached is recorded
-- (storage/distribution.sql), for idem_transition.

-- Argument n of a guard: its machine, column, 'log' or 'no log', 'valid' or 'not valid'.
CREATE FUNCTION _idem_guard_argument(arguments bytea, n integer) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT convert_from(decode((string_to_array(regexp_replace(encode(arguments, 'hex'), '(..)', '\1 ', 'g'), '00 '))[n], 'hex'), getdatabaseencoding())
$$;

-- The table, and the partitions of a partitioned one at all levels. Tables that inherit otherwise have guards of their own.
CREATE FUNCTION _idem_parts(target oid, OUT part oid, OUT kind "char") RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = target OR c.oid IN (SELECT p.relid FROM pg_partition_tree(target) p)
$$;

-- The guards of states: the triggers, as the view idem_guards has them, and those that are recorded. trigger: NULL for these. Anybody can make a trigger
-- with the guard's function; on a view it is no guard.
CREATE FUNCTION _idem_state_guards(OUT relation oid, OUT column_name text, OUT of_machine text, OUT valid boolean, OUT trigger oid)
RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT t.tgrelid, _idem_guard_argument(t.tgargs, 2), _idem_guard_argument(t.tgargs, 1), _idem_guard_argument(t.tgargs, 4) = 'valid', t.oid
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid AND c.relkind IN ('r', 'p')
     WHERE t.tgfoid = 'idem_state_guard'::regproc AND t.tgnargs = 4 AND t.tgparentid = 0 AND t.tgtype & 87 = 21 AND t.tgqual IS NULL AND t.tgattr = ''
    UNION ALL
    SELECT g.target, g.column_name, g.machine, g.is_valid, NULL
      FROM ONLY _idem_citus_guards g WHERE g.machine IS NOT NULL AND _idem_is_on_workers(g.target)
$$;

-- Locks a table, with its partitions. False: there is no such table any more.
CREATE FUNCTION _idem_lock_table(target regclass, mode text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    recurses CONSTANT boolean := (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = target);
    name     text;
BEGIN
    LOOP
        name := target::text;
        IF recurses IS NULL OR name = target::oid::text THEN
            RETURN false;
        END IF;
        BEGIN
            EXECUTE format('LOCK TABLE %s%s IN %s MODE', CASE WHEN NOT recurses THEN 'ONLY ' END, name, mode);
            IF to_regclass(name) = target THEN
                RETURN true;
            END IF;
        EXCEPTION WHEN undefined_table OR invalid_schema_name THEN -- dropped or renamed while this call waited
        END;
    END LOOP;
END
$$;

-- 42501 for a relation that CREATE TRIGGER would refuse to the caller. Nothing is said of one that does not exist.
CREATE FUNCTION _idem_check_may_attach(target oid) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF target IS NULL THEN
        PERFORM _idem_null('target');
    ELSIF NOT has_table_privilege(target, 'TRIGGER') THEN
        PERFORM _idem_deny(target, 'permission denied for');
    END IF;
END
$$;

CREATE FUNCTION _idem_deny(target oid, what text) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE insufficient_privilege USING MESSAGE = (
        SELECT format('%s %s %s', what, CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
                                                       WHEN 'S' THEN 'sequence' WHEN 'i' THEN 'index' ELSE 'table' END, c.relname)
          FROM pg_class c WHERE c.oid = target);
END
$$;

-- All checks of an attachment but that of the rows. `guards`: how many the column may have by now.
CREATE FUNCTION _idem_check_attachable(target oid, state_column name, machine text, log boolean, states text[], guards integer)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    twice text;
BEGIN
    -- With two guards on one column, each would take a row that moved for a new one, as the other has taken the note of its state.
    SELECT c.relname INTO twice
      FROM _idem_parts(target) AS p JOIN pg_class c ON c.oid = p.part JOIN _idem_state_guards() AS g ON g.relation = p.part AND g.column_name = state_column
     GROUP BY c.oid, c.relname HAVING count(*) > CASE WHEN c.oid = target THEN guards ELSE 0 END LIMIT 1;
    IF FOUND THEN
        RAISE duplicate_object USING MESSAGE = format('column "%s" of table "%s" already has a state machine', state_column, twice),
            HINT = 'Detach it first with idem_machine_detach.';
    END IF;
    PERFORM _idem_check_state_column(target, state_column);
    PERFORM _idem_refuse_foreign(target);
    PERFORM _idem_check_citus_state(target, state_column, log);
    IF log AND _idem_log_key(target) IS NULL THEN
        RAISE invalid_column_reference USING
            MESSAGE = format('table "%s" has no key to log transitions by', (SELECT c.relname FROM pg_class c WHERE c.oid = target)),
            HINT = 'Add a primary key, or attach the state machine without a log.';
    END IF;
    IF states IS NULL THEN
        PERFORM _idem_raise_no_machine(machine);
    END IF;
    PERFORM _idem_check_labels(target, state_column, machine, states);
END
$$;

-- 0A000 for what needs a trigger, and for a column that Citus does not update.
CREATE FUNCTION _idem_check_citus_state(target oid, state_column name, log boolean) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    named     name := (SELECT c.relname FROM pg_class c WHERE c.oid = target);
    spread_by text;
BEGIN
    IF NOT _idem_is_on_workers(target) THEN
        RETURN;
    END IF;
    EXECUTE 'SELECT pg_catalog.column_to_column_name(logicalrelid, partkey) FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1' INTO spread_by USING target;
    IF spread_by = state_column THEN
        RAISE feature_not_supported USING MESSAGE = format('column "%s" is the distribution column of table "%s"', state_column, named),
            DETAIL = 'Citus changes it in no row.', TABLE = named, COLUMN = state_column;
    ELSIF log THEN
        RAISE feature_not_supported USING MESSAGE = format('transitions of distributed table "%s" cannot be logged', named),
            DETAIL = 'Citus takes no triggers there: the log would lack every move that is made without idem_transition.',
            HINT = 'Attach the state machine without a log, and insert what idem_transition returns into a table of yours, in the same transaction.', TABLE = named;
    END IF;
END
$$;

CREATE FUNCTION _idem_refuse_foreign(target oid) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    away name;
BEGIN
    SELECT c.relname INTO away FROM _idem_parts(target) AS p JOIN pg_class c ON c.oid = p.part WHERE p.kind = 'f' LIMIT 1;
    IF FOUND THEN
        RAISE feature_not_supported USING
            MESSAGE = format('table "%s" has a foreign partition, "%s"', (SELECT c.relname FROM pg_class c WHERE c.oid = target), away),
            DETAIL = 'The rows of another server can change without the locks of this one.';
    END IF;
END
$$;

-- The trigger has no WHEN clause: the view idem_guards knows it by that.
CREATE FUNCTION _idem_guard_statement(verb text, guard name, target oid, arguments text[]) RETURNS text LANGUAGE sql STABLE AS $$
    -- The server moves a row to another partition by a deletion and an insertion.
    SELECT format('%s TRIGGER %I AFTER INSERT OR UPDATE%s ON %I.%I FOR EACH ROW EXECUTE FUNCTION %s.idem_state_guard(%L, %L, %L, %L)', verb, guard,
                  CASE c.relkind WHEN 'p' THEN ' OR DELETE' END, n.nspname, c.relname,
                  (SELECT p.pronamespace::regnamespace FROM pg_proc p WHERE p.oid = 'idem_state_guard'::regproc),
                  arguments[1], arguments[2], arguments[3], arguments[4])
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target
$$;

-- Column names may be as long as trigger names, so two of them can be cut to the same trigger name.
CREATE FUNCTION _idem_free_guard_name(target oid, state_column name) RETURNS name LANGUAGE plpgsql STABLE AS $$
DECLARE
    stem   text := ('idem_state_' || state_column)::name;
    guard  name := stem;
    number integer := 0;
BEGIN
    WHILE EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = target AND t.tgname = guard) LOOP
        number := number + 1;
        WHILE octet_length(stem || '_' || number) > 63 LOOP
            stem := left(stem, -1);
        END LOOP;
        guard := stem || '_' || number;
    END LOOP;
    RETURN guard;
END
$$;

CREATE FUNCTION _idem_machine_attach_statement(target regclass, state_column name, machine text, log boolean, validate boolean)
RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_logged CONSTANT boolean := coalesce(log, false);
    is_valid  CONSTANT boolean := coalesce(validate, true);
    t         record;
    known     jsonb;
BEGIN
    PERFORM _idem_check_may_attach(target);
    PERFORM _idem_check_machine(machine);
    PERFORM _idem_require_writable('idem_machine_attach()');
    known := _idem_lock_machines(machine);
    t := _idem_row_table(target);
    IF (SELECT c.relispartition FROM pg_class c WHERE c.oid = target) THEN
        RAISE wrong_object_type USING MESSAGE = format('table "%s" is a partition', t.relation), HINT = 'Attach the state machine to the partitioned table.';
    ELSIF state_column IS NULL THEN
        PERFORM _idem_null('state_column');
    END IF;
    PERFORM _idem_state_column(target, state_column);
    PERFORM _idem_check_attachable(target, state_column, machine, is_logged, _idem_states(known), 0);
    IF is_valid THEN
        PERFORM _idem_require_fresh_snapshots('idem_machine_attach()');
    END IF;
    IF t.kind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = target) THEN
        RAISE WARNING 'rows of the tables that inherit from "%" are not guarded', t.relation
            USING HINT = 'Call idem_machine_attach for each of those tables, too.';
    END IF;
    IF _idem_is_on_workers(target) THEN
        RAISE WARNING 'state machine "%" guards table "%" in idem_transition alone', machine, t.relation
            USING DETAIL = 'Citus takes no triggers on a distributed table: INSERT and UPDATE write any state.',
                  HINT = 'Change the column by idem_transition only.';
        RETURN _idem_citus_guard_statement(target, state_column, machine, is_valid);
    END IF;
    RETURN _idem_guard_statement('CREATE', _idem_free_guard_name(target, state_column), target,
        ARRAY[machine, state_column, CASE WHEN is_logged THEN 'log' ELSE 'no log' END, CASE WHEN is_valid THEN 'valid' ELSE 'not valid' END]);
END
$$;

CREATE FUNCTION _idem_machine_attach_check(target regclass, state_column name, machine text, log boolean, validate boolean)
RETURNS void LANGUAGE plpgsql VOLATILE SET row_security = off AS $$
DECLARE
    states CONSTANT text[] := _idem_states(_idem_lock_machines(machine));
BEGIN
    PERFORM _idem_check_attachable(target, state_column, machine, coalesce(log, false), states, 1);
    IF coalesce(validate, true) THEN
        PERFORM _idem_check_rows(target, state_column, machine, states);
    END IF;
END
$$;

-- CREATE TRIGGER takes the lock that keeps writers away. LOCK TABLE would need other privileges.
CREATE FUNCTION idem_machine_attach LANGUAGE plpgsql UNPINNED AS $$
BEGIN
    EXECUTE @extschema@._idem_machine_attach_statement(target, state_column, machine, log, validate);
    PERFORM @extschema@._idem_machine_attach_check(target, state_column, machine, log, validate);
END
$$;

CREATE FUNCTION _idem_raise_not_attached(target oid, state_column name) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t       CONSTANT record := _idem_row_table(target);
    message CONSTANT text := format('column "%s" of table "%s" has no state machine', state_column, t.relation);
BEGIN
    IF _idem_row_column(target, state_column) IS NULL THEN
        PERFORM _idem_row_no_column(state_column, t.relation);
    ELSIF (SELECT c.relispartition FROM pg_class c WHERE c.oid = target) THEN
        RAISE undefined_object USING MESSAGE = message, HINT = 'The state machine is attached to the partitioned table.';
    END IF;
    RAISE undefined_object USING MESSAGE = message;
END
$$;

CREATE FUNCTION _idem_machine_detach_statements(target regclass, state_column name) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t          record;
    statements text[];
BEGIN
    IF state_column IS NULL THEN
        PERFORM _idem_null('state_column');
    END IF;
    PERFORM _idem_require_writable('idem_machine_detach()');
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = target AND NOT pg_has_role(c.relowner, 'USAGE')) THEN
        PERFORM _idem_deny(target, 'must be owner of');
    END IF;
    t := _idem_row_table(target);
    statements := ARRAY(SELECT format('DROP TRIGGER %I ON %s', g.tgname, t.name) FROM pg_trigger g
                         WHERE g.tgrelid = target AND g.tgfoid = 'idem_state_guard'::regproc AND g.tgnargs = 4 AND g.tgparentid = 0
                           AND _idem_guard_argument(g.tgargs, 2) = state_column);
    statements := statements || ARRAY(SELECT _idem_citus_guard_statement(target, g.column_name, g.machine, NULL) FROM _idem_citus_guards_of(target) AS g
                                       WHERE g.column_name = state_column AND g.machine IS NOT NULL);
    IF statements = '{}' THEN
        PERFORM _idem_raise_not_attached(target, state_column);
    END IF;
    RETURN statements;
END
$$;

CREATE FUNCTION idem_machine_detach LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    statement pg_catalog.text;
BEGIN
    FOREACH statement IN ARRAY @extschema@._idem_machine_detach_statements(target, state_column) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- Reads the rows while writers go on: the guard watches them. Returns the statements that record that the guard is valid; they wait for the writers,
-- as a trigger cannot be changed otherwise.
CREATE FUNCTION _idem_machine_validate_statements(target regclass, state_column name)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET row_security = off AS $$
DECLARE
    t        record;
    guard    record;
    disabled record;
    states   text[];
    changed  text;
BEGIN
    PERFORM _idem_check_may_attach(target);
    IF state_column IS NULL THEN
        PERFORM _idem_null('state_column');
    END IF;
    PERFORM _idem_require_writable('idem_machine_validate()');
    PERFORM _idem_lock_machines('');
    t := _idem_row_table(target);
    PERFORM _idem_lock_table(target, 'SHARE UPDATE EXCLUSIVE');
    t := _idem_row_table(target);
    SELECT g.tgname, g.tgargs, g.tgenabled, s.of_machine AS machine, s.valid AS is_valid INTO guard
      FROM _idem_state_guards() AS s LEFT JOIN pg_trigger g ON g.oid = s.trigger
     WHERE s.relation = target AND s.column_name = state_column ORDER BY g.tgname LIMIT 1;
    IF NOT FOUND THEN
        PERFORM _idem_raise_not_attached(target, state_column);
    ELSIF guard.is_valid THEN
        RETURN '{}';
    END IF;
    -- Rows could change past a guard that does not fire.
    SELECT g.tgname, c.relname, n.nspname INTO disabled
      FROM _idem_parts(target) AS p JOIN pg_trigger g ON g.tgrelid = p.part JOIN pg_class c ON c.oid = p.part JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE g.tgfoid = 'idem_state_guard'::regproc AND g.tgnargs = 4 AND g.tgenabled NOT IN ('O', 'A')
       AND _idem_guard_argument(g.tgargs, 2) = state_column LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the guard of column "%s" of table "%s" is disabled', state_column, disabled.relname),
            HINT = format('Run ALTER TABLE %I.%I ENABLE TRIGGER %I.', disabled.nspname, disabled.relname, disabled.tgname);
    END IF;
    IF _idem_row_column(target, state_column) IS NULL THEN
        PERFORM _idem_raise_renamed(target, state_column);
    END IF;
    states := _idem_states(_idem_lock_machines(guard.machine));
    IF states IS NULL THEN
        PERFORM _idem_raise_no_machine(guard.machine);
    END IF;
    PERFORM _idem_check_labels(target, state_column, guard.machine, states);
    PERFORM _idem_require_fresh_snapshots('idem_machine_validate()');
    PERFORM _idem_check_rows(target, state_column, guard.machine, states);
    IF guard.tgname IS NULL THEN
        RETURN ARRAY[_idem_citus_guard_statement(target, state_column, guard.machine, true)];
    END IF;
    changed := _idem_guard_statement(CASE WHEN current_setting('server_version_num')::integer >= 140000 THEN 'CREATE OR REPLACE' ELSE 'CREATE' END,
        guard.tgname, target, ARRAY[guard.machine, state_column, _idem_guard_argument(guard.tgargs, 3), 'valid']);
    RETURN CASE WHEN changed LIKE 'CREATE TRIGGER%' THEN ARRAY[format('DROP TRIGGER %I ON %s', guard.tgname, t.name)] END
        || changed || CASE guard.tgenabled WHEN 'A' THEN ARRAY[format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.name, guard.tgname)] END;
END
$$;

CREATE FUNCTION idem_machine_validate LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    statement pg_catalog.text;
BEGIN
    FOREACH statement IN ARRAY @extschema@._idem_machine_validate_statements(target, state_column) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
