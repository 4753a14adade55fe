-- unique_insert: a unique index decides.

-- insertion: INSERT ... ON CONFLICT DO NOTHING; attempt: the same without ON CONFLICT; find: the row that has the key of the new row, unless defaults
-- or generation decide what that is. has_row_triggers: BEFORE triggers, which may have changed the key.
CREATE FUNCTION _idem_row_unique_plan(target regclass, new_row jsonb, conflict_columns name[],
                                     OUT insertion text, OUT attempt text, OUT find text, OUT index oid, OUT has_row_triggers boolean,
                                     OUT has_triggers boolean)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t        record := _idem_row_table(target);
    wanted   smallint[];
    full_row jsonb;
    arbiter  text;
    row_data text := _idem_row_data(target);
BEGIN
    PERFORM _idem_row_object(new_row, 'new_row');
    IF conflict_columns IS NOT NULL THEN
        wanted := _idem_row_names(target, conflict_columns, 'conflict_columns');
    END IF;
    PERFORM _idem_row_members(target, t.relation, new_row);
    IF conflict_columns IS NULL THEN
        SELECT k.index, k.columns INTO index, wanted FROM _idem_row_keys(target, false) AS k WHERE k.is_primary;
        IF NOT FOUND THEN
            RAISE invalid_column_reference USING MESSAGE = format('table "%s" has no primary key that is not deferrable', t.relation),
                HINT = 'Name the columns of a unique key in conflict_columns.';
        END IF;
    ELSE
        PERFORM _idem_row_all_columns(t.relation, conflict_columns, wanted);
        index := (SELECT k.index FROM _idem_row_keys(target, true) AS k
                   WHERE cardinality(k.columns) = cardinality(wanted) AND k.columns @> wanted ORDER BY k.index LIMIT 1);
        IF index IS NULL THEN
            PERFORM _idem_row_no_key(target, t.relation, wanted, true);
        END IF;
    END IF;
    full_row := _idem_row_with_nulls(target, t.relation, new_row, wanted);
    SELECT format(' ON CONFLICT ON CONSTRAINT %I DO NOTHING', c.conname) INTO arbiter FROM pg_constraint c
     WHERE c.conindid = index AND c.conrelid = target AND c.contype IN ('p', 'u');
    IF NOT FOUND THEN
        SELECT format(' ON CONFLICT (%s) DO NOTHING',
                      string_agg(format('%I%s %I.%I', a.attname,
                                        CASE WHEN o.coll <> 0 THEN ' COLLATE ' || _idem_collation_name(o.coll) ELSE '' END, n.nspname, c.opcname),
                                 ', ' ORDER BY o.n)) INTO arbiter
          FROM _idem_row_operators(index, false) AS o JOIN pg_attribute a ON a.attrelid = target AND a.attnum = o.number
          JOIN pg_opclass c ON c.oid = o.operator_class JOIN pg_namespace n ON n.oid = c.opcnamespace;
    END IF;
    insertion := _idem_row_insert(target, t.name, new_row, arbiter, row_data, 'NULL::pg_catalog.jsonb');
    IF _idem_row_numbers(target, full_row) @> wanted THEN
        find := _idem_row_find(target, t.item, index, full_row);
    END IF;
    has_row_triggers := _idem_row_triggers(target, t.kind, 7, 7);
    IF has_row_triggers OR find IS NULL THEN
        attempt := _idem_row_insert(target, t.name, new_row, '', 'NULL::pg_catalog.jsonb', 'NULL::pg_catalog.jsonb');
    END IF;
    has_triggers := has_row_triggers OR _idem_row_triggers(target, 'r', 5, 4);
END
$$;

CREATE FUNCTION _idem_row_vanished(target regclass) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE serialization_failure USING MESSAGE = 'could not serialize access due to concurrent delete',
        DETAIL = format('A duplicate kept the row out of table "%s" and was gone before it could be read.',
                        (SELECT c.relname FROM pg_class c WHERE c.oid = target)),
        HINT = 'The transaction might succeed if retried.';
END
$$;

-- The unique index decides. If BEFORE triggers run, and no row has the key as it was given, the row is inserted once more without ON CONFLICT, in a
-- subtransaction that is undone: it tells whether the triggers discard the row or make it a duplicate, and of which key.
CREATE FUNCTION unique_insert LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    plan       pg_catalog.record;
    done       pg_catalog.record;
    made       pg_catalog.jsonb;
    detail     pg_catalog.text;
    is_certain boolean;
    is_there   boolean;
BEGIN
    plan := @extschema@._idem_row_unique_plan(target, new_row, conflict_columns);
    FOR attempt IN 1..100 LOOP
        done := @extschema@._idem_row_run(plan.insertion, NULL, NULL, new_row);
        outcome := CASE WHEN done.is_found THEN 'inserted' ELSE 'duplicate' END;
        row_data := done.row_data;
        IF done.is_found THEN
            RETURN;
        END IF;
        IF plan.find IS NULL THEN
            made := @extschema@._idem_row_made_key(target, plan.index, new_row);
        ELSE
            made := new_row;
        END IF;
        IF made IS NOT NULL THEN
            done := @extschema@._idem_row_run(coalesce(plan.find, @extschema@._idem_row_find_plan(target, plan.index, made)), made, NULL, NULL);
            row_data := done.row_data;
        END IF;
        is_certain := made IS NOT NULL AND NOT plan.has_row_triggers;
        -- What is there and not seen is hidden by row-level security, if it was not just deleted.
        IF done.is_found OR is_certain AND attempt OPERATOR(pg_catalog.>=) 3 AND pg_catalog.row_security_active(target) THEN
            RETURN;
        END IF;
        IF NOT is_certain THEN
            BEGIN
                is_there := false;
                done := @extschema@._idem_row_run(plan.attempt, NULL, NULL, new_row);
                RAISE SQLSTATE 'IDUND';
            EXCEPTION
                WHEN SQLSTATE 'IDUND' THEN
                    NULL;
                WHEN unique_violation THEN
                    is_there := true;
                    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
            END;
            IF is_there THEN
                made := @extschema@._idem_row_violated_key(target, plan.index, detail);
                IF made IS NOT NULL THEN
                    done := @extschema@._idem_row_run(@extschema@._idem_row_find_plan(target, plan.index, made), made, NULL, NULL);
                    row_data := done.row_data;
                END IF;
                RETURN;
            ELSIF NOT done.is_found THEN
                PERFORM @extschema@._idem_row_suppressed(target, 'INSERT');
            END IF;
        END IF;
        EXIT WHEN plan.has_triggers;
    END LOOP;
    PERFORM @extschema@._idem_row_vanished(target);
END
$$;
