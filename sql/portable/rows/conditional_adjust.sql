-- conditional_adjust: a number within limits.

-- A floating-point number with all its digits.
CREATE FUNCTION _idem_row_digits(value real) RETURNS numeric LANGUAGE sql IMMUTABLE PINNED SET extra_float_digits = 1 AS $$ SELECT value::text::numeric $$;

CREATE FUNCTION _idem_row_digits(value double precision) RETURNS numeric LANGUAGE sql IMMUTABLE PINNED SET extra_float_digits = 1 AS $$
    SELECT value::text::numeric
$$;

-- Numbers are added as numeric; floating-point numbers keep their type, as they would lose digits as numeric.
CREATE FUNCTION _idem_row_adjust_plan(target regclass, key jsonb, column_name name, delta numeric, minimum numeric, maximum numeric)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t         record := _idem_row_table(target);
    entry     record;
    base      record;
    calc      text;
    number    text;
    sum       text;
    expected  text;
    condition text;
BEGIN
    PERFORM _idem_row_object(key, 'key');
    IF column_name IS NULL THEN
        PERFORM _idem_null('column_name');
    END IF;
    SELECT a.atttypid, a.atttypmod INTO entry FROM pg_attribute a WHERE a.attrelid = target AND a.attnum = _idem_row_column(target, column_name);
    IF NOT FOUND THEN
        PERFORM _idem_row_no_column(column_name, t.relation);
    ELSIF delta IS NULL THEN
        PERFORM _idem_null('delta');
    ELSIF minimum = 'NaN' THEN
        PERFORM _idem_invalid('minimum must not be NaN');
    ELSIF maximum = 'NaN' THEN
        PERFORM _idem_invalid('maximum must not be NaN');
    END IF;
    minimum := coalesce(minimum, 0);
    IF minimum::text = '-Infinity' THEN
        minimum := NULL;
    ELSIF minimum > maximum THEN
        PERFORM _idem_invalid('minimum must not be greater than maximum');
    END IF;
    base := _idem_base_type(entry.atttypid, entry.atttypmod);
    calc := CASE base.type WHEN 'real'::regtype THEN 'pg_catalog.float4' WHEN 'double precision'::regtype THEN 'pg_catalog.float8'
                           ELSE 'pg_catalog.numeric' END;
    IF base.type <> ALL ('{smallint,integer,bigint,numeric,real,double precision}'::regtype[]) THEN
        RAISE datatype_mismatch
            USING MESSAGE = format('column "%s" of table "%s" is of type %s', column_name, t.relation, format_type(entry.atttypid, NULL)),
            DETAIL = 'Only a number can be adjusted.';
    ELSIF delta::text IN ('NaN', 'Infinity', '-Infinity') THEN
        PERFORM _idem_invalid('delta must be finite');
    ELSIF calc = 'pg_catalog.numeric' AND NOT (base.type = 'numeric'::regtype AND base.typmod < 0)
          AND delta <> round(delta, CASE WHEN base.type = 'numeric'::regtype THEN (((base.typmod - 4) & 2047) # 1024) - 1024 ELSE 0 END) THEN
        PERFORM _idem_invalid(format('column "%s" cannot hold a delta of %s exactly', column_name, delta));
    END IF;
    PERFORM _idem_row_members(target, t.relation, key);
    number := format('CAST(t.%I AS %s)', column_name, calc);
    sum := format('%s OPERATOR(pg_catalog.+) CAST(%L::pg_catalog.numeric AS %s)', number, delta, calc);
    expected := concat_ws(' AND ',
        CASE WHEN minimum IS NOT NULL THEN format('%s OPERATOR(pg_catalog.>=) CAST(%L::pg_catalog.numeric AS %s)', sum, minimum, calc) END,
        CASE WHEN maximum IS NOT NULL THEN format('%s OPERATOR(pg_catalog.<=) CAST(%L::pg_catalog.numeric AS %s)', sum, maximum, calc) END,
        CASE WHEN minimum IS NULL AND maximum IS NULL THEN number || ' IS NOT NULL' END);
    condition := _idem_row_by_key(target, t.relation, key);
    RETURN _idem_row_change_plan(target, t.item, 'NULL::pg_catalog.jsonb', format('%I = %s', column_name, sum), condition, expected,
        CASE WHEN calc = 'pg_catalog.numeric' THEN number
             WHEN _idem_citus_group(target) IS NOT NULL THEN format('CAST(CAST(%s AS pg_catalog.text) AS pg_catalog.numeric)', number)
             ELSE format('%s._idem_row_digits(%s)', (SELECT p.pronamespace::regnamespace FROM pg_proc p WHERE p.oid = '_idem_row_run'::regproc), number)
        END, '');
END
$$;

CREATE FUNCTION _idem_row_null(target regclass, column_name name) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE null_value_not_allowed USING
        MESSAGE = format('column "%s" of the row of table "%s" is null', column_name, (SELECT c.relname FROM pg_class c WHERE c.oid = target)),
        DETAIL = 'Nothing can be added to it.';
END
$$;

CREATE FUNCTION conditional_adjust LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    done pg_catalog.record;
BEGIN
    done := @extschema@._idem_row_change(target, @extschema@._idem_row_adjust_plan(target, key, column_name, delta, minimum, maximum), key, NULL, NULL);
    IF NOT done.is_changed AND done.number IS NULL THEN
        PERFORM @extschema@._idem_row_null(target, column_name);
    END IF;
    outcome := CASE WHEN done.is_changed THEN 'adjusted' WHEN NOT done.is_changed THEN 'out_of_range' ELSE 'not_found' END;
    value := done.number;
END
$$;
