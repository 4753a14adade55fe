-- Row flows change rows of the user's own tables, as the caller. Functions that are pinned to idem's search_path read the catalogs and make the
-- statements: the _plan functions. Functions that are not pinned execute these statements, so that the user's code sees its own search_path: names in
-- them are qualified, operators too.
-- 
-- This file: the table that a call names, and its columns.

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
