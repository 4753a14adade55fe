-- The changes of a row that is as expected: of optimistic_update, conditional_update, conditional_adjust and idem_transition.

-- `change`, with `results` of what it made of t. Citus takes no function in RETURNING that is not immutable; what is read from the statement runs on the
-- worker as a whole.
CREATE FUNCTION _idem_row_returning(target regclass, change text, results text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN format(CASE WHEN _idem_citus_group(target) IS NULL THEN '%s RETURNING %s' ELSE 'WITH t AS (%s RETURNING t.*) SELECT %s FROM t' END, change, results);
END
$$;

-- The assignments of an object, and a condition that reads the values that are no literals. It is true, and does not depend on the row.
CREATE FUNCTION _idem_row_changes(target oid, changes jsonb, OUT assignments text, OUT gate text) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT string_agg(format('%s = %s', v.name, v.value), ', ' ORDER BY v.n),
           coalesce(string_agg(_idem_row_reading(v.value), '') FILTER (WHERE NOT v.is_literal), '')
      INTO assignments, gate
      FROM _idem_row_values(target, changes, '$3', false) AS v;
END
$$;

-- A statement that changes the row if it is as expected, and one that reads it. `gate` holds; it makes the server read values that it would not need.
CREATE FUNCTION _idem_row_change_plan(target regclass, item text, row_data text, changes text, condition text, expected text, number text, gate text)
RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY[_idem_row_returning(target, format('UPDATE %s SET %s WHERE %s AND (%s)%s', item, changes, condition, expected, gate),
                                     format('true, %s, %s, NULL::pg_catalog.jsonb', number, row_data)),
                 format('SELECT (%s) IS TRUE, %s, %s, NULL::pg_catalog.jsonb FROM %s WHERE %s', expected, number, row_data, item, condition)];
END
$$;

-- Changes the row by a plan of _idem_row_change_plan. is_changed: NULL if there is no such row.
CREATE FUNCTION _idem_row_change(target regclass, plan text[], key jsonb, expected jsonb, changes jsonb,
                                OUT is_changed boolean, OUT number numeric, OUT row_data jsonb)
LANGUAGE plpgsql VOLATILE UNPINNED AS $$
DECLARE
    done    pg_catalog.record;
    attempt integer := 0;
BEGIN
    LOOP
        attempt := attempt OPERATOR(pg_catalog.+) 1;
        done := @extschema@._idem_row_run(plan[1], key, expected, changes);
        is_changed := true;
        EXIT WHEN done.is_found;
        done := @extschema@._idem_row_run(plan[2], key, expected, changes);
        is_changed := CASE WHEN done.is_found THEN false END;
        EXIT WHEN NOT done.is_found OR NOT done.is_expected;
        -- The row has become as expected after the UPDATE, or may not be updated. Once locked, it no longer changes.
        done := @extschema@._idem_row_run(pg_catalog.concat(plan[2], ' FOR UPDATE'), key, expected, changes);
        EXIT WHEN done.is_found AND NOT done.is_expected;
        IF done.is_found THEN
            done := @extschema@._idem_row_run(plan[1], key, expected, changes);
            IF NOT done.is_found THEN
                PERFORM @extschema@._idem_row_suppressed(target, 'UPDATE');
            END IF;
            is_changed := true;
            EXIT;
        END IF;
        -- A row that is seen three times and cannot be locked is one that row-level security does not let the caller update.
        is_changed := NULL;
        EXIT WHEN attempt OPERATOR(pg_catalog.>=) 3 AND pg_catalog.row_security_active(target);
    END LOOP;
    number := done.number;
    row_data := done.row_data;
END
$$;
