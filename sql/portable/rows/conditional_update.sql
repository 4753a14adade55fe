-- conditional_update: compare and set.

CREATE FUNCTION _idem_row_not_empty(object jsonb, argument text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _idem_row_object(object, argument);
    IF object = '{}' THEN
        PERFORM _idem_invalid(argument || ' must name at least one column');
    END IF;
END
$$;

-- Records compare their fields by the equality of the fields' types, and nulls are equal: IS NOT DISTINCT FROM without a search_path. 42883 if a type
-- has no equality. The record of the expected values is compared with itself, so that this does not depend on the rows.
CREATE FUNCTION _idem_row_conditional_plan(target regclass, key jsonb, expected jsonb, changes jsonb)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t         record := _idem_row_table(target);
    change    record;
    condition text;
    present   text;
    wanted    text;
    column_of_row text; -- Citus sends no constant row to a worker: with a column in it, it is none
BEGIN
    PERFORM _idem_row_object(key, 'key');
    PERFORM _idem_row_not_empty(expected, 'expected');
    PERFORM _idem_row_not_empty(changes, 'changes');
    PERFORM _idem_row_members(target, t.relation, key, expected, changes);
    condition := _idem_row_by_key(target, t.relation, key);
    SELECT string_agg('t.' || v.name, ', ' ORDER BY v.n), string_agg(v.value || v.coll, ', ' ORDER BY v.n) INTO present, wanted
      FROM _idem_row_values(target, expected, '$2', true) AS v;
    IF _idem_citus_group(target) IS NOT NULL THEN
        column_of_row := format(', pg_catalog.num_nulls(%s)', present);
        present := present || column_of_row;
        wanted := wanted || column_of_row;
    END IF;
    change := _idem_row_changes(target, changes);
    RETURN _idem_row_change_plan(target, t.item, _idem_row_data(target), change.assignments, condition,
        format('pg_catalog.record_eq(ROW(%s), ROW(%s))', present, wanted), 'NULL::pg_catalog.numeric',
        format(' AND pg_catalog.record_eq(ROW(%s), ROW(%1$s)) IS NOT NULL%s', wanted, change.gate));
END
$$;

CREATE FUNCTION conditional_update LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    done pg_catalog.record;
BEGIN
    done := @extschema@._idem_row_change(target, @extschema@._idem_row_conditional_plan(target, key, expected, changes), key, expected, changes);
    outcome := CASE WHEN done.is_changed THEN 'updated' WHEN NOT done.is_changed THEN 'conflict' ELSE 'not_found' END;
    row_data := done.row_data;
END
$$;
