-- Statements of unique_insert and guarded_insert: they insert a row, and find the row that it would duplicate.

-- The columns of a name[] argument; NULL for a name of no column. 22004 for a null, 22023 when empty or a name comes twice.
CREATE FUNCTION _idem_row_names(target oid, names name[], argument text) RETURNS smallint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    seen    text[] := '{}';
    numbers smallint[] := '{}';
    given   name;
BEGIN
    IF cardinality(names) = 0 THEN
        PERFORM _idem_invalid(argument || ' must name at least one column');
    END IF;
    FOREACH given IN ARRAY names LOOP
        IF given IS NULL THEN
            PERFORM _idem_null('an element of ' || argument);
        ELSIF given::text = ANY (seen) THEN
            PERFORM _idem_invalid(format('%s names column "%s" more than once', argument, given));
        END IF;
        seen := seen || given::text;
        numbers := numbers || _idem_row_column(target, given);
    END LOOP;
    RETURN numbers;
END
$$;

-- 42703 for the first name whose column is not there.
CREATE FUNCTION _idem_row_all_columns(relation name, names name[], numbers smallint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    missing integer := array_position(numbers, NULL);
BEGIN
    IF missing IS NOT NULL THEN
        PERFORM _idem_row_no_column((SELECT n.name FROM unnest(names) WITH ORDINALITY AS n (name, n) WHERE n.n = missing), relation);
    END IF;
END
$$;

-- Whether an expression calls a volatile function.
CREATE FUNCTION _idem_is_volatile(expression text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM regexp_matches(expression, ':(?:op)?funcid ([0-9]+)', 'g') AS f (match)
                     JOIN pg_proc p ON p.oid = f.match[1]::oid WHERE p.provolatile = 'v')
        OR EXISTS (SELECT FROM regexp_matches(expression, ':opno ([0-9]+)', 'g') AS f (match)
                     JOIN pg_operator o ON o.oid = f.match[1]::oid JOIN pg_proc p ON p.oid = o.oprcode WHERE p.provolatile = 'v')
        OR expression LIKE '%{NEXTVALUEEXPR%';
END
$$;

-- A new row with its nulls: those of these columns that it lacks and nothing gives a value to. 22023 for one whose default differs for each row.
CREATE FUNCTION _idem_row_with_nulls(target oid, relation name, new_row jsonb, columns smallint[]) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    entry record;
BEGIN
    FOR entry IN SELECT a.attname, a.attidentity, coalesce(d.adbin::text, y.typdefaultbin::text) AS expression,
                        d.adbin IS NOT NULL OR y.typdefault IS NOT NULL OR a.attidentity <> '' AS has_value
                   FROM unnest(columns) WITH ORDINALITY AS k (number, n) JOIN pg_attribute a ON a.attrelid = target AND a.attnum = k.number
                   JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = target AND d.adnum = a.attnum
                  WHERE NOT new_row ? a.attname::text ORDER BY k.n LOOP
        IF entry.attidentity <> '' OR _idem_is_volatile(entry.expression) THEN
            PERFORM _idem_invalid(format('new_row lacks column "%s" of table "%s"', entry.attname, relation),
                'Its default gives every row another value, so such a row is never a duplicate.',
                'Give the column, or name the columns of another unique key.');
        ELSIF NOT entry.has_value THEN
            new_row := new_row || jsonb_build_object(entry.attname, NULL);
        END IF;
    END LOOP;
    RETURN new_row;
END
$$;

CREATE FUNCTION _idem_row_insert(target oid, relation text, new_row jsonb, clause text, row_data text, detail text)
RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT _idem_row_returning(target,
                       format('INSERT INTO %s AS t %s%s', relation,
                              coalesce('(' || string_agg(v.name, ', ' ORDER BY v.n) || ') VALUES (' || string_agg(v.value, ', ' ORDER BY v.n) || ')',
                                       'DEFAULT VALUES'), clause),
                       format('true, NULL::pg_catalog.numeric, %s, %s', row_data, detail))
              FROM _idem_row_values(target, new_row, '$3', false) AS v);
END
$$;

-- Whether the table, or a partition of it, has an enabled or disabled trigger whose type has these bits among those of the mask.
CREATE FUNCTION _idem_row_triggers(target regclass, kind "char", mask integer, bits integer) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF kind = 'p' THEN
        RETURN EXISTS (SELECT FROM pg_partition_tree(target) AS p JOIN pg_trigger t ON t.tgrelid = p.relid WHERE t.tgtype & mask = bits);
    END IF;
    RETURN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = target AND t.tgtype & mask = bits);
END
$$;

-- The statement that reads the row that a unique index finds equal to an object with its columns. NULLS NOT DISTINCT is new in version 15.
CREATE FUNCTION _idem_row_find(target regclass, item text, index oid, object jsonb) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN _idem_row_select(item, _idem_row_data(target),
        _idem_row_condition(target, index, object, '$1',
            (SELECT coalesce((to_jsonb(x) ->> 'indnullsnotdistinct')::boolean, false) FROM pg_index x WHERE x.indexrelid = index)));
END
$$;

CREATE FUNCTION _idem_row_find_plan(target regclass, index oid, object jsonb) RETURNS text LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t record := _idem_row_table(target);
BEGIN
    RETURN _idem_row_find(target, t.item, index, object);
END
$$;
