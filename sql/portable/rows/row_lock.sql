-- The lock of one row, and the wait for it.

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
CREATE FUNCTION _idem_row_wait_limit(is_bounded boolean, wait_until timestamptz, OUT lock_timeout text, OUT clause text) LANGUAGE plpgsql VOLATILE AS $$
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
CREATE FUNCTION _idem_row_lock(target regclass, selection text, clause text, key jsonb, OUT is_found boolean, OUT row_data jsonb, OUT detail jsonb)
LANGUAGE plpgsql VOLATILE UNPINNED AS $$
DECLARE
    done    pg_catalog.record;
    attempt integer := 0;
BEGIN
    LOOP
        attempt := attempt OPERATOR(pg_catalog.+) 1;
        done := @extschema@._idem_row_run(pg_catalog.concat(selection, clause), key, NULL, NULL);
        is_found := done.is_found;
        row_data := done.row_data;
        detail := done.detail;
        EXIT WHEN is_found;
        done := @extschema@._idem_row_run(selection, key, NULL, NULL);
        EXIT WHEN NOT done.is_found OR attempt OPERATOR(pg_catalog.>=) 3 AND pg_catalog.row_security_active(target);
    END LOOP;
END
$$;
