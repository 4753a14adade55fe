-- The statement is prepared again for each call, under a name that nobody knows before: what the session had prepared could be a role's that this caller
-- does not trust, and its parameters would keep the types that they had then. Where it fits into a WITH query, the prepared query makes one jsonb value
-- of its rows. Other statements are read row by row: those that have a data-modifying WITH of their own, and MERGE.

CREATE FUNCTION _idem_check_execute(key text, statement text, args jsonb) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM _idem_check_key(key);
    IF statement IS NULL THEN
        PERFORM _idem_null('statement');
    ELSIF jsonb_typeof(args) <> 'array' THEN
        PERFORM _idem_invalid('args must be a JSON array', hint => 'Give one element for each parameter, such as ''[7, "text", null]''.');
    END IF;
END
$$;

-- What errors have left behind: all but the last 32, as a statement may call idem_execute itself.
CREATE FUNCTION _idem_execute_make_room() RETURNS SETOF text LANGUAGE sql VOLATILE PINNED AS $$
    SELECT format('DEALLOCATE %I', p.name)
      FROM (SELECT s.name, row_number() OVER (ORDER BY s.prepare_time DESC) AS age FROM pg_prepared_statements s WHERE s.name LIKE '\_idem\_%') p
     WHERE p.age >= 32
$$;

CREATE FUNCTION _idem_execute_definition(name text, statement text, is_wrapped boolean) RETURNS text LANGUAGE sql STABLE PINNED AS $$
    SELECT format(CASE WHEN NOT is_wrapped THEN 'PREPARE %I AS %s'
                       ELSE E'PREPARE %I AS WITH _idem_rows AS (\n%s\n) SELECT (SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(_idem_row.*)), ''[]'') '
                            'FROM _idem_rows _idem_row), (SELECT pg_catalog.to_json(_idem_row.*) FROM (SELECT _idem_row.* FROM (SELECT) _idem_one '
                            'LEFT JOIN _idem_rows _idem_row ON true LIMIT 1) _idem_row)' END,
                  name, statement)
$$;

-- Without semicolons at the end, and comments behind them. Of nothing but these: ''.
CREATE FUNCTION _idem_execute_trim(statement text) RETURNS text LANGUAGE sql IMMUTABLE PINNED AS $$
    SELECT regexp_replace(statement, '(^|;)(\s|;|--[^\n]*(\n|$)|/\*([^*]|\*+[^*/])*\*+/)*$', '')
$$;

-- The statement that runs it: each parameter is a literal that the server reads as the parameter's type.
CREATE FUNCTION _idem_execute_call(name text, args jsonb) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    types   CONSTANT regtype[] := (SELECT p.parameter_types FROM pg_prepared_statements p WHERE p.name = $1);
    given   integer := coalesce(jsonb_array_length(args), 0);
    element jsonb;
    literal text;
    list    text := '';
BEGIN
    IF cardinality(types) <> given THEN
        PERFORM _idem_invalid(format('statement has %s parameters, but %s args were given', cardinality(types), given));
    END IF;
    FOR i IN 1..given LOOP
        element := args -> (i - 1);
        IF jsonb_typeof(element) = 'null' THEN
            literal := NULL;
        ELSIF types[i] IN ('jsonb'::regtype, 'json'::regtype) THEN
            literal := element::text;
        ELSIF jsonb_typeof(element) IN ('array', 'object') THEN
            EXECUTE format('SELECT r.v::text FROM jsonb_to_record($1) AS r (v %s)', types[i]) INTO literal USING jsonb_build_object('v', element);
        ELSE
            literal := element #>> '{}';
        END IF;
        list := list || CASE WHEN i > 1 THEN ', ' ELSE '' END || quote_nullable(literal);
    END LOOP;
    RETURN format(CASE WHEN given = 0 THEN 'EXECUTE %I' ELSE 'EXECUTE %I (%s)' END, name, list);
END
$$;

-- 42701 for a row with two columns of one name.
CREATE FUNCTION _idem_execute_refuse_names(first json) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE duplicate_column USING
        MESSAGE = format('column name "%s" appears more than once in the statement''s result',
                         (SELECT k.name FROM json_object_keys(first) AS k (name) GROUP BY k.name HAVING count(*) > 1 LIMIT 1)),
        HINT = 'Give each result column a name of its own.';
END
$$;

