-- The unique indexes of a table, and the condition that finds a row by one.

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
