-- The trigger of a table that a machine is attached to. It is the same as in the C edition, with the same arguments: dumps and idem_guards fit both. The
-- guard has the rights of its owner, because a writer of the row may lack the right to read idem_machines. The guard never calls code of the table's owner. It
-- reads states and keys by the output functions of their types (concat): a cast can be anybody's.

-- A column's name, quoted, for ($1).name: 42703 unless the row has that column now. A snapshot may show one that has since been renamed, and in place of a
-- column that does not exist the server would call a function of its name, with code of the types that the table's owner has made.
CREATE FUNCTION _idem_field(target oid, column_name text) RETURNS text LANGUAGE plpgsql STABLE INNER AS $$
BEGIN
    -- It looks into the catalog's cache, which is as new as the row. NULL: the column was dropped.
    IF has_column_privilege(target, column_name, 'SELECT') IS NULL THEN
        PERFORM _idem_row_no_column(column_name, (SELECT c.relname FROM pg_class c WHERE c.oid = target));
    END IF;
    RETURN quote_ident(column_name);
END
$$;

-- Whether the column exists and holds states: 42703, 42804. A writer of the table may have made its types, and the guard has the rights of idem's owner:
-- in place of a column that does not exist, the server would call a function of its name, with code of those types.
CREATE FUNCTION _idem_check_guarded_column(target oid, state_column text) RETURNS void LANGUAGE plpgsql STABLE INNER AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                WHERE a.attrelid = target AND a.attname = state_column AND a.attnum > 0 AND NOT a.attisdropped
                  AND (t.typtype = 'e' OR t.oid IN ('text'::regtype, 'varchar'::regtype))) THEN
        PERFORM _idem_field(target, state_column);
        RETURN;
    ELSIF _idem_row_column(target, state_column) IS NULL THEN
        PERFORM _idem_raise_renamed(target, state_column);
    END IF;
    PERFORM _idem_state_column(target, state_column); -- a domain can
    PERFORM _idem_field(target, state_column);
END
$$;

-- The states before and after, of any column. REQUIRES: _idem_check_guarded_column.
CREATE FUNCTION _idem_states_of_row(operation text, older record, newer record, of_column name, OUT before text, OUT after text)
LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    CASE operation
    WHEN 'UPDATE' THEN
        EXECUTE format('SELECT CASE WHEN ($1).%1$I IS NOT NULL THEN concat(($1).%1$I) END, CASE WHEN ($2).%1$I IS NOT NULL THEN concat(($2).%1$I) END', of_column)
           INTO before, after USING older, newer;
    WHEN 'INSERT' THEN
        EXECUTE format('SELECT CASE WHEN ($1).%1$I IS NOT NULL THEN concat(($1).%1$I) END', of_column) INTO after USING newer;
    ELSE
        EXECUTE format('SELECT CASE WHEN ($1).%1$I IS NOT NULL THEN concat(($1).%1$I) END', of_column) INTO before USING older;
    END CASE;
END
$$;

