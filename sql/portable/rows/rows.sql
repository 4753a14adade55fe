-- Changing rows of the user's own tables, as the caller. Functions that are pinned to idem's search_path read the catalogs and make the statements:
-- the _plan functions. Functions that are not pinned execute these statements, so that the user's code sees its own search_path: names in them are
-- qualified, operators too. Values of the caller are literals in the statements, or elements of the objects, which are parameters: $1 is the key,
-- $2 what is expected, $3 the changes or the new row.
--
-- Each statement returns (is_expected boolean, number numeric, row_data jsonb, detail jsonb).

-- --- Tables and values ----------------------------------------------------------------------------------------------------------------------

-- The table of a call: its names; "item" is its item in FROM. ONLY unless it is partitioned, as a unique index does not extend to children.
CREATE FUNCTION _idem_row_table(target regclass, OUT name text, OUT item text, OUT relation name, OUT kind "char") LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF target IS NULL THEN
        PERFORM _idem_null('target');
    END IF;
    -- Waits for an ALTER TABLE that is in progress; what follows sees its result. From its first statement on, the call itself locks the table.
    PERFORM pg_relation_is_updatable(c.oid, false) FROM pg_class c WHERE c.oid = target AND c.relkind IN ('r', 'p');
    SELECT format('%I.%I', n.nspname, c.relname), c.relname, c.relkind INTO name, relation, kind
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target;
    IF NOT FOUND THEN
        RAISE undefined_table USING MESSAGE = format('relation with OID %s does not exist', target::oid);
    ELSIF kind = 'v' THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" is not a table', relation), DETAIL = 'This operation is not supported for views.',
            HINT = 'Give the table that the view is made of.';
    ELSIF kind NOT IN ('r', 'p') THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" is not a table', relation),
            DETAIL = format('This operation is not supported for %s.',
                            CASE kind WHEN 'i' THEN 'indexes' WHEN 'I' THEN 'partitioned indexes' WHEN 'S' THEN 'sequences'
                                      WHEN 't' THEN 'TOAST tables' WHEN 'm' THEN 'materialized views' WHEN 'c' THEN 'composite types' ELSE 'foreign tables' END);
    END IF;
    item := CASE kind WHEN 'p' THEN '' ELSE 'ONLY ' END || name || ' AS t';
END
$$;

CREATE FUNCTION _idem_row_object(object jsonb, argument text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF object IS NULL THEN
        PERFORM _idem_null(argument);
    ELSIF jsonb_typeof(object) <> 'object' THEN
        PERFORM _idem_invalid(argument || ' must be a JSON object', hint => 'Give column names and values, such as ''{"id": 7}''.');
    END IF;
END
$$;

-- The number of a column by its name; NULL: there is none. Names of arguments may be longer than those of columns.
CREATE FUNCTION _idem_row_column(target oid, name text) RETURNS smallint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT a.attnum FROM pg_attribute a
             WHERE a.attrelid = target AND a.attname = name::name AND a.attname::text = name AND a.attnum > 0 AND NOT a.attisdropped);
END
$$;

CREATE FUNCTION _idem_row_no_column(name text, relation name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE undefined_column USING MESSAGE = format('column "%s" of relation "%s" does not exist', name, relation);
END
$$;

-- 42703 for the first member of these objects that is no column.
CREATE FUNCTION _idem_row_members(target oid, relation name, VARIADIC objects jsonb[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    unknown text;
BEGIN
    SELECT m.name INTO unknown
      FROM unnest(objects) WITH ORDINALITY AS o (object, n) CROSS JOIN LATERAL jsonb_object_keys(o.object) WITH ORDINALITY AS m (name, n)
     WHERE NOT EXISTS (SELECT FROM pg_attribute a
                        WHERE a.attrelid = target AND a.attname = m.name::name AND a.attname::text = m.name AND a.attnum > 0 AND NOT a.attisdropped)
     ORDER BY o.n, m.n LIMIT 1;
    IF FOUND THEN
        PERFORM _idem_row_no_column(unknown, relation);
    END IF;
END
$$;

-- A type's name that means the same under every search_path.
CREATE FUNCTION _idem_type_name(type oid, typmod integer) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT CASE WHEN typmod = -1 THEN format('%I.%I', n.nspname, y.typname)
                        WHEN y.oid IN ('interval'::regtype, 'interval[]'::regtype) THEN format_type(y.oid, typmod)
                        ELSE format('%I.%I', n.nspname, y.typname)
                             || coalesce(substring(format_type(y.oid, typmod) FROM '(\([^()]*\))(?: with(?:out)? time zone)?(?:\[\])*$'), '') END
              FROM pg_type y JOIN pg_namespace n ON n.oid = y.typnamespace WHERE y.oid = type);
END
$$;

-- The type that domains are over, and its modifier.
CREATE FUNCTION _idem_base_type(INOUT type oid, INOUT typmod integer DEFAULT -1) LANGUAGE plpgsql STABLE AS $$
DECLARE
    below record;
BEGIN
    LOOP
        SELECT y.typbasetype, y.typtypmod INTO below FROM pg_type y WHERE y.oid = type AND y.typtype = 'd';
        EXIT WHEN NOT FOUND;
        type := below.typbasetype;
        typmod := below.typtypmod;
    END LOOP;
END
$$;

CREATE FUNCTION _idem_collation_name(coll oid) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT format('%I.%I', n.nspname, c.collname) FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = coll);
END
$$;

-- The columns that an object names, in its order, each with its value as an expression of the column's type. Values are those that
-- jsonb_populate_record would make: a literal where the type's input function alone decides, else jsonb_to_record does the work. is_compared: the
-- value is not assigned, so nothing else applies the type's modifier. operand: a cast of both operands, as polymorphic operators take no domains.
-- coll: the column's collation, if it is not its type's.
CREATE FUNCTION _idem_row_values(target oid, object jsonb, parameter text, is_compared boolean,
                                 OUT n bigint, OUT number smallint, OUT name text, OUT value text, OUT operand text, OUT coll text,
                                 OUT own_coll oid, OUT is_literal boolean, OUT is_null boolean, OUT is_row boolean)
RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT m.n, a.attnum, quote_ident(a.attname),
           CASE WHEN l.is_literal
                THEN format('%L::%I.%I', CASE WHEN m.element = 'null' THEN NULL WHEN y.oid IN ('json'::regtype, 'jsonb'::regtype) THEN m.element::text
                                              ELSE m.element #>> '{}' END, s.nspname, y.typname)
                ELSE format('(SELECT r.%1$I FROM pg_catalog.jsonb_to_record(%2$s) AS r (%1$I %3$s))', a.attname, parameter,
                            _idem_type_name(y.oid, a.atttypmod)) END,
           CASE WHEN y.typtype = 'd' THEN '::' || _idem_type_name((_idem_base_type(y.oid)).type, -1) ELSE '' END,
           CASE WHEN a.attcollation <> y.typcollation THEN ' COLLATE ' || _idem_collation_name(a.attcollation) ELSE '' END,
           a.attcollation, l.is_literal, m.element = 'null',
           CASE y.typtype WHEN 'd' THEN (SELECT b.typtype = 'c' FROM pg_type b WHERE b.oid = (_idem_base_type(y.oid)).type) ELSE y.typtype = 'c' END
      FROM jsonb_each(object) WITH ORDINALITY AS m (name, element, n)
      JOIN pg_attribute a ON a.attrelid = target AND a.attname = m.name::name AND a.attname::text = m.name AND a.attnum > 0 AND NOT a.attisdropped
      JOIN pg_type y ON y.oid = a.atttypid
      JOIN pg_namespace s ON s.oid = y.typnamespace
     CROSS JOIN LATERAL (SELECT y.typtype IN ('b', 'e', 'r', 'm') AND y.typcategory <> 'A'
                                AND (a.atttypmod = -1
                                     OR y.oid IN ('varchar'::regtype, 'bpchar'::regtype) AND octet_length(m.element #>> '{}') <= a.atttypmod - 4
                                     OR NOT is_compared AND s.nspname = 'pg_catalog' AND y.oid NOT IN ('bit'::regtype, 'varbit'::regtype))
                                AND (jsonb_typeof(m.element) NOT IN ('object', 'array') OR y.oid IN ('json'::regtype, 'jsonb'::regtype)))
                       AS l (is_literal)
$$;

-- The row as JSON: the columns that the caller may SELECT.
CREATE FUNCTION _idem_row_data(target regclass) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF has_table_privilege(target, 'SELECT') THEN
        RETURN 'pg_catalog.to_jsonb(t.*)';
    END IF;
    RETURN _idem_row_part(target, ARRAY(SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped
                                           AND has_column_privilege(target, a.attnum, 'SELECT') ORDER BY a.attnum));
END
$$;

-- These columns as JSON.
CREATE FUNCTION _idem_row_part(target oid, columns smallint[]) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT format('(SELECT pg_catalog.to_jsonb(r.*) FROM (SELECT %s) AS r)', string_agg(format('t.%I', a.attname), ', ' ORDER BY k.n))
              FROM unnest(columns) WITH ORDINALITY AS k (number, n) JOIN pg_attribute a ON a.attrelid = target AND a.attnum = k.number);
END
$$;

CREATE FUNCTION _idem_row_select(item text, row_data text, condition text, detail text DEFAULT 'NULL::pg_catalog.jsonb')
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN format('SELECT true, NULL::pg_catalog.numeric, %s, %s FROM %s WHERE %s', row_data, detail, item, condition);
END
$$;

-- --- Keys -----------------------------------------------------------------------------------------------------------------------------------

-- ("a", "b")
CREATE FUNCTION _idem_row_list(target oid, columns smallint[]) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT format('(%s)', string_agg(quote_ident(a.attname), ', ' ORDER BY k.n))
              FROM unnest(columns) WITH ORDINALITY AS k (number, n) JOIN pg_attribute a ON a.attrelid = target AND a.attnum = k.number);
END
$$;

-- The unique indexes that find a row: valid, not partial, not on expressions, not deferrable. allows_nulls: also over columns that allow nulls.
CREATE FUNCTION _idem_row_keys(target oid, allows_nulls boolean, OUT index oid, OUT is_primary boolean, OUT columns smallint[])
RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT x.indexrelid, x.indisprimary, (x.indkey::smallint[])[0:x.indnkeyatts - 1]
      FROM pg_index x
     WHERE x.indrelid = target AND x.indisunique AND x.indisvalid AND x.indisready AND x.indislive AND x.indimmediate
       AND x.indpred IS NULL AND x.indexprs IS NULL AND NOT x.indisexclusion
       AND (allows_nulls OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = target AND NOT a.attnotnull
                                           AND a.attnum = ANY ((x.indkey::smallint[])[0:x.indnkeyatts - 1])))
