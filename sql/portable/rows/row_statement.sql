-- The statements of a row flow. Values of the caller are literals in them, or elements of the objects, which are parameters: $1 is the key, $2 what is
-- expected, $3 the changes or the new row. Each returns (is_expected boolean, number numeric, row_data jsonb, detail jsonb).

CREATE FUNCTION _idem_row_select(item text, row_data text, condition text, detail text DEFAULT 'NULL::pg_catalog.jsonb')
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN format('SELECT true, NULL::pg_catalog.numeric, %s, %s FROM %s WHERE %s', row_data, detail, item, condition);
END
$$;

CREATE FUNCTION _idem_row_reading(value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN format(' AND pg_catalog.num_nulls(%s) OPERATOR(pg_catalog.>=) 0', value);
END
$$;

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
