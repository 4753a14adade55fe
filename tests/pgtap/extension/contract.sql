-- The signatures and the index of outcomes in docs/contract.md are those of the catalog.
\ir ../include/helpers.psql
\ir ../include/members.psql
\set contract `cat docs/contract.md`
\set codes `sed -nE "s/^#define ERRCODE_IDEM_.*\('(.)', '(.)', '(.)', '(.)', '(.)'\)/\1\2\3\4\5/p" extension/src/server/errors.hpp`
\set problems `sed -nE 's/^ *\{"([a-z_]+)", "[^"]*",.*/\1/p' extension/src/http/http_problem.cpp`
SELECT plan(8);

-- The contract -------------------------------------------------------------------------------------------------------------------------------

CREATE TEMP TABLE lines AS
    SELECT n, line, count(*) FILTER (WHERE line LIKE '```%') OVER (ORDER BY n) % 2 = 1 AS in_block
      FROM regexp_split_to_table(:'contract', '\n') WITH ORDINALITY AS l (line, n);

-- A signature begins at the margin; its other lines are indented. `--` begins a remark.
CREATE TEMP TABLE signatures AS
    SELECT written, coalesce(part[1], '') AS kind, part[2] AS name, part[3] AS arguments,
           coalesce(part[4], '') AS set_of, part[5] AS result, part[6] AS marks
      FROM (SELECT string_agg(code, ' ' ORDER BY n) FILTER (WHERE code <> '') AS written
              FROM (SELECT n, line, btrim(regexp_replace(line, '--.*', '')) AS code, count(*) FILTER (WHERE line ~ '^\w') OVER (ORDER BY n) AS signature
                      FROM lines WHERE in_block AND line NOT LIKE '```%') l
             GROUP BY signature) s,
           regexp_match(written, '^(PROCEDURE |TYPE |VIEW |TABLE )?(\w+)(?: ENUM)? ?(?:\(([^()]*)\))?(?: -> (SETOF )?(\([^()]*\)|[^ ()]+))?'
                                 '((?: (?:stable|immutable))?(?: (?:public|operator|owner))?)$') AS part;

