-- Changes of machines. They read the rows of the attached tables.

-- A function of another role that the server would call to plan a query on the table: an index, a constraint or statistics can make it do so. NULL: none.
CREATE FUNCTION _idem_code_of_others(target oid) RETURNS regprocedure LANGUAGE sql STABLE AS $$
    WITH parts AS (SELECT p.part FROM _idem_parts(target) AS p),
    planned AS (
        SELECT 'pg_class'::regclass AS classid, part AS objid FROM parts
        UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM parts JOIN pg_index i ON i.indrelid = part
        UNION ALL SELECT 'pg_constraint'::regclass, c.oid FROM parts JOIN pg_constraint c ON c.conrelid = part
        UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM parts JOIN pg_statistic_ext s ON s.stxrelid = part)
    SELECT p.oid::regprocedure
      FROM planned JOIN pg_depend d USING (classid, objid)
           LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
           JOIN pg_proc p ON p.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
           JOIN pg_roles r ON r.oid = p.proowner
     WHERE NOT r.rolsuper AND r.rolname <> current_user LIMIT 1
$$;

-- Whose code the caller would run who reads rows of the table, other than roles that the caller trusts: superusers, and roles whose privileges the caller has.
-- The owner of the table, of a partition or of their schemas can put another relation in the place of the name. NULL: nobody's.
CREATE FUNCTION _idem_untrusted_owner(target oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT format('%s "%s" belongs to role "%s".', o.kind, o.name, r.rolname)
      FROM _idem_parts(target) AS p JOIN pg_class c ON c.oid = p.part JOIN pg_namespace n ON n.oid = c.relnamespace
           CROSS JOIN LATERAL (VALUES ('Table', c.relname, c.relowner), ('Schema', n.nspname, n.nspowner)) AS o (kind, name, owner)
           JOIN pg_roles r ON r.oid = CASE WHEN o.owner = 'pg_database_owner'::regrole THEN (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
                                           ELSE o.owner END
     WHERE NOT r.rolsuper AND r.rolname <> current_user
       AND NOT (pg_has_role(r.oid, 'USAGE') AND NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = current_user)) LIMIT 1
$$;

-- Whether the table has rows in states that the new definition lacks. Runs as the caller, who needs privileges on the table if the machine loses states.
CREATE FUNCTION _idem_check_attached(target regclass, of_column name, is_valid boolean, machine text, states text[], loses_states boolean)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    reads_rows CONSTANT boolean := is_valid AND loses_states;
    entry pg_class;
    owner text;
    code  regprocedure;
BEGIN
    SELECT * INTO entry FROM pg_class c WHERE c.oid = target;
    -- Nobody can read a temporary table of another session. Its guard refuses the moves that the new definition lacks.
    IF NOT FOUND OR entry.relkind NOT IN ('r', 'p') OR pg_is_other_temp_schema(entry.relnamespace) THEN
        RETURN;
    ELSIF has_schema_privilege(entry.relnamespace, 'USAGE') AND has_table_privilege(target, 'UPDATE, DELETE, TRUNCATE') THEN
        IF NOT _idem_lock_table(target, 'SHARE ROW EXCLUSIVE') THEN
            RETURN;
        END IF;
    ELSIF reads_rows THEN
        RAISE insufficient_privilege USING MESSAGE = format('permission denied for table %s', entry.relname),
            DETAIL = format('State machine "%s" is attached to column "%s" and loses states; writers of the table have to wait meanwhile.', machine, of_column),
            HINT = 'Call the function as the owner of the table, or as a role with the privileges SELECT and UPDATE on it.';
    END IF;
    -- While this call waited for the lock, the machine may have been detached. The guard of a column that was renamed, or cannot hold states, refuses
    -- every write.
    IF NOT EXISTS (SELECT FROM _idem_state_guards() AS g WHERE g.relation = target AND g.of_machine = machine AND g.column_name = of_column)
       OR NOT EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = (_idem_base_type(a.atttypid)).type
                       WHERE a.attrelid = target AND a.attname = of_column AND a.attnum > 0 AND NOT a.attisdropped
                         AND (t.typtype = 'e' OR t.oid IN ('text'::regtype, 'varchar'::regtype))) THEN
        RETURN;
    END IF;
    PERFORM _idem_check_labels(target, of_column, machine, states);
    IF reads_rows THEN
        PERFORM _idem_require_fresh_snapshots('idem_machine_define()');
        IF NOT has_column_privilege(target, of_column::text, 'SELECT') THEN
            RAISE insufficient_privilege USING MESSAGE = format('permission denied for table %s', entry.relname),
                DETAIL = format('State machine "%s" is attached to column "%s" and loses states; its rows have to be read.', machine, of_column),
                HINT = 'Call the function as the owner of the table, or as a role with the privileges SELECT and UPDATE on it.';
        END IF;
        owner := _idem_untrusted_owner(target);
        IF owner IS NOT NULL THEN
            RAISE insufficient_privilege USING MESSAGE = format('cannot look at the rows of table "%s" as role "%s"', entry.relname, current_user),
                DETAIL = owner || ' Code of this role could run.',
                HINT = 'Call idem_machine_define as a role that has the privileges of that role and is no superuser, or let the owner of the table detach the state machine first.';
        END IF;
        code := _idem_code_of_others(target);
        IF code IS NOT NULL THEN
            RAISE insufficient_privilege USING MESSAGE = format('cannot look at the rows of table "%s" as role "%s"', entry.relname, current_user),
                DETAIL = format('An index, a constraint or statistics of the table can call function %s of another role.', code),
                HINT = 'Call idem_machine_define as the owner of that function, or detach the state machine first with idem_machine_detach.';
        END IF;
        PERFORM _idem_check_rows(target, of_column, machine, states);
    END IF;