$$;

-- 42P10: none of them has exactly these columns.
CREATE FUNCTION _idem_row_no_key(target oid, relation name, given smallint[], allows_nulls boolean) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    usable text := (SELECT string_agg(_idem_row_list(target, k.columns), ', ' ORDER BY k.index) FROM _idem_row_keys(target, allows_nulls) AS k);
BEGIN
    RAISE invalid_column_reference USING
        MESSAGE = format('columns %s are not a unique key of table "%s"', _idem_row_list(target, given), relation),
        DETAIL = 'Needed are exactly the columns of its primary key or of a unique index that is valid, not partial, '
                 || 'not on expressions and not deferrable' || CASE WHEN allows_nulls THEN '.' ELSE ', all of them NOT NULL.' END,
        HINT = CASE WHEN usable IS NULL THEN 'The table has none: add a primary key.' ELSE format('The table has: %s.', usable) END;
END
$$;

-- The columns of an index with their operators: strategy 1 of a B-tree is "less than", 3 is "equals"; 1 of a hash index is "equals".
CREATE FUNCTION _idem_row_operators(index oid, is_order boolean, OUT n bigint, OUT number smallint, OUT operator text, OUT equality oid, OUT coll oid,
                                    OUT operator_class oid)
RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT k.n, k.number, format('OPERATOR(%I.%s)', n.nspname, o.oprname), o.oid, k.coll, k.operator_class
      FROM pg_index x
     CROSS JOIN LATERAL unnest(x.indkey::smallint[], x.indclass::oid[], x.indcollation::oid[]) WITH ORDINALITY AS k (number, operator_class, coll, n)
      JOIN pg_opclass c ON c.oid = k.operator_class
      JOIN pg_am m ON m.oid = c.opcmethod
      JOIN pg_amop p ON p.amopfamily = c.opcfamily AND p.amoplefttype = c.opcintype AND p.amoprighttype = c.opcintype
                    AND p.amopstrategy = CASE WHEN is_order OR m.amname = 'hash' THEN 1 ELSE 3 END
      JOIN pg_operator o ON o.oid = p.amopopr
      JOIN pg_namespace n ON n.oid = o.oprnamespace
     WHERE x.indexrelid = index AND k.n <= x.indnkeyatts
$$;

-- The condition that the index finds rows by: those columns of it that the object has. nulls_are_equal: as in UNIQUE NULLS NOT DISTINCT.
CREATE FUNCTION _idem_row_condition(target oid, index oid, object jsonb, parameter text, nulls_are_equal boolean DEFAULT false)
RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT string_agg(
                   CASE WHEN v.is_null AND nulls_are_equal THEN format(CASE WHEN v.is_row THEN 'pg_catalog.num_nulls(t.%s) OPERATOR(pg_catalog.=) 1'
                                                                            ELSE 't.%s IS NULL' END, v.name)
                        ELSE format('t.%s%s%s %s %s%2$s', v.name, v.operand,
                                    CASE WHEN k.coll <> 0 AND k.coll <> v.own_coll THEN ' COLLATE ' || _idem_collation_name(k.coll) ELSE '' END,
                                    CASE WHEN k.operator_class < 16384 AND NOT v.is_row THEN 'OPERATOR(pg_catalog.=)' -- all of the server's own
                                         ELSE (SELECT o.operator FROM _idem_row_operators(index, false) AS o WHERE o.n = k.n) END, v.value) END,
                   ' AND ' ORDER BY k.n)
          FROM pg_index x
         CROSS JOIN LATERAL unnest(x.indkey::smallint[], x.indclass::oid[], x.indcollation::oid[])
                            WITH ORDINALITY AS k (number, operator_class, coll, n)
          JOIN _idem_row_values(target, object, parameter, true) AS v ON v.number = k.number
         WHERE x.indexrelid = index AND k.n <= x.indnkeyatts);
