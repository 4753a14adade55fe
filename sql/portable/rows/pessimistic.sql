-- pessimistic_lock and pessimistic_lock_many.

CREATE FUNCTION pessimistic_lock LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    own      CONSTANT pg_catalog.text := pg_catalog.current_setting('lock_timeout');
    wait_limit pg_catalog.record;
    done     pg_catalog.record;
BEGIN
    wait_limit := @extschema@._idem_row_wait_limit(wait IS NOT NULL, @extschema@._idem_row_wait_until(ARRAY[key], wait, 'key'));
    IF wait_limit.lock_timeout IS NULL THEN
        done := @extschema@._idem_row_lock(target, @extschema@._idem_row_lock_plan(target, key), wait_limit.clause, key);
    ELSE
        BEGIN
            PERFORM pg_catalog.set_config('lock_timeout', wait_limit.lock_timeout, true);
            done := @extschema@._idem_row_lock(target, @extschema@._idem_row_lock_plan(target, key), wait_limit.clause, key);
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
CREATE FUNCTION _idem_row_locks_plan(target regclass, keys jsonb[], OUT reads text[], OUT firsts integer[], OUT sorting text)
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
            reads[i] := _idem_row_select(t.item, row_data, _idem_row_by_key(target, t.relation, keys[i]), part);
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
    wait_limit pg_catalog.record;
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
    wait_limit := @extschema@._idem_row_wait_limit(wait IS NOT NULL, wait_until);
    IF wait_limit.lock_timeout IS NULL THEN
        plan := @extschema@._idem_row_locks_plan(target, wanted);
    ELSE
        BEGIN
            PERFORM pg_catalog.set_config('lock_timeout', wait_limit.lock_timeout, true);
            plan := @extschema@._idem_row_locks_plan(target, wanted);
            PERFORM pg_catalog.set_config('lock_timeout', own, true);
        EXCEPTION WHEN lock_not_available THEN
            RETURN QUERY SELECT 'busy'::pg_catalog.text, NULL::pg_catalog.jsonb FROM pg_catalog.unnest(wanted);
            RETURN;
        END;
    END IF;
    FOR i IN 1..pg_catalog.cardinality(wanted) LOOP
        IF plan.reads[i] IS NOT NULL THEN
            done := @extschema@._idem_row_run(plan.reads[i], wanted[i], NULL, NULL);
            mains[i] := done.detail;
            outcomes[i] := 'not_found';
        END IF;
    END LOOP;
    IF mains IS NOT NULL THEN
        EXECUTE plan.sorting INTO sorted USING mains;
    END IF;
    FOREACH i IN ARRAY coalesce(sorted, '{}') LOOP
        wait_limit := @extschema@._idem_row_wait_limit(wait IS NOT NULL, wait_until);
        IF wait_limit.lock_timeout IS NULL THEN
            done := @extschema@._idem_row_lock(target, plan.reads[i], wait_limit.clause, wanted[i]);
        ELSE
            BEGIN
                PERFORM pg_catalog.set_config('lock_timeout', wait_limit.lock_timeout, true);
                done := @extschema@._idem_row_lock(target, plan.reads[i], wait_limit.clause, wanted[i]);
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
