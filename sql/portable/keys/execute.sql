-- The session keeps the statement prepared, so the next execution need not parse it. Where it fits into a WITH query, the prepared query makes one
-- jsonb value of its rows. Other statements are read row by row: those that have a data-modifying WITH of their own, and MERGE.

-- A prepared statement of this session.
CREATE TYPE _idem_plan AS (
    name       text,
    types      regtype[], -- of its parameters
    is_wrapped boolean    -- it makes one value of the rows
);

-- The names that a statement's plan can have: wrapped or not.
CREATE FUNCTION _idem_plan_name(statement text, is_wrapped boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN is_wrapped THEN '_idem_rows_' ELSE '_idem_plain_' END || md5(statement)
$$;

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

CREATE FUNCTION _idem_execute_plan(statement text) RETURNS _idem_plan LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wrapped CONSTANT text := _idem_plan_name(statement, true);
    plain   CONSTANT text := _idem_plan_name(statement, false);
    plan    _idem_plan;
BEGIN
    SELECT p.name, p.parameter_types, p.name = wrapped INTO plan FROM pg_prepared_statements p WHERE p.name IN (wrapped, plain) LIMIT 1;
    RETURN plan;
END
$$;

-- What has to be executed before the statement can be prepared: at most 32 are kept.
CREATE FUNCTION _idem_execute_make_room(statement text) RETURNS SETOF text LANGUAGE sql VOLATILE PINNED AS $$
    SELECT format('DEALLOCATE %I', p.name)
      FROM (SELECT s.name, row_number() OVER (ORDER BY s.prepare_time DESC) AS age FROM pg_prepared_statements s WHERE s.name LIKE '\_idem\_%') p
     WHERE p.age >= 32 OR p.name IN (_idem_plan_name($1, true), _idem_plan_name($1, false))
$$;

-- original: what the statement was before its end was cut off.
CREATE FUNCTION _idem_execute_definition(statement text, is_wrapped boolean, original text) RETURNS text LANGUAGE sql STABLE PINNED AS $$
    SELECT format(CASE WHEN NOT is_wrapped THEN 'PREPARE %I AS %s'
                       ELSE E'PREPARE %I AS WITH _idem_rows AS (\n%s\n) SELECT (SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(_idem_row)), ''[]'') '
                            'FROM _idem_rows _idem_row), (SELECT pg_catalog.to_json(_idem_row) FROM (SELECT _idem_row.* FROM (SELECT) _idem_one '
                            'LEFT JOIN _idem_rows _idem_row ON true LIMIT 1) _idem_row)' END,
                  _idem_plan_name(coalesce(original, statement), is_wrapped), statement)
$$;

-- Without the semicolon at the end, and comments behind it.
CREATE FUNCTION _idem_execute_trim(statement text) RETURNS text LANGUAGE sql IMMUTABLE PINNED AS $$ SELECT regexp_replace(statement, ';(\s|--[^\n]*(\n|$))*$', '') $$;

-- The statement that runs the plan: each parameter is a literal that the server reads as the parameter's type.
CREATE FUNCTION _idem_execute_call(plan _idem_plan, args jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    given   integer := coalesce(jsonb_array_length(args), 0);
    element jsonb;
    literal text;
    list    text := '';
BEGIN
    IF cardinality(plan.types) <> given THEN
        PERFORM _idem_invalid(format('statement has %s parameters, but %s args were given', cardinality(plan.types), given));
    END IF;
    FOR i IN 1..given LOOP
        element := args -> (i - 1);
        IF jsonb_typeof(element) = 'null' THEN
            literal := NULL;
        ELSIF plan.types[i] IN ('jsonb'::regtype, 'json'::regtype) THEN
            literal := element::text;
        ELSIF jsonb_typeof(element) IN ('array', 'object') THEN
            EXECUTE format('SELECT r.v::text FROM jsonb_to_record($1) AS r (v %s)', plan.types[i]) INTO literal USING jsonb_build_object('v', element);
        ELSE
            literal := element #>> '{}';
        END IF;
        list := list || CASE WHEN i > 1 THEN ', ' ELSE '' END || quote_nullable(literal);
    END LOOP;
    RETURN format(CASE WHEN given = 0 THEN 'EXECUTE %I' ELSE 'EXECUTE %I (%s)' END, plan.name, list);
END
$$;

CREATE FUNCTION _idem_execute_end(ticket idem_ticket, key text, response jsonb, first json, scope text)
RETURNS idem_ticket LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    twice text;
BEGIN
    SELECT k.name INTO twice FROM json_object_keys(first) AS k (name) GROUP BY k.name HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE duplicate_column USING MESSAGE = format('column name "%s" appears more than once in the statement''s result', twice),
            HINT = 'Give each result column a name of its own.';
    END IF;
    ticket.response_omitted := NOT idem_complete(key, response, NULL, NULL, scope);
    ticket.response := response;
    RETURN ticket;
END
$$;

-- Prepares the statement with the caller's search_path. Names here are qualified, and there is no operator.
CREATE FUNCTION _idem_execute_prepare(statement text, original text) RETURNS void LANGUAGE plpgsql VOLATILE UNPINNED AS $$
DECLARE
    deallocation pg_catalog.text;
BEGIN
    FOR deallocation IN SELECT d.statement FROM @extschema@._idem_execute_make_room(coalesce(original, statement)) AS d (statement) LOOP
        EXECUTE deallocation;
    END LOOP;
    BEGIN
        EXECUTE @extschema@._idem_execute_definition(statement, true, original);
    EXCEPTION
        WHEN feature_not_supported THEN -- no rows, or not within WITH
            EXECUTE @extschema@._idem_execute_definition(statement, false, original);
        WHEN syntax_error THEN
            IF original IS NOT NULL THEN
                RAISE;
            END IF;
            PERFORM @extschema@._idem_execute_prepare(@extschema@._idem_execute_trim(statement), statement);
    END;
END
$$;

-- Runs it, with the caller's search_path.
CREATE FUNCTION _idem_execute_run(plan _idem_plan, args jsonb, OUT rows jsonb, OUT first json) LANGUAGE plpgsql VOLATILE UNPINNED AS $$
DECLARE
    call   pg_catalog.text := @extschema@._idem_execute_call(plan, args);
    result pg_catalog.record;
    list   pg_catalog.jsonb[] := '{}';
BEGIN
    IF plan.is_wrapped THEN
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

-- A statement that was prepared before may not be what it was: a table was altered, and its parameters have other types now.
CREATE FUNCTION idem_execute LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    ticket @extschema@.idem_ticket;
    plan   @extschema@._idem_plan;
    result pg_catalog.record;
BEGIN
    PERFORM @extschema@._idem_check_execute(key, statement, args);
    ticket := @extschema@.idem_begin(key, fingerprint, ttl, NULL, NULL, NULL, scope);
    IF ticket.outcome IN ('acquired', 'taken_over') THEN
        plan := @extschema@._idem_execute_plan(statement);
        IF plan.name IS NOT NULL THEN
            BEGIN
                result := @extschema@._idem_execute_run(plan, args);
            EXCEPTION WHEN data_exception OR syntax_error_or_access_rule_violation OR feature_not_supported THEN
                plan := NULL;
            END;
        END IF;
        IF plan.name IS NULL THEN
            PERFORM @extschema@._idem_execute_prepare(statement, NULL);
            result := @extschema@._idem_execute_run(@extschema@._idem_execute_plan(statement), args);
        END IF;
        ticket := @extschema@._idem_execute_end(ticket, key, result.rows, result.first, scope);
    END IF;
    RETURN ticket;
END
$$;