END
$$;

-- The columns of an object, by number.
CREATE FUNCTION _idem_row_numbers(target oid, object jsonb) RETURNS smallint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(SELECT a.attnum FROM jsonb_object_keys(object) WITH ORDINALITY AS m (name, n)
                   JOIN pg_attribute a ON a.attrelid = target AND a.attname = m.name::name AND a.attname::text = m.name AND a.attnum > 0
                                      AND NOT a.attisdropped ORDER BY m.n);
END
$$;

-- The condition for an argument `key`. 42P10; 22004 for a null in it.
CREATE FUNCTION _idem_row_by_key(target oid, relation name, key jsonb) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    given     smallint[];
    is_strict boolean;
    missing   text;
    index     oid;
BEGIN
    SELECT coalesce(array_agg(a.attnum ORDER BY m.n), '{}'), bool_and(a.attnotnull), min(m.name) FILTER (WHERE m.element = 'null')
      INTO given, is_strict, missing
      FROM jsonb_each(key) WITH ORDINALITY AS m (name, element, n) JOIN pg_attribute a ON a.attrelid = target AND a.attname = m.name::name;
    IF is_strict THEN
        index := (SELECT k.index FROM _idem_row_keys(target, true) AS k
                   WHERE cardinality(k.columns) = cardinality(given) AND k.columns @> given ORDER BY k.index LIMIT 1);
    END IF;
    IF index IS NULL THEN
        PERFORM _idem_row_no_key(target, relation, given, false);
    ELSIF missing IS NOT NULL THEN
        PERFORM _idem_null(format('column "%s" of key', missing));
    END IF;
    RETURN _idem_row_condition(target, index, key, '$1');
END
$$;

-- --- Execution ------------------------------------------------------------------------------------------------------------------------------

-- Executes one statement, and returns its first row. It finds rows by their index, whatever the caller has set for the planner: these settings hold
-- while it is planned, and the caller's while it runs, so triggers see theirs.
CREATE FUNCTION _idem_row_run(statement text, key jsonb, expected jsonb, changes jsonb,
                             OUT is_found boolean, OUT is_expected boolean, OUT number numeric, OUT row_data jsonb, OUT detail jsonb)
LANGUAGE plpgsql VOLATILE UNPINNED AS $$
DECLARE
    seqscan   CONSTANT pg_catalog.text := pg_catalog.current_setting('enable_seqscan');
    indexscan CONSTANT pg_catalog.text := pg_catalog.current_setting('enable_indexscan');
    jit       CONSTANT pg_catalog.text := pg_catalog.current_setting('jit');
    rows      pg_catalog.refcursor;
BEGIN
    PERFORM pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_indexscan', 'on', true),
            pg_catalog.set_config('jit', 'off', true);
    OPEN rows FOR EXECUTE statement USING key, expected, changes;
    PERFORM pg_catalog.set_config('enable_seqscan', seqscan, true), pg_catalog.set_config('enable_indexscan', indexscan, true),
            pg_catalog.set_config('jit', jit, true);
    FETCH rows INTO is_expected, number, row_data, detail;
    is_found := FOUND;
    CLOSE rows;
END
$$;