END
$$;

-- For idem_machine_define, which has read the rows as its caller.
CREATE FUNCTION _idem_machine_store(name text, definition jsonb) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
BEGIN
    PERFORM _idem_check_machine($1), _idem_check_definition($2), _idem_states($2);
    INSERT INTO idem_machines AS m (name, definition) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET definition = excluded.definition;
END
$$;

CREATE FUNCTION idem_machine_define LANGUAGE plpgsql SET row_security = off AS $$
#variable_conflict use_column
DECLARE
    states text[];
    known  jsonb;
    loses  boolean := true;
    guard  record;
BEGIN
    PERFORM _idem_check_machine($1);
    IF $2 IS NULL THEN
        PERFORM _idem_null('definition');
    END IF;
    PERFORM _idem_check_definition($2);
    states := _idem_states($2);
    PERFORM _idem_require_writable('idem_machine_define()');
    known := _idem_lock_machines($1);
    BEGIN
        loses := (_idem_states(known) <@ states) IS NOT TRUE;
    EXCEPTION WHEN invalid_parameter_value THEN -- somebody has stored it by SQL
    END;
    FOR guard IN SELECT g.relation, g.column_name, bool_or(g.valid) AS is_valid FROM _idem_state_guards() AS g WHERE g.of_machine = $1
                  GROUP BY 1, 2 ORDER BY 1, 2 LOOP
        PERFORM _idem_check_attached(guard.relation, guard.column_name, guard.is_valid, $1, states, loses);
    END LOOP;
    PERFORM _idem_machine_store($1, $2);
END
$$;

CREATE FUNCTION idem_machine_drop LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    attached text;
BEGIN
    PERFORM _idem_check_machine($1);
    PERFORM _idem_require_writable('idem_machine_drop()');
    IF _idem_lock_machines($1) IS NULL THEN
        PERFORM _idem_raise_no_machine($1);
    END IF;
    SELECT string_agg(format('column "%s" of table "%s"', a.column_name, coalesce(c.relname, '?')), ', ' ORDER BY a.relation, a.column_name) INTO attached
      FROM (SELECT DISTINCT g.relation, g.column_name FROM _idem_state_guards() AS g WHERE g.of_machine = $1) a LEFT JOIN pg_class c ON c.oid = a.relation;
    IF attached IS NOT NULL THEN
        RAISE dependent_objects_still_exist USING MESSAGE = format('cannot drop state machine "%s" because tables depend on it', $1),
            DETAIL = format('It is attached to %s.', attached), HINT = 'Detach it first with idem_machine_detach.';
    END IF;
    DELETE FROM ONLY idem_machines m WHERE m.name = $1;
    IF NOT FOUND THEN
        RAISE serialization_failure USING MESSAGE = format('could not serialize access due to a concurrent definition of state machine "%s"', $1);
    END IF;
END
$$;
