-- optimistic_update.

CREATE FUNCTION _idem_row_optimistic_plan(target regclass, key jsonb, expected_version bigint, changes jsonb)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t         record := _idem_row_table(target);
    held      record;
    change    record;
    condition text;
BEGIN
    PERFORM _idem_row_object(key, 'key');
    IF expected_version IS NULL THEN
        PERFORM _idem_null('expected_version');
    END IF;
    PERFORM _idem_row_object(changes, 'changes');
    PERFORM _idem_row_members(target, t.relation, key, changes);
    held := _idem_version_guard_of(target);
    IF held.guarded IS NULL THEN
        PERFORM _idem_no_version_guard(t.relation, t.name);
    ELSIF _idem_row_column(target, held.guarded) IS NULL THEN
        PERFORM _idem_row_no_column(held.guarded, t.relation);
    END IF;
    condition := _idem_row_by_key(target, t.relation, key);
    IF changes ? held.guarded THEN
        PERFORM _idem_invalid(format('changes must not contain the version column "%s"', held.guarded), 'It is set to expected_version plus one.');
    END IF;
    change := _idem_row_changes(target, changes);
    RETURN _idem_row_change_plan(target, t.item, _idem_row_data(target),
        concat_ws(', ', change.assignments, format('%1$I = t.%1$I OPERATOR(pg_catalog.+) 1', held.guarded)), condition,
        format('t.%I OPERATOR(pg_catalog.=) %L::pg_catalog.int8', held.guarded, expected_version),
        format('CAST(t.%I AS pg_catalog.numeric)', held.guarded), change.gate);
END
$$;

CREATE FUNCTION optimistic_update LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    done pg_catalog.record;
BEGIN
    done := @extschema@._idem_row_change(target, @extschema@._idem_row_optimistic_plan(target, key, expected_version, changes), key, NULL, changes);
    outcome := CASE WHEN done.is_changed THEN 'updated' WHEN NOT done.is_changed THEN 'conflict' ELSE 'not_found' END;
    version := done.number;
    row_data := done.row_data;
END
$$;