CREATE FUNCTION _idem_row_suppressed(target regclass, command text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE triggered_action_exception USING
        MESSAGE = format('%s on table "%s" was suppressed', command, (SELECT c.relname FROM pg_class c WHERE c.oid = target)),
        DETAIL = 'A trigger or rule of the table discarded the row, or changed the columns that it is found by.';
END
$$;

-- `change`, with `results` of what it made of t. Citus takes no function in RETURNING that is not immutable; what is read from the statement runs on the
-- worker as a whole.
CREATE FUNCTION _idem_row_returning(target regclass, change text, results text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN format(CASE WHEN _idem_citus_group(target) IS NULL THEN '%s RETURNING %s' ELSE 'WITH t AS (%s RETURNING t.*) SELECT %s FROM t' END, change, results);
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

CREATE FUNCTION _idem_row_reading(value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN format(' AND pg_catalog.num_nulls(%s) OPERATOR(pg_catalog.>=) 0', value);
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

-- --- Versions -------------------------------------------------------------------------------------------------------------------------------

-- The trigger that guards a table's version, as idem_guards sees it, and its column. What is recorded of a table whose rows are on workers has no trigger.
CREATE FUNCTION _idem_version_guard_of(target oid, OUT guard name, OUT guarded text) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT t.tgname, convert_from(substr(t.tgargs, 1, octet_length(t.tgargs) - 1), getdatabaseencoding()) INTO guard, guarded
      FROM pg_trigger t
     WHERE t.tgrelid = target AND t.tgfoid = 'idem_version_guard'::regproc AND t.tgnargs = 1 AND t.tgqual IS NULL AND t.tgattr = ''
       AND t.tgtype & 83 = 19
     ORDER BY t.tgname COLLATE "C" LIMIT 1;
    IF NOT FOUND THEN
        SELECT g.column_name INTO guarded FROM _idem_citus_guards_of(target) AS g WHERE g.machine IS NULL LIMIT 1;
    END IF;
END
$$;

CREATE FUNCTION _idem_no_version_guard(relation name, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" has no version guard', relation),
        HINT = format('Call optimistic_enable(%L) once.', name);
END
$$;

-- The lock that a change of the guard needs; 42501 before anything is locked.
CREATE FUNCTION _idem_row_guard_lock(target regclass, version_column name, function text)
RETURNS text LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    entry record;
    mode  text := 'ACCESS EXCLUSIVE';
    t     record;
BEGIN
    PERFORM _idem_require_writable(function);
    SELECT c.relname, c.relkind, c.relowner INTO entry FROM pg_class c WHERE c.oid = target;
    IF FOUND AND NOT pg_has_role(entry.relowner, 'USAGE') THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('must be owner of %s %s',
                             CASE entry.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence'
                                                WHEN 'f' THEN 'foreign table' WHEN 'i' THEN 'index' WHEN 'I' THEN 'index' ELSE 'table' END, entry.relname);
    END IF;
    t := _idem_row_table(target);
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = target AND a.attname = version_column AND NOT a.attisdropped) THEN
        mode := 'SHARE ROW EXCLUSIVE';
    END IF;
    RETURN format('LOCK TABLE ONLY %s IN %s MODE', t.name, mode);
END
$$;

CREATE FUNCTION _idem_row_guard_plan(target regclass, version_column name)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t      record := _idem_row_table(target);
    held   record := _idem_version_guard_of(target);
    is_new boolean := NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = target AND a.attname = version_column AND NOT a.attisdropped);
    guard  text;
    entry  record;
BEGIN
    IF held.guarded IS NOT NULL THEN
        IF held.guarded <> version_column::text THEN
            RAISE object_not_in_prerequisite_state
                USING MESSAGE = format('table "%s" already has a version guard on column "%s"', t.relation, held.guarded),
                HINT = format('Call optimistic_disable(%L) first.', t.name);
        END IF;
        RETURN '{}';
    END IF;
    IF NOT is_new THEN
        SELECT a.atttypid, a.attnotnull, a.attgenerated, a.attidentity INTO entry FROM pg_attribute a
         WHERE a.attrelid = target AND a.attnum = _idem_row_column(target, version_column);
        IF NOT FOUND THEN
            PERFORM _idem_row_no_column(version_column, t.relation);
        ELSIF entry.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN
            RAISE datatype_mismatch
                USING MESSAGE = format('column "%s" of table "%s" is of type %s', version_column, t.relation, format_type(entry.atttypid, NULL)),
                DETAIL = 'A version is a smallint, integer or bigint.';
        ELSIF entry.attgenerated <> '' OR entry.attidentity = 'a' THEN
            RAISE generated_always USING MESSAGE = format('column "%s" of table "%s" is always generated', version_column, t.relation);
        ELSIF NOT entry.attnotnull THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('column "%s" of table "%s" allows nulls', version_column, t.relation),
                HINT = format('Run ALTER TABLE %s ALTER COLUMN %I SET NOT NULL.', t.name, version_column);
        END IF;
    END IF;
    IF t.kind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = target) THEN
        RAISE WARNING USING MESSAGE = format('rows of the tables that inherit from "%s" are not guarded', t.relation),
            HINT = 'Call optimistic_enable for each of those tables, too.';
    END IF;
    IF _idem_is_on_workers(target) THEN
        RAISE WARNING 'versions of table "%" are compared by optimistic_update alone', t.relation
            USING DETAIL = 'Citus takes no triggers on a distributed table: UPDATE neither counts the version nor compares it.',
                  HINT = 'Change rows by optimistic_update, or by an UPDATE that compares the version and sets the next.';
        guard := _idem_citus_guard_statement(target, version_column, NULL, true);
    ELSE
        guard := format('CREATE TRIGGER zz_idem_version_guard BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s.idem_version_guard(%L)', t.name,
                        (SELECT p.pronamespace::regnamespace FROM pg_proc p WHERE p.oid = 'idem_version_guard'::regproc), version_column);
    END IF;
    RETURN CASE WHEN is_new THEN ARRAY[format('ALTER TABLE %s ADD COLUMN %I pg_catalog.int8 NOT NULL DEFAULT 1', t.name, version_column)]
                ELSE '{}' END || guard;
END
$$;

CREATE FUNCTION _idem_row_unguard_plan(target regclass) RETURNS text LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t    record := _idem_row_table(target);
    held record := _idem_version_guard_of(target);
BEGIN
    IF held.guarded IS NULL THEN
        PERFORM _idem_no_version_guard(t.relation, t.name);
    ELSIF held.guard IS NULL THEN
        RETURN _idem_citus_guard_statement(target, held.guarded, NULL, NULL);
    END IF;
    RETURN format('DROP TRIGGER %I ON %s', held.guard, t.name);
END
$$;

CREATE FUNCTION optimistic_enable LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    statement pg_catalog.text;
BEGIN
    version_column := coalesce(version_column, 'version');
    EXECUTE @extschema@._idem_row_guard_lock(target, version_column, 'optimistic_enable()');
    FOREACH statement IN ARRAY @extschema@._idem_row_guard_plan(target, version_column) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

CREATE FUNCTION optimistic_disable LANGUAGE plpgsql UNPINNED AS $$
BEGIN
    EXECUTE @extschema@._idem_row_guard_lock(target, NULL, 'optimistic_disable()');
    EXECUTE @extschema@._idem_row_unguard_plan(target);
END
$$;

-- Fires for anybody who may update the table, so it calls nothing of idem's. PL/pgSQL knows fields by their names in its text, and compiles each
-- expression for one type: a column called version is read and set as a field, by an expression for each type that it may be altered to. A column
-- with another name needs a query, and a copy of the row, which also copies values that are stored out of line.
CREATE FUNCTION idem_version_guard LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    is_field boolean := TG_ARGV[0] OPERATOR(pg_catalog.=) 'version';
    is_int8  boolean;
    is_int4  boolean;
    type     pg_catalog.oid;
    before   bigint;
    after    bigint;
BEGIN
    IF TG_WHEN OPERATOR(pg_catalog.<>) 'BEFORE' OR TG_LEVEL OPERATOR(pg_catalog.<>) 'ROW' OR TG_OP OPERATOR(pg_catalog.<>) 'UPDATE'
       OR TG_NARGS OPERATOR(pg_catalog.<>) 1 THEN
        RAISE trigger_protocol_violated USING MESSAGE = 'function "idem_version_guard" is the trigger that optimistic_enable makes';
    END IF;
    type := (SELECT a.atttypid FROM pg_catalog.pg_attribute a
              WHERE a.attrelid OPERATOR(pg_catalog.=) TG_RELID AND a.attname OPERATOR(pg_catalog.=) TG_ARGV[0]::pg_catalog.name
                AND a.attnum OPERATOR(pg_catalog.>) 0);
    is_int8 := type OPERATOR(pg_catalog.=) 20::pg_catalog.oid;
    is_int4 := type OPERATOR(pg_catalog.=) 23::pg_catalog.oid;
    IF type IS NULL THEN
        RAISE undefined_column USING
            MESSAGE = pg_catalog.format('version column "%s" of table "%s" does not exist', TG_ARGV[0], TG_TABLE_NAME),
            HINT = 'After renaming it, call optimistic_disable and optimistic_enable.';
    ELSIF NOT is_int8 AND NOT is_int4 AND type OPERATOR(pg_catalog.<>) 21::pg_catalog.oid THEN
        RAISE datatype_mismatch USING
            MESSAGE = pg_catalog.format('column "%s" of table "%s" is of type %s', TG_ARGV[0], TG_TABLE_NAME, pg_catalog.format_type(type, NULL)),
            DETAIL = 'A version is a smallint, integer or bigint.';
    ELSIF NOT is_field THEN
        EXECUTE pg_catalog.format('SELECT ($1).%1$I, ($2).%1$I', TG_ARGV[0]) INTO before, after USING OLD, NEW;
    ELSIF is_int8 THEN
        before := OLD.version;
        after := NEW.version;
    ELSIF is_int4 THEN
        before := OLD.version;
        after := NEW.version;
    ELSE
        before := OLD.version;
        after := NEW.version;
    END IF;
    IF after OPERATOR(pg_catalog.=) before THEN
        IF before OPERATOR(pg_catalog.=) (CASE WHEN is_int8 THEN 9223372036854775807 WHEN is_int4 THEN 2147483647 ELSE 32767 END) THEN
            RAISE numeric_value_out_of_range USING
                MESSAGE = pg_catalog.format('version column "%s" of table "%s" is at its maximum', TG_ARGV[0], TG_TABLE_NAME);
        ELSIF is_field THEN
            NEW.version := before OPERATOR(pg_catalog.+) 1;
        ELSE
            NEW := pg_catalog.jsonb_populate_record(NEW, pg_catalog.jsonb_build_object(TG_ARGV[0], before OPERATOR(pg_catalog.+) 1));
        END IF;
    ELSIF before IS NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = pg_catalog.format('column "%s" of table "%s" allows nulls', TG_ARGV[0], TG_TABLE_NAME),
            HINT = pg_catalog.format('Run ALTER TABLE %I.%I ALTER COLUMN %I SET NOT NULL.', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]);
    ELSIF after IS NULL OR before OPERATOR(pg_catalog.=) 9223372036854775807 OR after OPERATOR(pg_catalog.<>) (before OPERATOR(pg_catalog.+) 1) THEN
        RAISE SQLSTATE 'ID004' USING
            MESSAGE = pg_catalog.format('stale version of a row of table "%s"', TG_TABLE_NAME),
            DETAIL = pg_catalog.format('The row has version %s; the update sets it to %s.', before, coalesce(after::pg_catalog.text, 'null')),
            HINT = 'Read the row again, and repeat the change on what it holds now.';
    END IF;
    RETURN NEW;
