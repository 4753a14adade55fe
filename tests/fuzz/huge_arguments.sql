-- Arguments of almost 1 GB, the most that a value can have: each function answers, or raises an error that is not an internal
-- one. Takes minutes, and 6 GB of memory. Out: huge_calls, and huge_problems, the calls that ended as none may.
\ir ../pgtap/include/odd_values.psql

-- The huge one of the arguments is a parameter: it is made once.
CREATE TEMP TABLE huge_call AS
    SELECT huge.type::text AS type, pg_temp.statement(f, string_agg(CASE WHEN a.position = huge.position THEN parameter ELSE expression END, ', ' ORDER BY a.position)) AS statement
      FROM function f JOIN argument huge ON huge.function = f.oid
      JOIN (VALUES ('text'::regtype, '$1'), ('text[]', 'ARRAY[$1]'), ('"any"', '$1'), ('"any"', '$1, $1'), ('"any"', '''a'', VARIADIC ARRAY[$1]'), ('"any"', 'VARIADIC ARRAY[$1]'),
                   ('bytea', '$1'), ('jsonb', '$1'), ('jsonb', 'jsonb_build_object(''id'', $1)'), ('jsonb[]', 'ARRAY[$1]')) AS given (type, parameter) ON given.type = huge.type
      JOIN argument a ON a.function = f.oid JOIN choice c ON (c.function, c.position, c.number) = (a.function, a.position, 0)
     GROUP BY f, huge.type, huge.position, parameter;
CREATE TEMP TABLE answer (statement text, state text, message text);

CREATE FUNCTION pg_temp.note(given text, state text, message text) RETURNS void LANGUAGE sql AS 'INSERT INTO answer VALUES (given, state, left(message, 200))';

CREATE PROCEDURE pg_temp.call_with(huge anyelement, wanted text) LANGUAGE plpgsql AS $$
DECLARE
    given text;
BEGIN
    FOR given IN SELECT statement FROM huge_call WHERE type IN (wanted, wanted || '[]', CASE wanted WHEN 'text' THEN '"any"' END) ORDER BY statement LOOP
        BEGIN
            EXECUTE given USING huge;
            RAISE 'undone' USING ERRCODE = 'ODD00';
        EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
            PERFORM pg_temp.note(given, SQLSTATE, SQLERRM);
        END;
    END LOOP;
END $$;

-- The longest text there is; bytes; the longest string of jsonb.
CALL pg_temp.call_with(repeat('x', 1073741819), 'text');
CALL pg_temp.call_with(convert_to(repeat('x', 1073741819), 'UTF8'), 'bytea');
CALL pg_temp.call_with(to_jsonb(repeat('x', 268435455)), 'jsonb');
-- Out of memory is what a result is called that would be longer than a value can be.
SELECT count(*) AS huge_calls, coalesce(string_agg(format('%s: %s %s', statement, state, message), E'\n') FILTER (WHERE NOT pg_temp.may_end_in(state) AND state NOT IN ('ODD00', '53200')), 'none') AS huge_problems
  FROM answer \gset
ROLLBACK;
