-- idem_transition: moves a row.

-- The condition that the state column has the state $2. Citus takes no STABLE function of a column in an UPDATE, such as concat and the output functions of
-- enums: text is compared as it is, an enum with its labels. Citus deparses a CASE that names its operand once wrongly.
CREATE FUNCTION _idem_transition_expected(target oid, state_column name) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted    CONSTANT text := '($2 OPERATOR(pg_catalog.#>>) ''{}'')';
    of_column CONSTANT record := _idem_state_column(target, state_column);
    type      CONSTANT text := _idem_type_name(of_column.type, -1);
BEGIN
    RETURN format('t.%I::%s OPERATOR(pg_catalog.=) ', state_column, type)
           || CASE WHEN NOT of_column.is_enum THEN wanted
                   ELSE (SELECT format('CASE %s END', string_agg(format('WHEN %1$s OPERATOR(pg_catalog.=) %2$L THEN %2$L::%3$s', wanted, e.enumlabel, type), ' '))
                           FROM pg_enum e WHERE e.enumtypid = of_column.type) END;
END
$$;

-- statements: those of _idem_row_change; $2 is the state that the row is expected to be in. lock: to be analyzed, which locks the table as they do, and
-- not run.
CREATE FUNCTION _idem_transition_plan(target regclass, key jsonb, to_state text, wanted name, OUT machine text, OUT lock text, OUT statements text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t            CONSTANT record := _idem_row_table(target);
    is_away      CONSTANT boolean := _idem_is_on_workers(target);
    state_column text;
    guard        record;
BEGIN
    PERFORM _idem_row_object(key, 'key');
    IF to_state IS NULL THEN
        PERFORM _idem_null('to_state');
    END IF;
    FOR guard IN SELECT _idem_guard_argument(g.tgargs, 1) AS machine, _idem_guard_argument(g.tgargs, 2) AS of_column, g.tgname FROM pg_trigger g
                  WHERE g.tgrelid = target AND g.tgfoid = 'idem_state_guard'::regproc AND g.tgnargs = 4
                 UNION ALL
                 SELECT g.machine, g.column_name, g.column_name FROM _idem_citus_guards_of(target) AS g WHERE is_away AND g.machine IS NOT NULL
                 ORDER BY 3 LOOP
        CONTINUE WHEN guard.of_column <> wanted::text;
        IF state_column <> guard.of_column THEN
            RAISE ambiguous_column USING MESSAGE = format('table "%s" has several state columns', t.relation),
                DETAIL = format('State machines are attached to "%s" and "%s".', state_column, guard.of_column), HINT = 'Name one of them as state_column.';
        END IF;
        machine := guard.machine;
        state_column := guard.of_column;
    END LOOP;
    IF state_column IS NULL AND wanted IS NOT NULL THEN
        PERFORM _idem_raise_not_attached(target, wanted);
    ELSIF state_column IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" has no state machine attached', t.relation),
            HINT = 'Attach one with idem_machine_attach.';
    ELSIF _idem_row_column(target, state_column) IS NULL THEN
        PERFORM _idem_raise_renamed(target, state_column);
    END IF;
    PERFORM _idem_state_column(target, state_column);
    PERFORM _idem_row_members(target, t.relation, key);
    lock := format('UPDATE %s SET %I = DEFAULT WHERE false RETURNING true', t.item, state_column);
    statements := _idem_row_change_plan(target, t.item,
        format('pg_catalog.to_jsonb(CASE WHEN t.%1$I IS NOT NULL THEN pg_catalog.concat(t.%1$I) END)', state_column),
        format('%I = %L', state_column, to_state), _idem_row_by_key(target, t.relation, key),
        CASE WHEN _idem_citus_group(target) IS NOT NULL THEN _idem_transition_expected(target, state_column)
             ELSE format('pg_catalog.concat(t.%I) OPERATOR(pg_catalog.=) ($2 OPERATOR(pg_catalog.#>>) ''{}'')', state_column) END, 'NULL::pg_catalog.numeric', '');
    -- A move that was committed by 2PC is acknowledged before its worker shows it, if the connection broke meanwhile. The row's lock waits for it.
    IF is_away THEN
        statements[2] := statements[2] || ' FOR UPDATE';
    END IF;
END
$$;

-- The outcome for a row in the state that was found. NULL: it can be moved.
CREATE FUNCTION _idem_transition_outcome(machine text, from_state text, to_state text, is_found boolean, found_state jsonb, OUT outcome text, OUT state text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    state := found_state #>> '{}';
    outcome := CASE
        WHEN is_found IS NOT TRUE THEN 'not_found'
        WHEN state = to_state THEN 'already'
        WHEN from_state IS NOT NULL AND state IS DISTINCT FROM from_state THEN 'conflict'
        WHEN state IS NULL OR NOT idem_can_transition(machine, state, to_state) THEN 'not_allowed' END;
END
$$;

-- If the caller expects a state that can be moved from, the UPDATE comes first. Otherwise the row's state is read first. The machine does not change
-- during the call: idem_machine_define waits for the lock that the call has on the table.
CREATE FUNCTION idem_transition LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    plan     pg_catalog.record;
    done     pg_catalog.record;
    verdict  pg_catalog.record;
    expected pg_catalog.jsonb;
    locked   pg_catalog.refcursor;
BEGIN
    plan := @extschema@._idem_transition_plan(target, key, to_state, state_column);
    OPEN locked FOR EXECUTE plan.lock;
    CLOSE locked;
    IF from_state IS NOT NULL AND from_state OPERATOR(pg_catalog.<>) to_state AND @extschema@.idem_can_transition(plan.machine, from_state, to_state) THEN
        expected := pg_catalog.to_jsonb(from_state);
    ELSE
        done := @extschema@._idem_row_run(plan.statements[2], key, NULL, NULL);
        verdict := @extschema@._idem_transition_outcome(plan.machine, from_state, to_state, done.is_found, done.row_data);
        outcome := verdict.outcome;
        state := verdict.state;
        expected := done.row_data;
    END IF;
    WHILE outcome IS NULL LOOP
        done := @extschema@._idem_row_change(target, plan.statements, key, expected, NULL);
        IF done.is_changed THEN
            outcome := 'moved';
            state := done.row_data OPERATOR(pg_catalog.#>>) '{}';
        ELSE -- it is not there, or another transaction moved it first
            verdict := @extschema@._idem_transition_outcome(plan.machine, from_state, to_state, done.is_changed IS NOT NULL, done.row_data);
            outcome := verdict.outcome;
            state := verdict.state;
            expected := done.row_data;
            plan := @extschema@._idem_transition_plan(target, key, to_state, state_column); -- an enum may have got labels
        END IF;
    END LOOP;
END
$$;
