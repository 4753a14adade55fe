-- Injection: names, keys, values and columns are data in every argument of every row flow; and whatever lies in front in the
-- caller's search_path is not used. The canary must sing to the end.
\ir ../include/row_flows.psql
SELECT plan(54);
DROP SCHEMA IF EXISTS row_injection, row_injection_hostile CASCADE;
CREATE SCHEMA row_injection;
CREATE TABLE row_injection.canary (id int PRIMARY KEY, song text);
INSERT INTO row_injection.canary VALUES (1, 'tweet');
CREATE FUNCTION pg_temp.canary_sings() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) = 1 AND min(song) = 'tweet' FROM row_injection.canary) AND (SELECT rolname = 'postgres' OR rolsuper
        FROM pg_roles WHERE rolname = current_user);
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END $$;

-- Texts that would do harm if they were ever part of a statement.
CREATE TEMP TABLE attack (n int GENERATED ALWAYS AS IDENTITY, text text);
INSERT INTO attack (text) VALUES ('''; DROP TABLE row_injection.canary; --'), ('"; DROP TABLE row_injection.canary; --'),
    ('); DROP TABLE row_injection.canary; --'), ('1; DROP TABLE row_injection.canary; --'), (''''), (''''''), ('"'), ('""'),
    ('\'),
    ('\'''), ('\''; DROP TABLE row_injection.canary; --'), ('\\''; DROP TABLE row_injection.canary; --'), ('$$'),
        ('$$; DROP TABLE row_injection.canary; $$'), ('$1'), ('$1; DROP TABLE row_injection.canary; --'), ('%s'),
        ('%I %L %1$s %'), ('--'), ('/*'), ('*/'), ('/* ''; */ DROP'),
    ('U&''\0027'), ('U&"\0022" UESCAPE ''!'''), ('E''\x27'''), (E'\n; DROP TABLE row_injection.canary;\n'), (E'a\tb\rc'),
        (E'\u00ad\u200b\u202e'), ('ʼ＇‘’“”„'), ('ż’; DROP TABLE row_injection.canary; --'), ('x'' OR ''1''=''1'),
        ('x'' UNION SELECT * FROM row_injection.canary --'),
    ('(SELECT song FROM row_injection.canary)'), ('current_user'), ('NULL'), ('null'), ('DEFAULT'), ('{}'), ('{"a": 1}'),
        ('{a,"b'), ('[1]'), (' '), (''), ('id = id'), ('''||(SELECT song FROM row_injection.canary)||'''), (repeat('x', 10000)
        || ''''), (repeat('''', 1001)), (repeat('ż"', 5000)),
    ('pg_catalog.set_config(''role'', ''none'', false)'), ('\x27; DROP TABLE row_injection.canary'),
        ('COPY row_injection.canary TO PROGRAM ''true''');

-- As a value: stored as it is.
CREATE TABLE row_injection.stored (id int PRIMARY KEY, a text, v varchar, j jsonb, arr text[], UNIQUE (a));
CREATE TABLE row_injection.keyed (a text NOT NULL UNIQUE, n int DEFAULT 0, b text);
CREATE INDEX ON row_injection.keyed (b);
SELECT optimistic_enable('row_injection.stored');
CREATE FUNCTION pg_temp.as_value(attack text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    here int := (SELECT count(*) FROM row_injection.stored);
    key jsonb := jsonb_build_object('a', attack);
    answers text[];
    answer record;
BEGIN
    SELECT * INTO answer FROM unique_insert('row_injection.stored', jsonb_build_object('id', here, 'a', attack, 'v', attack,
        'j', attack, 'arr', ARRAY[attack, NULL, attack]));
    answers := ARRAY[answer.outcome, (answer.row_data = jsonb_build_object('id', here, 'a', attack, 'v', attack, 'j', attack,
        'arr', ARRAY[attack, NULL, attack], 'version', 1))::text,
        ((SELECT ARRAY[a, v, j #>> '{}', arr[1], arr[3]] FROM row_injection.stored WHERE id = here) = array_fill(attack, ARRAY[5]))::text];
    SELECT * INTO answer FROM unique_insert('row_injection.stored', jsonb_build_object('id', -1, 'a', attack), '{a}');
    answers := answers || ARRAY[answer.outcome, answer.row_data ->> 'id' = here::text] ::text[];
    SELECT * INTO answer FROM optimistic_update('row_injection.stored', jsonb_build_object('id', here), 1,
        jsonb_build_object('v', attack || attack, 'arr', ARRAY[attack]));
    answers := answers || ARRAY[answer.outcome, answer.row_data ->> 'v' = attack || attack
        AND answer.row_data -> 'arr' = to_jsonb(ARRAY[attack])] ::text[];
    SELECT * INTO answer FROM conditional_update('row_injection.stored', jsonb_build_object('id', here),
        jsonb_build_object('a', attack, 'v', attack || attack, 'j', attack), jsonb_build_object('v', attack));
    answers := answers || ARRAY[answer.outcome, answer.row_data ->> 'v' = attack] ::text[];
    SELECT * INTO answer FROM conditional_update('row_injection.stored', jsonb_build_object('id', here),
        jsonb_build_object('a', attack || 'x'), '{"v": "wrong"}');
    answers := answers || answer.outcome;
    SELECT * INTO answer FROM guarded_insert('row_injection.keyed', jsonb_build_object('a', attack, 'b', attack), '{b}');
    answers := answers || ARRAY[answer.outcome, answer.row_data = jsonb_build_object('a', attack, 'n', 0, 'b', attack)] ::text[];
    SELECT * INTO answer FROM guarded_insert('row_injection.keyed', jsonb_build_object('a', attack || 'x', 'b', attack), '{b}');
    answers := answers || answer.outcome;
    SELECT * INTO answer FROM conditional_adjust('row_injection.keyed', key, 'n', 1);
    answers := answers || ARRAY[answer.outcome, answer.value::text];
    SELECT * INTO answer FROM pessimistic_lock('row_injection.keyed', key);
    answers := answers || ARRAY[answer.outcome, answer.row_data = jsonb_build_object('a', attack, 'n', 1, 'b', attack)] ::text[];
    SELECT string_agg(outcome, ' ') AS outcomes INTO answer FROM pessimistic_lock_many('row_injection.keyed',
        ARRAY[key, jsonb_build_object('a', attack || 'y')]);
    RETURN array_to_string(answers || answer.outcomes, ' ');
EXCEPTION WHEN OTHERS THEN
    RETURN format('%s: %s %s', array_to_string(answers, ' '), SQLSTATE, SQLERRM);
END $$;
CREATE FUNCTION pg_temp.failed_values() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', left(text, 60), result), E'\n') FROM attack, pg_temp.as_value(text) AS result
     WHERE result <> 'inserted true true duplicate true updated true updated true conflict inserted true duplicate adjusted 1 '
         'locked true locked not_found'
$$;
SELECT is(pg_temp.failed_values(), NULL, 'values_are_stored_literally');
TRUNCATE row_injection.stored, row_injection.keyed;
\if :from_19
SELECT throws_ok('SET standard_conforming_strings = off', '0A000', NULL, 'and_strings_are_always_standard_conforming');
\else
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SET backslash_quote = on;
SELECT is(pg_temp.failed_values(), NULL, 'and_where_strings_are_not_standard_conforming');
RESET backslash_quote;
RESET escape_string_warning;
RESET standard_conforming_strings;
\endif
TRUNCATE row_injection.stored, row_injection.keyed;
SET quote_all_identifiers = on;
SET array_nulls = off;
SET IntervalStyle = sql_standard;
SET DateStyle = 'SQL, DMY';
SET bytea_output = escape;
SELECT is(pg_temp.failed_values(), NULL, 'and_under_other_settings');
RESET quote_all_identifiers;
RESET array_nulls;
RESET IntervalStyle;
RESET DateStyle;
RESET bytea_output;
SELECT ok(pg_temp.canary_sings(), 'canary_after_the_values');

-- As a name that is not there: unknown, whatever it would do. {"": …} and longer names than there can be are unknown, too.
CREATE TEMP TABLE names AS SELECT text FROM attack UNION ALL SELECT repeat('x', 64) UNION ALL SELECT repeat('n', 63) || 'n'
    UNION ALL SELECT 'id' || repeat(' ', 62);
CREATE FUNCTION pg_temp.unknown(call text, expected text = '42703') RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', left(text, 60), state), E'\n') FROM names, pg_temp.state_of(replace(call, '%',
        quote_literal(text))) AS state WHERE state !~ format('^(%s)$', expected)
$$;
CREATE TABLE row_injection.plain (id int PRIMARY KEY, n int DEFAULT 0, version bigint NOT NULL DEFAULT 1);
INSERT INTO row_injection.plain VALUES (1);
SELECT optimistic_enable('row_injection.plain');
SELECT is(pg_temp.unknown(call), NULL, 'unknown_names: ' || call)
  FROM unnest(ARRAY['SELECT optimistic_update(''row_injection.plain'', jsonb_build_object(%, 1), 1, ''{}'')',
      'SELECT optimistic_update(''row_injection.plain'', ''{"id": 1}'', 1, jsonb_build_object(%, 1))',
                    'SELECT conditional_update(''row_injection.plain'', jsonb_build_object(%, 1), ''{"id": 1}'', '
                        '''{"id": 1}'')', 'SELECT conditional_update(''row_injection.plain'', ''{"id": 1}'', '
                        'jsonb_build_object(%, 1), ''{"id": 1}'')',
                    'SELECT conditional_update(''row_injection.plain'', ''{"id": 1}'', ''{"id": 1}'', jsonb_build_object(%, '
                        '1))', 'SELECT conditional_update(''row_injection.plain'', ''{"id": 1}'', ''{"id": 1}'', '
                        'jsonb_build_object(''n'', 1, %, 1))',
                    'SELECT conditional_adjust(''row_injection.plain'', jsonb_build_object(%, 1), ''n'', 1)',
                        'SELECT pessimistic_lock(''row_injection.plain'', jsonb_build_object(%, 1))',
                        'SELECT pessimistic_lock(''row_injection.plain'', jsonb_build_object(''id'', 1, %, 1))',
                    'SELECT pessimistic_lock_many(''row_injection.plain'', ARRAY[''{"id": 1}'', jsonb_build_object(%, 1)])',
                        'SELECT unique_insert(''row_injection.plain'', jsonb_build_object(''id'', 5, %, 1))',
                    'SELECT guarded_insert(''row_injection.plain'', jsonb_build_object(''id'', 5, %, 1), ''{id}'')']) AS call;
-- Arguments of type name are cut at 63 bytes by the server.
SELECT is(pg_temp.unknown(call), NULL, 'unknown_names: ' || call)
  FROM unnest(ARRAY['SELECT conditional_adjust(''row_injection.plain'', ''{"id": 1}'', %::text::name, 1)',
      'SELECT unique_insert(''row_injection.plain'', ''{"id": 5}'', ARRAY[%::text::name])',
      'SELECT unique_insert(''row_injection.plain'', ''{"id": 5}'', ARRAY[''id'', %::text::name])',
                    'SELECT guarded_insert(''row_injection.plain'', ''{"id": 5}'', ARRAY[%::text::name])']) AS call;
SELECT is(pg_temp.unknown('SELECT optimistic_enable(''row_injection.plain'', %::text::name)', '55000|42601|42602'), NULL,
    'unknown_names: optimistic_enable');
SELECT is(pg_temp.unknown('SELECT pessimistic_lock(%, ''{"id": 1}'')', '42P01|42602|42601|3F000|0A000|22P02|22003|42704'),
    NULL, 'unknown_tables');
SELECT results_eq('SELECT id, n, version FROM row_injection.plain', 'VALUES (1, 0, 1::bigint)', 'nothing_has_changed');
SELECT ok(pg_temp.canary_sings(), 'canary_after_the_unknown_names');

-- As a name that is there.
CREATE FUNCTION pg_temp.as_name(attack text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    name name := attack;
    other name := 'x' || name;
    target regclass;
    answers text[];
    answer text;
BEGIN
    EXECUTE format('CREATE TABLE row_injection.%I (%I int PRIMARY KEY, %I text DEFAULT %L)', name, name, other, attack);
    target := format('row_injection.%I', name)::regclass;
    PERFORM optimistic_enable(target, ('v' || name)::name);
    SELECT concat_ws(' ', outcome, row_data ->> other = attack) INTO answer FROM unique_insert(target, jsonb_build_object(name, 1));
    answers := answers || answer;
    SELECT concat_ws(' ', outcome, version, row_data -> name) INTO answer FROM optimistic_update(target,
        jsonb_build_object(name, 1), 1, jsonb_build_object(name, 2));
    answers := answers || answer;
    SELECT concat_ws(' ', outcome, row_data -> name) INTO answer FROM conditional_update(target, jsonb_build_object(name, 2),
        jsonb_build_object(other, attack), jsonb_build_object(name, 3, other, attack || attack));
    answers := answers || answer;
    SELECT concat_ws(' ', outcome, value) INTO answer FROM conditional_adjust(target, jsonb_build_object(name, 3), name, 1);
    answers := answers || answer;
    SELECT concat_ws(' ', outcome, row_data ->> other = attack || attack) INTO answer FROM pessimistic_lock(target,
        jsonb_build_object(name, 4));
    answers := answers || answer;
    SELECT string_agg(outcome, ' ') INTO answer FROM pessimistic_lock_many(target, ARRAY[jsonb_build_object(name, 4)]);
    answers := answers || answer;
    SELECT concat_ws(' ', outcome, row_data -> name) INTO answer FROM guarded_insert(target, jsonb_build_object(name, 4), ARRAY[name]);
    answers := answers || answer;
    -- The messages of errors, too, and the hint that quotes.
    SELECT concat_ws(' ', e.state, hint ~ 'x') INTO answer
        FROM pg_temp.error_of(format('SELECT pessimistic_lock(%L::regclass, %L)', target, jsonb_build_object(other, 1))) e;
    answers := answers || answer;
    PERFORM optimistic_disable(target);
    SELECT concat_ws(' ', e.state) INTO answer
        FROM pg_temp.error_of(format('SELECT optimistic_update(%L::regclass, %L, 1, ''{}'')', target, jsonb_build_object(name,
        1))) e;
    answers := answers || answer;
    EXECUTE format('DROP TABLE %s', target);
    RETURN array_to_string(answers, ', ');
EXCEPTION WHEN OTHERS THEN
    RETURN format('%s: %s %s', array_to_string(answers, ', '), SQLSTATE, SQLERRM);
END $$;
CREATE FUNCTION pg_temp.failed_names() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', left(text, 60), result), E'\n') FROM attack, pg_temp.as_name(text) AS result
     WHERE octet_length(text) BETWEEN 1 AND 61
         AND result !~ '^inserted t, updated 2 2, updated 3, adjusted 4, locked t, locked, duplicate 4, 42P10( t| f)?, 55000$'
$$;
SELECT is(pg_temp.failed_names(), NULL, 'names_are_names');
\if :from_19
SELECT throws_ok('SET standard_conforming_strings = off', '0A000', NULL, 'and_strings_are_always_standard_conforming');
\else
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SELECT is(pg_temp.failed_names(), NULL, 'and_where_strings_are_not_standard_conforming');
RESET escape_string_warning;
RESET standard_conforming_strings;
\endif
SELECT ok(pg_temp.canary_sings(), 'canary_after_the_names');

-- Hints that contain a statement contain one that works.
CREATE TABLE row_injection."it's ""odd"" \" ("a'b ""c"" \" int, v bigint);
SELECT error.hint AS hint FROM pg_temp.error_of($$ SELECT optimistic_enable('row_injection."it''s ""odd"" \"', 'v') $$) AS error \gset
SELECT substring(:'hint' FROM '(ALTER TABLE .*)\.$') AS statement \gset
SELECT is(pg_temp.state_of(:'statement'), 'ok', 'hint_of_optimistic_enable: ' || :'hint');
SELECT is(pg_temp.state_of($$ SELECT optimistic_enable('row_injection."it''s ""odd"" \"', 'v') $$), 'ok', 'works');
SELECT error.hint AS hint FROM pg_temp.error_of($$ SELECT guarded_insert('row_injection."it''s ""odd"" \"',
    '{"a''b \"c\" \\": 1, "v": 1}', ARRAY['a''b "c" \']) $$) AS error \gset
SELECT substring(:'hint' FROM '(CREATE INDEX .*\))') AS statement \gset
SELECT is(pg_temp.state_of(:'statement'), 'ok', 'hint_of_guarded_insert: ' || :'hint');
SELECT is(pg_temp.state_of($$ SELECT guarded_insert('row_injection."it''s ""odd"" \"', '{"a''b \"c\" \\": 1, "v": 1}',
    ARRAY['a''b "c" \']) $$), 'ok', 'works_too');
SELECT optimistic_disable('row_injection."it''s ""odd"" \"');
SELECT error.hint AS hint FROM pg_temp.error_of($$ SELECT optimistic_update('row_injection."it''s ""odd"" \"', '{"v": 1}', 1,
    '{}') $$) AS error \gset
SELECT substring(:'hint' FROM '(optimistic_enable\(.*\))') AS call \gset
SELECT matches(pg_temp.state_of('SELECT idem.' || :'call'), '^(ok|42703)$', 'hint_of_optimistic_update: ' || :'hint');

-- Settings that would run as part of a statement.
SELECT is(pg_temp.unknown('SELECT pessimistic_lock(''row_injection.plain'', ''{"id": 1}'', %)', '22007|22015|22008|ok'), NULL, 'waits');
SELECT is(pg_temp.unknown('SELECT conditional_adjust(''row_injection.plain'', ''{"id": 1}'', ''n'', %)', '22P02'), NULL, 'deltas');

-- Hostile search_path: in front of pg_catalog and of idem are the attacker's operators, functions, types, casts and tables.
CREATE TABLE row_injection.target (id int PRIMARY KEY, word text NOT NULL UNIQUE, n numeric DEFAULT 1, tags text[], doc jsonb,
    at timestamptz, ok bool, lower_word text GENERATED ALWAYS AS (lower(word)) STORED, big bigint, f float8,
    day date DEFAULT current_date);
CREATE INDEX ON row_injection.target (n);
CREATE INDEX ON row_injection.target (big, word);
INSERT INTO row_injection.target VALUES (1, 'one', 5, '{a}', '{}', '2024-01-01Z', true, DEFAULT, 7, 0.5);
CREATE SCHEMA row_injection_hostile;
CREATE FUNCTION pg_temp.trap(name text, arguments text, result text, volatility text = 'VOLATILE') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE FUNCTION row_injection_hostile.%I(%s) RETURNS %s LANGUAGE plpgsql %s AS %L', name, arguments, result, volatility,
                   format('BEGIN RAISE EXCEPTION %L USING ERRCODE = ''XXTAP''; END', 'trapped in ' || name));
END $$;
SELECT pg_temp.trap(proname, pg_get_function_arguments(oid), pg_get_function_result(oid))
  FROM pg_proc
 WHERE provariadic = 0 AND prokind = 'f' AND prorettype NOT IN ('trigger'::regtype, 'internal'::regtype, 'index_am_handler'::regtype)
   AND (pronamespace = 'idem'::regnamespace AND proargmodes IS NULL
        OR pronamespace = 'pg_catalog'::regnamespace AND proargmodes IS NULL
           AND proname IN ('to_jsonb', 'jsonb_build_object', 'jsonb_populate_record', 'jsonb_object_field',
               'jsonb_object_field_text', 'format', 'quote_ident', 'quote_literal', 'current_setting', 'set_config',
               'num_nulls', 'num_nonnulls', 'lower', 'now', 'jsonb_typeof',
                           'int4', 'int8', 'numeric', 'float8', 'text', 'int4eq', 'texteq', 'numeric_add', 'row_to_json',
                               'array_length', 'has_column_privilege', 'has_table_privilege', 'clock_timestamp', 'bool',
                               'varchar', 'coalesce')
           AND NOT ('internal'::regtype = ANY (proargtypes) OR 'anyelement'::regtype = ANY (proargtypes)));
SELECT pg_temp.trap('operator' || oid, format('%s, %s', oprleft::regtype, oprright::regtype), oprresult::regtype::text)
  FROM pg_operator
 WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprname IN ('=', '<>', '<', '<=', '>', '>=', '+', '-', '||', '->', '->>', '*')
   AND oprleft = ANY ('{text,integer,smallint,bigint,numeric,timestamptz,interval,jsonb,boolean,name,float8,date,oid,regclass}'::regtype[])
   AND oprright = ANY ('{text,integer,smallint,bigint,numeric,timestamptz,interval,jsonb,boolean,name,float8,date,oid,'
                         'regclass}'::regtype[]);
SELECT format('CREATE OPERATOR row_injection_hostile.%s (LEFTARG = %s, RIGHTARG = %s, '
    'FUNCTION = row_injection_hostile.operator%s)', o.oprname, o.oprleft::regtype, o.oprright::regtype, o.oid)
  FROM pg_operator o JOIN pg_proc p ON p.proname = 'operator' || o.oid AND p.pronamespace = 'row_injection_hostile'::regnamespace \gexec
-- More exact matches than pg_catalog has: varchar, and unlike types.
SELECT pg_temp.trap('eq_varchar', 'varchar, varchar', 'boolean'), pg_temp.trap('eq_int_numeric', 'integer, numeric',
    'boolean'), pg_temp.trap('plus_int_numeric', 'integer, numeric', 'numeric');
CREATE OPERATOR row_injection_hostile.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = row_injection_hostile.eq_varchar);
CREATE OPERATOR row_injection_hostile.= (LEFTARG = integer, RIGHTARG = numeric, FUNCTION = row_injection_hostile.eq_int_numeric);
CREATE OPERATOR row_injection_hostile.+ (LEFTARG = integer, RIGHTARG = numeric, FUNCTION = row_injection_hostile.plus_int_numeric);
CREATE TABLE row_injection_hostile.target (LIKE row_injection.target);
CREATE TABLE row_injection_hostile.pg_class (oid oid);
CREATE TABLE row_injection_hostile.pg_index (oid oid);
CREATE TABLE row_injection_hostile.pg_attribute (oid oid);
CREATE TABLE row_injection_hostile.t (id int);
CREATE DOMAIN row_injection_hostile.text AS text CHECK (false);
CREATE DOMAIN row_injection_hostile.jsonb AS jsonb CHECK (false);
CREATE DOMAIN row_injection_hostile.numeric AS numeric CHECK (false);
CREATE DOMAIN row_injection_hostile.int8 AS bigint CHECK (false);
CREATE DOMAIN row_injection_hostile.name AS name CHECK (false);
CREATE DOMAIN row_injection_hostile.regclass AS regclass CHECK (false);
CREATE COLLATION row_injection_hostile."default" FROM "C";
CREATE FUNCTION pg_temp.under_attack(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answered record;
    result text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'row_injection_hostile, pg_catalog, idem', true);
    BEGIN
        EXECUTE statement INTO answered;
        result := answered::pg_catalog.text;
    EXCEPTION WHEN OTHERS THEN
        result := SQLERRM;
    END;
    PERFORM pg_catalog.set_config('search_path', 'idem, tap, public', true);
    RETURN result;
END $$;
CREATE TEMP TABLE under_attack (n int GENERATED ALWAYS AS IDENTITY, name text, statement text, expected text);
INSERT INTO under_attack (name, statement, expected) VALUES
    ('functions_are_armed', 'SELECT now()', 'trapped in now'),
    ('functions_of_the_same_name_are_armed', 'SELECT optimistic_disable(''row_injection.target''::pg_catalog.regclass)',
        'trapped in optimistic_disable'),
    ('enable', 'SELECT idem.optimistic_enable(''row_injection.target'')', '("")'),
    ('optimistic_update', 'SELECT outcome, version FROM idem.optimistic_update(''row_injection.target'', ''{"id": 1}'', 1, '
        '''{"n": 6.5, "tags": ["b"], "doc": {"a": 1}, "big": 8}'')', '(updated,2)'),
    ('optimistic_update_by_a_word', 'SELECT outcome, version FROM idem.optimistic_update(''row_injection.target'', '
        '''{"word": "one"}'', 1, ''{"n": 6.5}'')', '(conflict,2)'),
    ('conditional_update', 'SELECT outcome FROM idem.conditional_update(''row_injection.target'', ''{"id": 1}'', '
        '''{"n": 6.50, "word": "one", "tags": ["b"], "doc": {"a": 1.0}, "at": "2024-01-01Z", "ok": true, "big": 8, "f": 0.5, '
        '"lower_word": "one"}'', ''{"n": 7}'')', '(updated)'),
    ('conditional_adjust', 'SELECT outcome, value FROM idem.conditional_adjust(''row_injection.target'', ''{"id": 1}'', '
        '''n'', 1.5, 0, 100)', '(adjusted,8.5)'),
    ('conditional_adjust_of_a_bigint', 'SELECT outcome, value FROM idem.conditional_adjust(''row_injection.target'', '
        '''{"word": "one"}'', ''big'', -8, 0, 100)', '(adjusted,0)'),
    ('conditional_adjust_of_a_double', 'SELECT outcome, value FROM idem.conditional_adjust(''row_injection.target'', '
        '''{"word": "one"}'', ''f'', 0.5)', '(adjusted,1)'),
    ('pessimistic_lock', 'SELECT outcome, row_data OPERATOR(pg_catalog.->>) ''word'' FROM '
        'idem.pessimistic_lock(''row_injection.target'', ''{"id": 1}'', ''1 s'')', '(locked,one)'),
    ('pessimistic_lock_many', 'SELECT pg_catalog.string_agg(outcome, '
        ''' '') FROM idem.pessimistic_lock_many(''row_injection.target'', '
        '''{"{\"word\": \"one\"}","{\"id\": 1}","{\"id\": 2}"}'', ''0'')', '("locked locked not_found")'),
    ('unique_insert', 'SELECT outcome, row_data OPERATOR(pg_catalog.->>) ''lower_word'' FROM '
        'idem.unique_insert(''row_injection.target'', ''{"id": 2, "word": "TWO"}'')', '(inserted,two)'),
    ('unique_insert_of_a_duplicate', 'SELECT outcome, row_data OPERATOR(pg_catalog.->>) ''id'' FROM '
        'idem.unique_insert(''row_injection.target'', ''{"id": 3, "word": "TWO"}'', ''{word}'')', '(duplicate,2)'),
    ('guarded_insert', 'SELECT outcome FROM idem.guarded_insert(''row_injection.target'', ''{"id": 4, "word": "four", '
        '"n": 44, "big": 4}'', ''{n}'')', '(inserted)'),
    ('guarded_insert_of_a_duplicate', 'SELECT outcome, row_data OPERATOR(pg_catalog.->>) ''id'' FROM '
        'idem.guarded_insert(''row_injection.target'', ''{"id": 5, "word": "four", "big": 4}'', ''{word,big}'')',
        '(duplicate,4)'),
    ('plain_update_of_a_guarded_table', 'UPDATE row_injection.target SET n = 9 WHERE id OPERATOR(pg_catalog.=) 2 RETURNING version', '(2)'),
    ('disable', 'SELECT idem.optimistic_disable(''row_injection.target'')', '("")'),
    ('path_names_the_target', 'SELECT outcome FROM idem.pessimistic_lock(''target'', ''{"id": 1}'')', 'there is no unique index%');
SELECT ok(result LIKE expected OR expected LIKE 'there is no%' AND result !~ 'locked|trapped',
    format('%s under_a_hostile_search_path: %s', name, result)) FROM (SELECT a.*, pg_temp.under_attack(statement) AS result
    FROM under_attack a ORDER BY n) a;
SELECT ok(pg_temp.canary_sings() AND (SELECT count(*) = 0 FROM row_injection_hostile.target), 'canary_at_the_end');

-- Triggers see the caller's search_path: the functions do not change it.
CREATE FUNCTION row_injection.path() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN NEW.song := current_setting('search_path'); RETURN NEW; END $$;
CREATE TRIGGER path BEFORE INSERT OR UPDATE ON row_injection.canary FOR EACH ROW EXECUTE FUNCTION row_injection.path();
CREATE INDEX ON row_injection.canary (song);
SET search_path = row_injection, idem, tap;
SELECT is(
    (SELECT string_agg(DISTINCT row_data ->> 'song', '; ')
        FROM unnest(ARRAY['conditional_update(''canary'', ''{"id": 1}'', ''{"id": 1}'', ''{"id": 1}'')',
        'unique_insert(''canary'', ''{"id": 2}'')',
        'guarded_insert(''canary'', ''{"id": 3, "song": "x"}'', ''{song}'')']) AS call,
            jsonb_to_record(pg_temp.answer('SELECT * FROM ' || call)) AS answer (outcome text, row_data jsonb)),
    'row_injection, idem, tap', 'triggers_see_the_callers_path');
RESET search_path;

DROP SCHEMA row_injection, row_injection_hostile CASCADE;
SELECT * FROM finish();
