-- The key of a new row: as defaults and generation make it, or as a unique violation reports it.

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