-- Types and defaults as the catalog spells them. Defaults are compared by their value.
CREATE FUNCTION pg_temp.parameter(name text, type text, initial text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    spelled text := coalesce(to_regtype(type)::text, type || ' (no such type)');
    value   text;
BEGIN
    IF initial IS NOT NULL THEN
        EXECUTE format('SELECT (%s)::%s::text', initial, spelled) INTO value;
    END IF;
    RETURN concat(name, ' ', spelled, ' = ' || CASE WHEN initial IS NOT NULL THEN quote_nullable(value) END);
END $$;

CREATE FUNCTION pg_temp.parameters(list text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(CASE WHEN part IS NULL THEN written || ' (neither name nor type)'
                           ELSE pg_temp.parameter(part[1], CASE WHEN part[2] LIKE '''%' THEN 'text' ELSE part[2] END, part[3]) END, ', ' ORDER BY n)
      FROM regexp_split_to_table(nullif(list, ''), ', ') WITH ORDINALITY AS l (written, n),
           regexp_match(written, '^((?:VARIADIC )?\w+) (''[^=]*''|\S+)(?: = (.*))?$') AS part
$$;

CREATE TEMP TABLE contract AS
    SELECT name, concat(kind, name,
                        CASE WHEN written LIKE 'TYPE % ENUM %' THEN format(' ENUM (%s)', arguments)
                             WHEN arguments IS NOT NULL THEN format('(%s)', pg_temp.parameters(arguments)) END,
                        ' -> ' || set_of || CASE WHEN result LIKE '(%' THEN format('(%s)', pg_temp.parameters(btrim(result, '()')))
                                                 ELSE coalesce(to_regtype(result)::text, result) END,
                        marks) AS signature
      FROM signatures;

-- The catalog ----------------------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION pg_temp.audience(may_everybody boolean, may_application boolean, may_operator boolean) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN may_everybody THEN ' public' WHEN may_application THEN '' WHEN may_operator THEN ' operator' ELSE ' owner' END
$$;

-- Files that grant take turns: two sessions cannot change one function's privileges at the same time.
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('idem pgtap grants'));
CREATE ROLE tap_application;
CREATE ROLE tap_operator;
SELECT idem_grant('tap_application');
SELECT idem_grant('tap_operator', operator => true);
SELECT jsonb_object_agg(objid, CASE WHEN classid = 'pg_proc'::regclass
           THEN pg_temp.audience(has_function_privilege('public', objid, 'EXECUTE'), has_function_privilege('tap_application', objid, 'EXECUTE'),
                                 has_function_privilege('tap_operator', objid, 'EXECUTE'))
           ELSE pg_temp.audience(has_table_privilege('public', objid, 'SELECT'), has_table_privilege('tap_application', objid, 'SELECT'),
                                 has_table_privilege('tap_operator', objid, 'SELECT')) END) AS audiences
  FROM members LEFT JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass
 WHERE classid = 'pg_proc'::regclass OR relkind = 'v' \gset
ROLLBACK;

CREATE FUNCTION pg_temp.columns_of(relation oid) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(pg_temp.parameter(attname, format_type(atttypid, atttypmod), NULL), ', ' ORDER BY attnum)
      FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped
$$;

-- Internal functions and views say so in their comments; nobody calls a trigger's function. Of the tables, those that the contract names.
CREATE TEMP TABLE catalog AS
    SELECT proname::text AS name,
           concat(CASE prokind WHEN 'p' THEN 'PROCEDURE ' END, proname, '(', taken, ')',
                  ' -> ' || CASE WHEN prokind <> 'p' THEN
                                concat(CASE WHEN proretset THEN 'SETOF ' END, coalesce('(' || given || ')', format_type(prorettype, NULL))) END,
                  CASE provolatile WHEN 'i' THEN ' immutable' WHEN 's' THEN ' stable' END, :'audiences'::jsonb ->> p.oid::text) AS signature
      FROM members JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid,
           LATERAL (SELECT string_agg(parameter, ', ' ORDER BY n) FILTER (WHERE mode IN ('i', 'b', 'v')) AS taken,
                           string_agg(parameter, ', ' ORDER BY n) FILTER (WHERE mode IN ('o', 'b', 't')) AS given
                      FROM (SELECT n, coalesce(mode, 'i') AS mode,
                                   pg_temp.parameter(CASE mode WHEN 'v' THEN 'VARIADIC ' ELSE '' END || a.name, format_type(type, NULL),
                                                     pg_get_function_arg_default(p.oid, n::int)) AS parameter
                              FROM unnest(coalesce(proallargtypes, proargtypes::oid[]), proargmodes, proargnames)
                                   WITH ORDINALITY AS a (type, mode, name, n)) a) AS parameters
     WHERE prorettype <> 'trigger'::regtype AND obj_description(p.oid, 'pg_proc') NOT LIKE 'Internal%'
    UNION ALL
    SELECT relname, concat(CASE relkind WHEN 'v' THEN 'VIEW ' ELSE 'TABLE ' END, relname,
                           '(' || CASE WHEN relkind = 'v' OR s.arguments IS NOT NULL THEN pg_temp.columns_of(c.oid) END || ')',
                           :'audiences'::jsonb ->> c.oid::text)
      FROM members JOIN pg_class c ON classid = 'pg_class'::regclass AND objid = c.oid LEFT JOIN signatures s ON s.name = relname
     WHERE relkind = 'v' AND obj_description(c.oid, 'pg_class') NOT LIKE 'Internal%' OR relkind = 'r' AND s.name IS NOT NULL
    UNION ALL
    SELECT typname, concat('TYPE ', typname, CASE typtype WHEN 'e' THEN ' ENUM ' END, '(',
                           CASE typtype WHEN 'e' THEN (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid)
                                        ELSE pg_temp.columns_of(typrelid) END, ')')
      FROM members JOIN pg_type t ON classid = 'pg_type'::regclass AND objid = t.oid
     WHERE typtype = 'e' OR typtype = 'c' AND (SELECT relkind FROM pg_class WHERE oid = typrelid) = 'c';

-- The comparison -------------------------------------------------------------------------------------------------------------------------------

CREATE TEMP TABLE differences AS
    SELECT name, string_agg(E'\n' || source || signature, '' ORDER BY source DESC) AS lines
      FROM (SELECT '  contract: ' AS source, * FROM (TABLE contract EXCEPT TABLE catalog) c
            UNION ALL SELECT '  catalog:  ', * FROM (TABLE catalog EXCEPT TABLE contract) c) d
     GROUP BY name;

SELECT is((SELECT string_agg(E'\n  ' || written, '') FROM signatures WHERE name IS NULL), NULL, 'every_signature_of_the_contract_can_be_read');
SELECT is(
    (SELECT string_agg(lines, '' ORDER BY name) FROM differences),
    NULL, 'contract_and_catalog_have_the_same_signatures');

-- The index of outcomes ------------------------------------------------------------------------------------------------------------------------

CREATE TEMP TABLE rows AS
    SELECT regexp_split_to_array(btrim(line, '| '), ' *\| *') AS cell, header
      FROM (SELECT n, line, max(line) FILTER (WHERE is_header) OVER (PARTITION BY in_table) AS header, is_header
              FROM (SELECT *, count(*) FILTER (WHERE is_header) OVER (ORDER BY n) AS in_table
                      FROM (SELECT *, line LIKE '|%' AND lag(line) OVER (ORDER BY n) NOT LIKE '|%' AS is_header FROM lines) l) l) l
     WHERE line LIKE '|%' AND NOT is_header AND line NOT LIKE '|---%';

-- The words of a result are in its column, in the column of its type, or in the enum that this column has.
CREATE TEMP TABLE words AS
    WITH RECURSIVE written AS (
        SELECT name AS function, result AS text FROM signatures WHERE result IS NOT NULL
        UNION
        SELECT function, arguments FROM written JOIN signatures ON kind = 'TYPE ' AND text ~ format('\m%s\M', name))
    SELECT function, word FROM written, regexp_matches(text, '''([^'']*)''', 'g') AS m (words), unnest(words) AS word;

CREATE TEMP TABLE indexed AS
    SELECT m[1] AS function, btrim(cell[1], '`') AS word FROM rows, regexp_matches(cell[3], '`(\w+)`', 'g') AS m
     WHERE header LIKE '| word %';

SELECT set_eq('TABLE indexed', 'TABLE words', 'the_index_has_the_words_of_the_signatures');
SELECT is(
    (SELECT string_agg(word, ', ') FROM (SELECT cell[1] FROM rows WHERE header LIKE '| word %' GROUP BY cell[1] HAVING count(*) > 1) r (word)),
    NULL, 'the_index_has_each_word_once');
SELECT set_eq(
    $$ SELECT btrim(cell[1], '`') FROM rows WHERE header LIKE '| function | true |%' $$,
    $$ SELECT name FROM signatures WHERE result ~ '^boolean|^\(\w+ boolean' $$,
    'the_index_has_what_booleans_say');
SELECT set_eq(
    $$ SELECT m[1] FROM rows, regexp_matches(array_to_string(cell, ' '), '\m(ID\d{3})\M', 'g') AS m WHERE header LIKE '| situation %' $$,
    format($$ SELECT unnest(%L::text[] || 'ID002'::text) $$, regexp_split_to_array(:'codes', '\s+')),
    'the_index_has_the_error_codes');
SELECT results_eq(
    $$ SELECT btrim(cell[1], '`') FROM rows WHERE header LIKE '| problem %' $$,
    format($$ SELECT regexp_split_to_table(%L, '\s+') $$, :'problems'),
    'the_index_has_the_codes_of_problems_in_their_order');
SELECT is((SELECT count(*)::int FROM words), (SELECT count(*)::int FROM indexed), 'no_word_of_the_index_names_a_function_twice');

SELECT * FROM finish();