-- 42601 for what is not one statement.
CREATE FUNCTION _idem_execute_refuse(statement text, plain text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    unused record;
BEGIN
    IF statement = '' THEN
        RAISE syntax_error USING MESSAGE = 'statement is empty';
    END IF;
    FOR unused IN EXECUTE plain LOOP
    END LOOP;
EXCEPTION WHEN invalid_cursor_definition THEN -- by itself it can be parsed
    RAISE syntax_error USING MESSAGE = 'cannot run more than one statement at a time';
WHEN syntax_error THEN
    RAISE syntax_error USING MESSAGE = SQLERRM;
END
$$;

-- Prepares the statement with the caller's search_path, and returns whether it makes one value of the rows. Names here are qualified, and there is no
-- other operator. What can be parsed both by itself and in parentheses is one statement: by itself it closes no parenthesis that it has not opened, and in
-- parentheses there is no semicolon. A cursor for PREPARE parses both, and executes nothing: it is then refused. The messages of a second parse would show
-- the text around the statement.
CREATE FUNCTION _idem_execute_prepare(name text, statement text, is_trimmed boolean) RETURNS boolean LANGUAGE plpgsql VOLATILE UNPINNED AS $$
DECLARE
    plain   CONSTANT pg_catalog.text := @extschema@._idem_execute_definition(name, statement, false);
    wrapped CONSTANT pg_catalog.text := @extschema@._idem_execute_definition(name, statement, true);
    unused  pg_catalog.record;
BEGIN
    BEGIN
        FOR unused IN EXECUTE pg_catalog.concat(plain, E'\n;', wrapped) LOOP
        END LOOP;
    EXCEPTION
        WHEN invalid_cursor_definition THEN
        WHEN syntax_error THEN
            IF NOT is_trimmed THEN
                RETURN @extschema@._idem_execute_prepare(name, @extschema@._idem_execute_trim(statement), true);
            END IF;
            PERFORM @extschema@._idem_execute_refuse(statement, plain);
    END;
    EXECUTE wrapped;
    RETURN true;
EXCEPTION WHEN feature_not_supported THEN -- no rows, or not within WITH
    EXECUTE plain;
    RETURN false;
END
$$;

-- Runs it, with the caller's search_path.
CREATE FUNCTION _idem_execute_run(name text, is_wrapped boolean, args jsonb, OUT rows jsonb, OUT first json) LANGUAGE plpgsql VOLATILE UNPINNED AS $$
DECLARE
    call   pg_catalog.text := @extschema@._idem_execute_call(name, args);
    result pg_catalog.record;
    list   pg_catalog.jsonb[] := '{}';
BEGIN
    IF is_wrapped THEN
        EXECUTE call INTO rows, first;
        RETURN;
    END IF;
    BEGIN
        FOR result IN EXECUTE call LOOP
            first := coalesce(first, pg_catalog.to_json(result));
            list := pg_catalog.array_append(list, pg_catalog.to_jsonb(result));
        END LOOP;
    EXCEPTION WHEN invalid_cursor_definition THEN -- it returns no rows
        EXECUTE call;
    END;
    rows := pg_catalog.to_jsonb(list);
END
$$;

-- 42701 if two columns of the result, which has no row that tells, have one name: it could not be joined with itself. Prepares, and executes nothing.
CREATE FUNCTION _idem_execute_check_names(name text, statement text) RETURNS void LANGUAGE plpgsql VOLATILE UNPINNED AS $$
BEGIN
    EXECUTE pg_catalog.concat('PREPARE ', name, E'_ AS WITH _idem_rows AS (\n', statement, E'\n) SELECT FROM _idem_rows _idem_one NATURAL JOIN _idem_rows _idem_other');
    EXECUTE pg_catalog.concat('DEALLOCATE ', name, '_');
EXCEPTION
    WHEN ambiguous_column THEN
        RAISE duplicate_column USING MESSAGE = 'a column name appears more than once in the statement''s result', HINT = 'Give each result column a name of its own.';
    WHEN feature_not_supported OR undefined_function THEN -- no rows at all, not within WITH, or columns that cannot be compared
END
$$;

CREATE FUNCTION idem_execute LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    ticket @extschema@.idem_ticket;
    name   pg_catalog.text;
    unused pg_catalog.text;
    result pg_catalog.record;
BEGIN
    IF key IS NULL OR $2 IS NULL OR pg_catalog.jsonb_typeof(args) OPERATOR(pg_catalog.<>) 'array' THEN
        PERFORM @extschema@._idem_check_execute(key, $2, args);
    END IF;
    IF pg_catalog.current_setting('transaction_read_only')::pg_catalog.bool THEN
        BEGIN
            ticket := @extschema@.idem_begin(key, fingerprint, ttl, NULL, NULL, NULL, scope);
        EXCEPTION WHEN read_only_sql_transaction THEN
            PERFORM @extschema@._idem_require_writable('idem_execute()'); -- raises it with this name
        END;
    ELSE
        ticket := @extschema@.idem_begin(key, fingerprint, ttl, NULL, NULL, NULL, scope);
    END IF;
    IF ticket.outcome OPERATOR(pg_catalog.=) 'acquired' OR ticket.outcome OPERATOR(pg_catalog.=) 'taken_over' THEN
        name := pg_catalog.concat('_idem_', pg_catalog.replace(pg_catalog.gen_random_uuid()::pg_catalog.text, '-', ''));
        IF pg_catalog.starts_with(name, '_idem_0') THEN -- one call of sixteen
            FOR unused IN SELECT d.d FROM @extschema@._idem_execute_make_room() AS d (d) LOOP
                EXECUTE unused;
            END LOOP;
        END IF;
        IF pg_catalog.strpos($2, ';') OPERATOR(pg_catalog.=) 0 AND $2 OPERATOR(pg_catalog.~*) '\mreturning\M' THEN -- one statement, which is read row by row
            EXECUTE pg_catalog.concat('PREPARE ', name, E' AS\n', $2);
            result := @extschema@._idem_execute_run(name, false, args);
            IF result.first IS NULL THEN
                PERFORM @extschema@._idem_execute_check_names(name, $2);
            END IF;
        ELSE
            result := @extschema@._idem_execute_run(name, @extschema@._idem_execute_prepare(name, $2, false), args);
        END IF;
        EXECUTE pg_catalog.format('DEALLOCATE %I', name);
        IF (SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) pg_catalog.count(DISTINCT k.name) FROM pg_catalog.json_object_keys(result.first) AS k (name)) THEN
            PERFORM @extschema@._idem_execute_refuse_names(result.first);
        END IF;
        ticket.response_omitted := NOT @extschema@.idem_complete(key, result.rows, NULL, NULL, scope);
        ticket.response := result.rows;
    END IF;
    RETURN ticket;
END
$$;
