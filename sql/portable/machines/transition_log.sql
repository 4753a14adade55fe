-- idem_transition_log: one row for each move of a row whose table was attached with log => true.

-- The columns of the primary key, or else of the oldest unique index that can serve as one; NULL: there is none.
CREATE FUNCTION _idem_log_key(target oid) RETURNS smallint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT k.columns FROM _idem_row_keys(target, false) AS k ORDER BY k.is_primary DESC, k.index LIMIT 1);
END
$$;

-- Writes a move to the log. Values whose type somebody has made are logged as text: to_jsonb would call casts of theirs. So is a value whose type the
-- snapshot does not show yet.
CREATE FUNCTION _idem_log_move(in_table oid, by_trigger name, moved record, of_column name, from_state text, to_state text)
RETURNS void LANGUAGE plpgsql VOLATILE INNER SET quote_all_identifiers = off AS $$
DECLARE
    attached oid := in_table;
    columns  smallint[];
    key      jsonb;
BEGIN
    PERFORM _idem_require_writable('a logged transition');
    IF pg_partition_root(in_table) IS NOT NULL THEN -- a partition's trigger is a copy of the attached table's
        WITH RECURSIVE copy AS (
            SELECT t.tgrelid, t.tgparentid FROM pg_trigger t WHERE t.tgrelid = in_table AND t.tgname = by_trigger
            UNION ALL
            SELECT t.tgrelid, t.tgparentid FROM copy c JOIN pg_trigger t ON t.oid = c.tgparentid)
        SELECT c.tgrelid INTO attached FROM copy c WHERE c.tgparentid = 0;
    END IF;
    columns := _idem_log_key(attached);
    IF columns IS NULL THEN
        RAISE invalid_column_reference USING
            MESSAGE = format('table "%s" no longer has a key to log transitions by', (SELECT c.relname FROM pg_class c WHERE c.oid = attached)),
            HINT = 'Add a primary key, or attach the state machine again without a log.';
    END IF;
    EXECUTE (SELECT format('SELECT jsonb_build_object(%s)',
                           string_agg(format(CASE WHEN (_idem_base_type(a.atttypid)).type < 16384
                                                  THEN '%1$L, CASE WHEN pg_typeof(($1).%2$s)::oid = %3$s THEN to_jsonb(($1).%2$s) ELSE to_jsonb(concat(($1).%2$s)) END'
                                                  ELSE '%1$L, concat(($1).%2$s)' END, a.attname, _idem_field(in_table, a.attname), a.atttypid), ', '))
               FROM pg_attribute k JOIN pg_attribute a ON a.attrelid = in_table AND a.attname = k.attname AND NOT a.attisdropped
              WHERE k.attrelid = attached AND k.attnum = ANY (columns)) INTO key USING moved;
    INSERT INTO idem_transition_log (target, key, state_column, from_state, to_state, at, by)
    SELECT format('%I.%I', n.nspname, c.relname), key, of_column, from_state, to_state, clock_timestamp(), _idem_caller()
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = attached;
END
$$;
