-- guarded_insert: advisory locks on the values decide.

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