CREATE FUNCTION _idem_raise_renamed(target oid, state_column name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE undefined_column USING
        MESSAGE = format('state column "%s" of table "%s" is no longer there', state_column, (SELECT c.relname FROM pg_class c WHERE c.oid = target)),
        HINT = 'If it was renamed, use idem_machine_detach with the old name and idem_machine_attach with the new.';
END
$$;

-- ' The row has the key (id)=(7).', for a DETAIL: the columns of the table's main key that the caller may SELECT, with their values. '' when there is
-- none to show, and under row-level security. Only values of the server's own types and of enums are shown: their output functions are the server's.
CREATE FUNCTION _idem_row_name(in_table oid, named record) RETURNS text LANGUAGE plpgsql STABLE INNER AS $$
DECLARE
    names  text;
    fields text;
    shown  text;
BEGIN
    SELECT string_agg(format('%I', a.attname), ', ' ORDER BY k.n), string_agg(format('($1).%s', _idem_field(in_table, a.attname)), ', ' ORDER BY k.n) INTO names, fields
      FROM unnest(_idem_log_key(in_table)) WITH ORDINALITY AS k (number, n)
      JOIN pg_attribute a ON a.attrelid = in_table AND a.attnum = k.number
      JOIN pg_type y ON y.oid = (_idem_base_type(a.atttypid)).type
     WHERE (y.oid < 16384 OR y.typtype = 'e') AND has_column_privilege(_idem_caller(), in_table, a.attnum, 'SELECT')
       AND NOT (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = in_table);
    IF names IS NULL THEN
        RETURN '';
    END IF;
    EXECUTE format('SELECT concat_ws('', '', %s)', fields) INTO shown USING named;
    RETURN format(' The row has the key (%s)=(%s).', names, shown);
END
$$;

-- Columns of the usual names are read by expressions that the session has prepared, ten times faster than others.
CREATE FUNCTION idem_state_guard LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    before     text;
    after      text;
    is_new     boolean := TG_OP = 'INSERT';
    definition jsonb;
BEGIN
    IF TG_WHEN <> 'AFTER' OR TG_LEVEL <> 'ROW' OR TG_NARGS <> 4 THEN
        RAISE SQLSTATE '39P01' USING MESSAGE = 'function "idem_state_guard" is the trigger that idem_machine_attach makes';
    END IF;
    PERFORM _idem_check_guarded_column(TG_RELID, TG_ARGV[1]);
    BEGIN
        IF TG_ARGV[1] = 'state' THEN
            IF TG_OP <> 'INSERT' THEN
                before := CASE WHEN OLD.state IS NOT NULL THEN concat(OLD.state) END;
            END IF;
            IF TG_OP <> 'DELETE' THEN
                after := CASE WHEN NEW.state IS NOT NULL THEN concat(NEW.state) END;
            END IF;
        ELSIF TG_ARGV[1] = 'status' THEN
            IF TG_OP <> 'INSERT' THEN
                before := CASE WHEN OLD.status IS NOT NULL THEN concat(OLD.status) END;
            END IF;
            IF TG_OP <> 'DELETE' THEN
                after := CASE WHEN NEW.status IS NOT NULL THEN concat(NEW.status) END;
            END IF;
        ELSE
            SELECT r.before, r.after INTO before, after FROM _idem_states_of_row(TG_OP, OLD, NEW, TG_ARGV[1]) AS r;
        END IF;
    EXCEPTION WHEN datatype_mismatch THEN -- its type was altered since this session prepared
        SELECT r.before, r.after INTO before, after FROM _idem_states_of_row(TG_OP, OLD, NEW, TG_ARGV[1]) AS r;
    END;
    IF NOT is_new AND pg_trigger_depth() > 1 THEN
        PERFORM _idem_note_change(OLD.xmin);
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM _idem_note_departure(TG_RELID, TG_ARGV[1], OLD.xmin, OLD.cmax, before);
        RETURN NULL;
    ELSIF is_new AND current_setting(_idem_departure_setting(TG_ARGV[1]), true) <> '' THEN
        SELECT NOT d.is_moved, d.from_state INTO is_new, before
          FROM _idem_take_departure(TG_RELID, TG_ARGV[1], NEW.xmin, _idem_inserted_by(NEW.cmin, NEW.xmax)) AS d;
    END IF;
    IF NOT is_new AND before IS NOT DISTINCT FROM after THEN
        RETURN NULL;
    END IF;
    definition := _idem_latest_definition(TG_ARGV[0]);
    IF NOT is_new THEN
        IF (definition -> 'transitions' -> before ? after) IS NOT TRUE THEN
            PERFORM _idem_raise_not_allowed(TG_ARGV[0], definition, before, after, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[1],
                                            _idem_row_name(TG_RELID, NEW));
        END IF;
    ELSIF (definition -> 'initial' ? after) IS NOT TRUE THEN
        RAISE SQLSTATE 'ID003' USING
            MESSAGE = CASE WHEN after IS NULL THEN 'state of a new row must not be null' ELSE format('state "%s" is not an initial state', after) END,
            DETAIL = format('State machine "%s" starts in: %s.', TG_ARGV[0], _idem_quoted_list(definition -> 'initial')) || _idem_row_name(TG_RELID, NEW),
            SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = TG_ARGV[1];
    END IF;
    IF TG_ARGV[2] = 'log' THEN
        PERFORM _idem_log_move(TG_RELID, TG_NAME, NEW, TG_ARGV[1], before, after);
    END IF;
    RETURN NULL;
END
$$;