END
$$;

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

-- --- Conditions -----------------------------------------------------------------------------------------------------------------------------

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

-- --- Row locks ------------------------------------------------------------------------------------------------------------------------------

-- Until when a call may wait; what it says about its keys is checked first.
CREATE FUNCTION _idem_row_wait_until(keys jsonb[], wait interval, element text) RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    key jsonb;
BEGIN
    IF keys IS NULL THEN
        PERFORM _idem_null('keys');
    END IF;
    FOREACH key IN ARRAY keys LOOP
        IF key IS NULL THEN
            PERFORM _idem_null(element);
        END IF;
        PERFORM _idem_row_object(key, 'key');
    END LOOP;
    RETURN _idem_wait_until(wait);
END
$$;

-- The lock_timeout for the rest of a wait, and the clause that locks. NULL: the caller's own lock_timeout ends the wait first, or nothing does.
CREATE FUNCTION _idem_row_patience(is_bounded boolean, wait_until timestamptz, OUT lock_timeout text, OUT clause text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ms  numeric := CASE WHEN wait_until IS NOT NULL
                        THEN least(ceil((extract(epoch FROM wait_until - clock_timestamp()) * 1000)::numeric), 2147483647) ELSE 0 END;
    own numeric;
BEGIN
    clause := ' FOR UPDATE';
    IF is_bounded AND ms > 0 THEN
        own := extract(epoch FROM current_setting('lock_timeout')::interval) * 1000;
        lock_timeout := CASE WHEN own = 0 OR own > ms THEN ms END;
    ELSIF is_bounded THEN
        lock_timeout := '1';
        clause := ' FOR UPDATE NOWAIT';
    END IF;
END
$$;

CREATE FUNCTION _idem_row_lock_plan(target regclass, key jsonb) RETURNS text LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t record := _idem_row_table(target);
BEGIN
    PERFORM _idem_row_members(target, t.relation, key);
    RETURN _idem_row_select(t.item, _idem_row_data(target), _idem_row_by_key(target, t.relation, key));
END
$$;

-- Locks the row that the statement reads. A row that is seen and not locked is no longer the one with the key, or row-level security does not let the
-- caller update it.
CREATE FUNCTION _idem_row_lock(target regclass, look text, clause text, key jsonb, OUT is_found boolean, OUT row_data jsonb, OUT detail jsonb)
LANGUAGE plpgsql VOLATILE UNPINNED AS $$
DECLARE
    done    pg_catalog.record;
    attempt integer := 0;
BEGIN
    LOOP
        attempt := attempt OPERATOR(pg_catalog.+) 1;
        done := @extschema@._idem_row_run(pg_catalog.concat(look, clause), key, NULL, NULL);
        is_found := done.is_found;
        row_data := done.row_data;
        detail := done.detail;
        EXIT WHEN is_found;
        done := @extschema@._idem_row_run(look, key, NULL, NULL);
        EXIT WHEN NOT done.is_found OR attempt OPERATOR(pg_catalog.>=) 3 AND pg_catalog.row_security_active(target);
    END LOOP;
END
$$;

CREATE FUNCTION pessimistic_lock LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    own      CONSTANT pg_catalog.text := pg_catalog.current_setting('lock_timeout');
    patience pg_catalog.record;
    done     pg_catalog.record;
BEGIN
    patience := @extschema@._idem_row_patience(wait IS NOT NULL, @extschema@._idem_row_wait_until(ARRAY[key], wait, 'key'));
    IF patience.lock_timeout IS NULL THEN
        done := @extschema@._idem_row_lock(target, @extschema@._idem_row_lock_plan(target, key), patience.clause, key);
    ELSE
        BEGIN
            PERFORM pg_catalog.set_config('lock_timeout', patience.lock_timeout, true);
            done := @extschema@._idem_row_lock(target, @extschema@._idem_row_lock_plan(target, key), patience.clause, key);
            PERFORM pg_catalog.set_config('lock_timeout', own, true);
        EXCEPTION WHEN lock_not_available THEN -- which also undoes the setting
            outcome := 'busy';
            RETURN;
        END;
    END IF;
    outcome := CASE WHEN done.is_found THEN 'locked' ELSE 'not_found' END;
    row_data := done.row_data;
END
$$;

-- For each key: the statement that reads its row, with the main key in `detail`; and which key is the first one equal to it. Rows are locked in the
-- order of the table's main key, its primary key or else its first unique one: "sorting" returns the keys' numbers in that order.
CREATE FUNCTION _idem_row_locks_plan(target regclass, keys jsonb[], OUT looks text[], OUT firsts integer[], OUT sorting text)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t        record := _idem_row_table(target);
    row_data text := _idem_row_data(target);
    main     record;
    part     text;
BEGIN
    SELECT k.index, k.columns INTO main FROM _idem_row_keys(target, false) AS k ORDER BY k.is_primary DESC, k.index LIMIT 1;
    part := _idem_row_part(target, main.columns);
    firsts := ARRAY(SELECT min(k.n) OVER (PARTITION BY k.key) FROM unnest(keys) WITH ORDINALITY AS k (key, n) ORDER BY k.n);
    FOR i IN 1..cardinality(firsts) LOOP
        IF firsts[i] = i THEN
            PERFORM _idem_row_members(target, t.relation, keys[i]);
            looks[i] := _idem_row_select(t.item, row_data, _idem_row_by_key(target, t.relation, keys[i]), part);
        END IF;
    END LOOP;
    SELECT format('SELECT pg_catalog.array_agg(m.n ORDER BY %s) FROM pg_catalog.unnest($1) WITH ORDINALITY AS m (main, n) '
                  'CROSS JOIN LATERAL pg_catalog.jsonb_to_record(m.main) AS r (%s) WHERE m.main IS NOT NULL',
                  string_agg(format('(r.%I)%s%s USING %s', a.attname,
                                    CASE WHEN y.typtype = 'd' THEN '::' || _idem_type_name((_idem_base_type(y.oid)).type, -1) ELSE '' END,
                                    CASE WHEN o.coll <> 0 THEN ' COLLATE ' || _idem_collation_name(o.coll) ELSE '' END, o.operator), ', ' ORDER BY o.n),
                  string_agg(format('%I %s', a.attname, _idem_type_name(a.atttypid, a.atttypmod)), ', '))
      INTO sorting
      FROM _idem_row_operators(main.index, true) AS o JOIN pg_attribute a ON a.attrelid = target AND a.attnum = o.number
      JOIN pg_type y ON y.oid = a.atttypid;
END
$$;

CREATE FUNCTION _idem_row_moved(target regclass) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE serialization_failure USING
        MESSAGE = format('a key of table "%s" passed to another row while rows were being locked',
                         (SELECT c.relname FROM pg_class c WHERE c.oid = target)),
        DETAIL = 'Locking that row as well would leave the order that keeps callers from deadlocks.', HINT = 'Retry the transaction.';
END
$$;

CREATE FUNCTION pessimistic_lock_many LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    own        CONSTANT pg_catalog.text := pg_catalog.current_setting('lock_timeout');
    wait_until pg_catalog.timestamptz;
    patience   pg_catalog.record;
    plan       pg_catalog.record;
    done       pg_catalog.record;
    wanted     pg_catalog.jsonb[] := ARRAY(SELECT pg_catalog.unnest(keys)); -- numbered from 1
    mains      pg_catalog.jsonb[];
    outcomes   pg_catalog.text[];
    rows       pg_catalog.jsonb[];
    sorted     bigint[];
    i          bigint;
BEGIN
    wait_until := @extschema@._idem_row_wait_until(CASE WHEN keys IS NOT NULL THEN wanted END, wait, 'an element of keys');
    patience := @extschema@._idem_row_patience(wait IS NOT NULL, wait_until);
    IF patience.lock_timeout IS NULL THEN
        plan := @extschema@._idem_row_locks_plan(target, wanted);
    ELSE
        BEGIN
            PERFORM pg_catalog.set_config('lock_timeout', patience.lock_timeout, true);
            plan := @extschema@._idem_row_locks_plan(target, wanted);
            PERFORM pg_catalog.set_config('lock_timeout', own, true);
        EXCEPTION WHEN lock_not_available THEN
            RETURN QUERY SELECT 'busy'::pg_catalog.text, NULL::pg_catalog.jsonb FROM pg_catalog.unnest(wanted);
            RETURN;
        END;
    END IF;
    FOR i IN 1..pg_catalog.cardinality(wanted) LOOP
        IF plan.looks[i] IS NOT NULL THEN
            done := @extschema@._idem_row_run(plan.looks[i], wanted[i], NULL, NULL);
            mains[i] := done.detail;
            outcomes[i] := 'not_found';
        END IF;
    END LOOP;
    IF mains IS NOT NULL THEN
        EXECUTE plan.sorting INTO sorted USING mains;
    END IF;
    FOREACH i IN ARRAY coalesce(sorted, '{}') LOOP
        patience := @extschema@._idem_row_patience(wait IS NOT NULL, wait_until);
        IF patience.lock_timeout IS NULL THEN
            done := @extschema@._idem_row_lock(target, plan.looks[i], patience.clause, wanted[i]);
        ELSE
            BEGIN
                PERFORM pg_catalog.set_config('lock_timeout', patience.lock_timeout, true);
                done := @extschema@._idem_row_lock(target, plan.looks[i], patience.clause, wanted[i]);
                PERFORM pg_catalog.set_config('lock_timeout', own, true);
            EXCEPTION WHEN lock_not_available THEN
                outcomes[i] := 'busy';
                CONTINUE;
            END;
        END IF;
        IF done.is_found THEN
            IF done.detail OPERATOR(pg_catalog.<>) mains[i] THEN
                PERFORM @extschema@._idem_row_moved(target);
            END IF;
            outcomes[i] := 'locked';
            rows[i] := done.row_data;
        END IF;
    END LOOP;
    FOR i IN 1..pg_catalog.cardinality(wanted) LOOP
        outcome := outcomes[plan.firsts[i]];
        row_data := rows[plan.firsts[i]];
        RETURN NEXT;
    END LOOP;
END
$$;

-- --- Insertion ------------------------------------------------------------------------------------------------------------------------------

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

-- The key of a new row as defaults and generation make it. Their expressions come from the catalog, so they are evaluated where they were deparsed,
-- under idem's search_path.
CREATE FUNCTION _idem_row_made_key(target regclass, index oid, new_row jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    made   jsonb;
    inputs text;
    keys   text;
BEGIN
    SELECT string_agg(format('(%s)::%s AS %I',
                             coalesce(v.value, CASE WHEN a.attgenerated = '' THEN coalesce(pg_get_expr(d.adbin, target), pg_get_expr(y.typdefaultbin, 0)) END,
                                      'NULL'),
                             _idem_type_name(a.atttypid, a.atttypmod), a.attname), ', '),
           string_agg(CASE WHEN a.attgenerated = '' THEN format('t.%I', a.attname) ELSE format('%s AS %I', pg_get_expr(d.adbin, target), a.attname) END, ', ')
               FILTER (WHERE a.attnum = ANY (k.columns))
      INTO inputs, keys
      FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = target AND d.adnum = a.attnum
      LEFT JOIN _idem_row_values(target, new_row, '$1', false) AS v ON v.number = a.attnum
      JOIN _idem_row_keys(target, true) AS k ON k.index = _idem_row_made_key.index
     WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped
       AND (a.attidentity = '' OR v.value IS NOT NULL) AND NOT (v.value IS NULL AND coalesce(_idem_is_volatile(d.adbin::text), false));
    EXECUTE format('SELECT to_jsonb(k.*) FROM (SELECT %s FROM (SELECT %s, %s::oid AS tableoid) AS t) AS k', keys, inputs, target::oid)
       INTO made USING new_row;
    RETURN made;
EXCEPTION WHEN undefined_column THEN -- generated from a column whose default differs for each row
    RETURN NULL;
END
$$;

-- The key that a unique violation tells of; NULL if it does not, or not unmistakably. Messages may be translated.
CREATE FUNCTION _idem_row_violated_key(target regclass, index oid, detail text)
RETURNS jsonb LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    columns smallint[] := (SELECT k.columns FROM _idem_row_keys(target, true) AS k WHERE k.index = _idem_row_violated_key.index);
    names   text[] := ARRAY(SELECT a.attname::text FROM unnest(columns) WITH ORDINALITY AS k (number, n)
                              JOIN pg_attribute a ON a.attrelid = target AND a.attnum = k.number ORDER BY k.n);
    head    text := _idem_row_list(target, columns) || '=(';
    told    text := substr(detail, strpos(detail, head) + length(head));
    parts   text[];
BEGIN
    IF strpos(detail, head) > 0 THEN
        told := left(told, -strpos(reverse(told), ')'));
        parts := CASE cardinality(names) WHEN 1 THEN ARRAY[told] ELSE string_to_array(told, ', ') END;
        IF cardinality(parts) = cardinality(names) THEN
            RETURN jsonb_object(names, parts);
        END IF;
    END IF;
    RETURN NULL;
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

-- The default hash operator class of a type, and its function that takes a seed. Containers have none here, as what they contain may be compared
-- otherwise than it is hashed.
CREATE FUNCTION _idem_row_hash(type oid, OUT family oid, OUT hash text) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT c.opcfamily,
           CASE WHEN p.proargtypes[0] = c.opcintype THEN replace(format('%I.%I', n.nspname, p.proname), '%', '%%') || '(%s, %s)'
                WHEN c.oid < 16384 -- bool, bytea, date, timestamptz, xid: equal values have equal bytes
                THEN format('pg_catalog.hashtextextended(pg_catalog.encode(pg_catalog.%I(%%s), ''hex''), %%s)', b.proname) END
      INTO family, hash
      FROM pg_type y
      JOIN pg_opclass c ON c.opcdefault AND (c.opcintype = y.oid OR y.typtype = 'e' AND c.opcintype = 'anyenum'::regtype
                                             OR EXISTS (SELECT FROM pg_cast k WHERE k.castsource = y.oid AND k.casttarget = c.opcintype
                                                           AND k.castmethod = 'b' AND k.castcontext = 'i'))
      JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'hash'
      JOIN pg_amproc f ON f.amprocfamily = c.opcfamily AND f.amproclefttype = c.opcintype AND f.amprocrighttype = c.opcintype AND f.amprocnum = 2
      JOIN pg_proc p ON p.oid = f.amproc
      JOIN pg_namespace n ON n.oid = p.pronamespace
      JOIN pg_type i ON i.oid = c.opcintype
      LEFT JOIN pg_proc b ON b.oid = i.typsend
     WHERE y.oid = type AND y.typtype IN ('b', 'e') AND y.typcategory <> 'A'
     ORDER BY c.opcintype = y.oid DESC, i.typispreferred DESC LIMIT 1;
END
$$;

-- lock: the statement that locks the values of a row's match columns; find: the one that reads a row with these values; count: whether there is more
-- than one.
--
-- The locks are advisory locks of the transaction, with one bigint: an application's own with the same number, or idem's for another value, can only
-- make a caller wait. Callers with equal values take conflicting locks: one shared lock on the table's match columns, and the lock of the values'
-- hash. If the index finds more values equal than their hashes are, the lock on the columns is exclusive. Partitions take the locks of their root.
CREATE FUNCTION _idem_row_match_plan(target regclass, index oid, object jsonb, OUT lock text, OUT find text, OUT count text)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t         record := _idem_row_table(target);
    names     text[];
    columns   bigint;
    hash      text;
    missing   name;
    condition text;
    is_coarse boolean := false;
    entry     record;
BEGIN
    SELECT a.attname INTO missing
      FROM _idem_row_values(target, object, '$1', true) AS v JOIN pg_attribute a ON a.attrelid = target AND a.attnum = v.number
     WHERE v.is_null ORDER BY a.attname COLLATE "C" LIMIT 1;
    IF FOUND THEN
        PERFORM _idem_null(format('match column "%s"', missing));
    END IF;
    names := ARRAY(SELECT m.name FROM jsonb_object_keys(object) AS m (name) ORDER BY m.name COLLATE "C");
    columns := hashtextextended(concat(coalesce(pg_partition_root(target), target)::oid, names), 8120);
    hash := format('%L::pg_catalog.int8', columns);
    FOR entry IN SELECT v.value, v.operand, v.coll, h.hash,
                        EXISTS (SELECT FROM pg_amop p JOIN pg_am m ON m.oid = p.amopmethod AND m.amname = 'hash'
                                 WHERE p.amopfamily = h.family AND p.amopopr = o.equality AND p.amopstrategy = 1)
                        AND (o.coll IN (0, a.attcollation) OR (SELECT c.collisdeterministic FROM pg_collation c WHERE c.oid = o.coll)) AS agrees
                   FROM _idem_row_values(target, object, '$1', true) AS v
                   JOIN _idem_row_operators(index, false) AS o ON o.number = v.number
                   JOIN pg_attribute a ON a.attrelid = target AND a.attnum = v.number
                  CROSS JOIN LATERAL _idem_row_hash((_idem_base_type(a.atttypid)).type) AS h
                  WHERE h.hash IS NOT NULL ORDER BY a.attname COLLATE "C" LOOP
        is_coarse := is_coarse OR NOT entry.agrees;
        hash := format(entry.hash, format('(%s)%s%s', entry.value, entry.operand, entry.coll), hash);
    END LOOP;
    lock := format('SELECT pg_catalog.%s(%L::pg_catalog.int8) IS NULL, NULL::pg_catalog.numeric, NULL::pg_catalog.jsonb, %s',
                   CASE WHEN is_coarse THEN 'pg_advisory_xact_lock' ELSE 'pg_advisory_xact_lock_shared' END, columns,
                   CASE WHEN is_coarse THEN 'NULL::pg_catalog.jsonb'
                        ELSE format('pg_catalog.to_jsonb(pg_catalog.pg_advisory_xact_lock(%s) IS NULL)', hash) END);
    condition := _idem_row_condition(target, index, object, '$1');
    find := _idem_row_select(t.item, _idem_row_data(target), condition || ' LIMIT 1');
    count := format('SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) 1, NULL::pg_catalog.numeric, NULL::pg_catalog.jsonb, NULL::pg_catalog.jsonb '
                    'FROM (SELECT FROM %s WHERE %s LIMIT 2) AS l', t.item, condition);
END
$$;

-- given: the values of the match columns, if new_row has them all. is_known: the row will have these values, but for triggers of single partitions,
-- if it has_part_triggers.
CREATE FUNCTION _idem_row_guarded_plan(target regclass, new_row jsonb, match_columns name[],
                                      OUT insertion text, OUT reading text, OUT index oid, OUT given jsonb, OUT is_known boolean,
                                      OUT has_part_triggers boolean)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t        record := _idem_row_table(target);
    columns  smallint[];
    inserted smallint[];
    away     name;
BEGIN
    PERFORM _idem_row_object(new_row, 'new_row');
    IF match_columns IS NULL THEN
        PERFORM _idem_null('match_columns');
    END IF;
    columns := _idem_row_names(target, match_columns, 'match_columns');
    PERFORM _idem_require_writable('guarded_insert()');
    PERFORM _idem_row_members(target, t.relation, new_row);
    PERFORM _idem_row_all_columns(t.relation, match_columns, columns);
    SELECT x.indexrelid INTO index FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am m ON m.oid = c.relam
     WHERE x.indrelid = target AND m.amname IN ('btree', 'hash') AND x.indisvalid AND x.indisready AND x.indislive AND x.indpred IS NULL
       AND x.indnkeyatts >= cardinality(columns) AND (x.indkey::smallint[])[0:cardinality(columns) - 1] @> columns
     ORDER BY x.indexrelid LIMIT 1;
    IF NOT FOUND THEN
        RAISE invalid_column_reference
            USING MESSAGE = format('no index of table "%s" begins with columns %s', t.relation, _idem_row_list(target, columns)),
            HINT = format('Run CREATE INDEX ON %s %s.', t.name, _idem_row_list(target, columns));
    END IF;
    given := _idem_row_with_nulls(target, t.relation, new_row, columns);
    -- Nothing runs for a caller who may not insert the row or read its duplicate.
    inserted := _idem_row_numbers(target, new_row);
    IF NOT (has_table_privilege(target, 'INSERT')
            OR has_any_column_privilege(target, 'INSERT')
               AND (SELECT coalesce(bool_and(has_column_privilege(target, k.n, 'INSERT')), true) FROM unnest(inserted) AS k (n)))
       OR NOT (has_table_privilege(target, 'SELECT')
               OR (SELECT bool_and(has_column_privilege(target, k.n, 'SELECT')) FROM unnest(columns) AS k (n))) THEN
        RAISE insufficient_privilege USING MESSAGE = format('permission denied for table %s', t.relation);
    END IF;
    IF t.kind = 'p' THEN
        SELECT c.relname INTO away FROM pg_partition_tree(target) AS p JOIN pg_class c ON c.oid = p.relid WHERE c.relkind = 'f' LIMIT 1;
        IF FOUND THEN
            RAISE feature_not_supported USING MESSAGE = format('table "%s" has a foreign partition, "%s"', t.relation, away),
                DETAIL = 'The rows of another server can change without the locks of this one.';
        END IF;
    END IF;
    insertion := _idem_row_insert(target, t.name, new_row, '', _idem_row_data(target), _idem_row_part(target, columns));
    SELECT 'SELECT true, NULL::pg_catalog.numeric, NULL::pg_catalog.jsonb, NULL::pg_catalog.jsonb WHERE true'
           || coalesce(string_agg(_idem_row_reading(v.value), ''), '') INTO reading
      FROM _idem_row_values(target, new_row, '$3', true) AS v;
    given := CASE WHEN _idem_row_numbers(target, given) @> columns
                  THEN (SELECT jsonb_object_agg(m.name, m.element) FROM jsonb_each(given) AS m (name, element)
                         WHERE _idem_row_column(target, m.name) = ANY (columns)) END;
    is_known := given IS NOT NULL AND NOT _idem_row_triggers(target, 'r', 7, 7);
    has_part_triggers := t.kind = 'p' AND _idem_row_triggers(target, t.kind, 7, 7);
END
$$;

-- A snapshot that is older than the lock on the values does not see what the last holder of the lock has inserted.
CREATE FUNCTION _idem_row_require_new_snapshots() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE feature_not_supported
            USING MESSAGE = format('guarded_insert() cannot insert in a %s transaction', upper(current_setting('transaction_isolation'))),
            DETAIL = 'A duplicate that was inserted after the transaction''s snapshot would not be seen.', HINT = 'Use READ COMMITTED.';
    END IF;
END
$$;

-- If triggers, defaults or generation decide on the values, the row is inserted first, in a subtransaction that is undone if it is not the only one.
CREATE FUNCTION guarded_insert LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    plan         pg_catalog.record;
    match        pg_catalog.record;
    done         pg_catalog.record;
    other        pg_catalog.record;
    made         pg_catalog.jsonb;
    is_discarded boolean := false;
BEGIN
    plan := @extschema@._idem_row_guarded_plan(target, new_row, match_columns);
    made := plan.given;
    IF NOT plan.is_known THEN
        BEGIN
            done := @extschema@._idem_row_run(plan.insertion, NULL, NULL, new_row);
            is_discarded := NOT done.is_found;
            IF done.is_found THEN
                made := done.detail;
                match := @extschema@._idem_row_match_plan(target, plan.index, made);
                other := @extschema@._idem_row_run(match.lock, made, NULL, NULL);
                other := @extschema@._idem_row_run(match.count, made, NULL, NULL);
                IF NOT other.is_expected THEN
                    PERFORM @extschema@._idem_row_require_new_snapshots();
                    outcome := 'inserted';
                    row_data := done.row_data;
                    RETURN;
                END IF;
            END IF;
            RAISE SQLSTATE 'IDUND';
        EXCEPTION WHEN SQLSTATE 'IDUND' THEN -- which also gives the lock back
            NULL;
        END;
        IF made IS NULL THEN
            PERFORM @extschema@._idem_row_suppressed(target, 'INSERT');
        END IF;
    END IF;
    match := @extschema@._idem_row_match_plan(target, plan.index, made);
    other := @extschema@._idem_row_run(match.lock, made, NULL, NULL);
    other := @extschema@._idem_row_run(match.find, made, NULL, NULL);
    outcome := CASE WHEN other.is_found THEN 'duplicate' ELSE 'inserted' END;
    row_data := other.row_data;
    IF other.is_found THEN
        IF plan.is_known THEN -- the insertion would have read the values
            other := @extschema@._idem_row_run(plan.reading, NULL, NULL, new_row);
        END IF;
        RETURN;
    ELSIF is_discarded THEN
        PERFORM @extschema@._idem_row_suppressed(target, 'INSERT');
    END IF;
    -- The values are free. If the row was inserted before, the table's AFTER triggers have inserted another one.
    PERFORM @extschema@._idem_row_require_new_snapshots();
    done := @extschema@._idem_row_run(plan.insertion, NULL, NULL, new_row);
    row_data := done.row_data;
    IF done.is_found AND plan.has_part_triggers THEN
        match := @extschema@._idem_row_match_plan(target, plan.index, done.detail);
        other := @extschema@._idem_row_run(match.lock, done.detail, NULL, NULL);
        other := @extschema@._idem_row_run(match.count, done.detail, NULL, NULL);
    END IF;
    IF NOT done.is_found OR plan.has_part_triggers AND other.is_expected THEN
        PERFORM @extschema@._idem_row_suppressed(target, 'INSERT');
    END IF;
END
$$;
