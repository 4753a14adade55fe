-- The row flows on tables of every kind: odd names, types, keys, columns, and tables that change between two calls of a session.
\ir ../include/row_flows.psql
SELECT plan(139);
DROP SCHEMA IF EXISTS row_odd, row_odd_names, "row_odd ""2""; --" CASCADE;
DROP FOREIGN DATA WRAPPER IF EXISTS row_odd CASCADE;
DROP SERVER IF EXISTS row_odd_files CASCADE;
CREATE SCHEMA row_odd;

-- What is no table. %s is the target.
CREATE TEMP TABLE flow (name text, call text);
INSERT INTO flow VALUES
    ('enable',      'optimistic_enable(%s)'),
    ('disable',     'optimistic_disable(%s)'),
    ('optimistic',  'optimistic_update(%s, ''{"id": 1}'', 1, ''{}'')'),
    ('conditional', 'conditional_update(%s, ''{"id": 1}'', ''{"id": 1}'', ''{"id": 1}'')'),
    ('adjust',      'conditional_adjust(%s, ''{"id": 1}'', ''id'', 0)'),
    ('lock',        'pessimistic_lock(%s, ''{"id": 1}'')'),
    ('lock_many',   'pessimistic_lock_many(%s, ARRAY[''{"id": 1}'']::jsonb[])'),
    ('unique',      'unique_insert(%s, ''{"id": 1}'')'),
    ('guarded',     'guarded_insert(%s, ''{"id": 1}'', ''{id}'')');
CREATE FUNCTION pg_temp.others(target text, expected text, names text = '.') RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', name, state), '; ')
      FROM flow, pg_temp.state_of('SELECT * FROM idem.' || format(call, target)) AS state
     WHERE state !~ format('^(%s)$', expected) AND name ~ names
$$;
CREATE TABLE row_odd.plain (id int PRIMARY KEY, word text);
CREATE VIEW row_odd.view AS SELECT * FROM row_odd.plain;
CREATE MATERIALIZED VIEW row_odd.matview AS SELECT * FROM row_odd.plain;
CREATE UNIQUE INDEX ON row_odd.matview (id);
CREATE SEQUENCE row_odd.sequence;
CREATE TYPE row_odd.composite AS (id int);
CREATE FOREIGN DATA WRAPPER row_odd;
CREATE SERVER row_odd FOREIGN DATA WRAPPER row_odd;
CREATE FOREIGN TABLE row_odd.foreign (id int) SERVER row_odd;
CREATE TABLE row_odd.parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
SELECT is(pg_temp.others(quote_literal('row_odd.' || name), '42809'), NULL, name || '_is_no_table')
  FROM unnest('{view,matview,sequence,composite,foreign,plain_pkey,parted_pkey}'::text[]) AS name;
SELECT is(pg_temp.others(quote_literal((SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'row_odd.plain'::regclass)),
    '42809'), NULL, 'toast_is_no_table');
DROP FOREIGN DATA WRAPPER row_odd CASCADE;
CREATE TABLE row_odd.dropped (id int PRIMARY KEY);
SELECT 'row_odd.dropped'::regclass::oid AS gone \gset
SELECT is(pg_temp.others(format('%s::regclass', :gone), 'ok', 'lock|unique'), NULL, 'table_by_its_oid');
DROP TABLE row_odd.dropped;
SELECT is(pg_temp.others(format('%s::regclass', :gone), '42P01'), NULL, 'dropped_table');
SELECT is(pg_temp.others('0::regclass', '42P01') || pg_temp.others('4294967295::regclass', '42P01'), NULL, 'oids_of_no_table');
SELECT is(pg_temp.others('''row_odd.missing''', '42P01'), NULL, 'unknown_table');
SELECT is(pg_temp.others('NULL', '22004'), NULL, 'null_table');

-- Names. Each is a table's, its key's, a changed column's and a version's.
CREATE FUNCTION pg_temp.with_name(name text, schema text = 'row_odd') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    target regclass;
    answers text[];
    one text;
BEGIN
    EXECUTE format('CREATE TABLE %I.%2$I (%2$I int PRIMARY KEY, n int NOT NULL DEFAULT 0)', schema, name);
    target := format('%I.%I', schema, name)::regclass;
    SELECT concat_ws(' ', outcome, row_data -> name, row_data -> 'n') INTO one FROM unique_insert(target, jsonb_build_object(name, 1));
    answers := answers || one;
    SELECT concat_ws(' ', outcome, row_data -> name, row_data -> 'n') INTO one FROM unique_insert(target,
        jsonb_build_object(name, 1, 'n', 9), ARRAY[name]);
    answers := answers || one;
    SELECT concat_ws(' ', outcome, row_data -> name, row_data -> 'n') INTO one FROM guarded_insert(target,
        jsonb_build_object(name, 2, 'n', 5), ARRAY[name]);
    answers := answers || one;
    SELECT concat_ws(' ', outcome, row_data -> name, row_data -> 'n') INTO one
      FROM conditional_update(target, jsonb_build_object(name, 1), jsonb_build_object(name, 1, 'n', 0), jsonb_build_object(name, 3));
    answers := answers || one;
    SELECT concat_ws(' ', outcome, value) INTO one FROM conditional_adjust(target, jsonb_build_object(name, 3), name, 1);
    answers := answers || one;
    SELECT concat_ws(' ', outcome, row_data -> name) INTO one FROM pessimistic_lock(target, jsonb_build_object(name, 4));
    answers := answers || one;
    SELECT string_agg(concat_ws(' ', outcome, row_data -> name), ' ') INTO one FROM pessimistic_lock_many(target,
        ARRAY[jsonb_build_object(name, 4), jsonb_build_object(name, 2)], '0');
    answers := answers || one;
    PERFORM optimistic_enable(target, 'own version');
    SELECT concat_ws(' ', outcome, version, row_data -> name) INTO one FROM optimistic_update(target, jsonb_build_object(name,
        4), 1, jsonb_build_object(name, 6));
    answers := answers || one;
    PERFORM optimistic_disable(target);
    EXECUTE format('DROP TABLE %s', target);
    EXECUTE format('CREATE TABLE %I.%2$I ("%%" int PRIMARY KEY)', schema, name);
    target := format('%I.%I', schema, name)::regclass;
    PERFORM optimistic_enable(target, name);
    EXECUTE format('INSERT INTO %s VALUES (1)', target);
    EXECUTE format('UPDATE %s SET %I = %2$I + 1', target, name);
    SELECT concat_ws(' ', outcome, version, row_data -> name) INTO one FROM optimistic_update(target, '{"%": 1}', 2, '{"%": 1}');
    answers := answers || one;
    EXECUTE format('DROP TABLE %s', target);
    RETURN array_to_string(answers, ', ');
EXCEPTION WHEN OTHERS THEN
    RETURN format('%s: %s %s', array_to_string(answers, ', '), SQLSTATE, SQLERRM);
END $$;
SELECT is(pg_temp.with_name(name), 'inserted 1 0, duplicate 1 0, inserted 2 5, updated 3 0, adjusted 4, locked 4, '
    'locked 4 locked 2, updated 2 6, updated 3 3', 'name: ' || translate(name, E'\n', '~'))
  FROM unnest(ARRAY['t', 'new_row', '$1', '$key$', '1', 'select', 'SELECT', 'user', 'excluded', 'old', 'new', 'key', 'target',
      'outcome', 'row_data', 'value', 'oid', 'null', 'a b', ' ', 'a"b', '"', '""', 'a''b', 'a\b', '\', '%s %I %', 'a.b', '--',
      '/*', ';',
                    E'line\nbreak', 'zażółć gęślą jaźń', 'プレイヤー', repeat('ż', 31) || 'x', repeat('x', 63),
                    '{"json": "name"}',
                        '{a,b}', 'NULL']) AS name;
CREATE SCHEMA "row_odd ""2""; --";
SELECT is(pg_temp.with_name('odd "table', 'row_odd "2"; --'), pg_temp.with_name('plain_name'), 'schema_with_an_odd_name');

-- Keys.
CREATE DOMAIN row_odd.code AS varchar(4) CHECK (VALUE = upper(VALUE)) NOT NULL;
CREATE TYPE row_odd.mood AS ENUM ('sad', 'glad', 'so "so"');
CREATE TABLE row_odd.keys (code row_odd.code, mood row_odd.mood, day date, amount numeric(6,2), n int, PRIMARY KEY (code, mood,
    day, amount));
INSERT INTO row_odd.keys VALUES ('AB', 'so "so"', '2024-02-29', 1.50, 0);
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_adjust('row_odd.keys',
    '{"amount": 1.5, "mood": "so \"so\"", "day": "2024-02-29", "code": "AB"}', 'n', 5) $$),
    '{"outcome": "adjusted", "value": 5}', 'key_of_four_columns');
SELECT is(
    (SELECT string_agg(format('%s: %s', key, state), '; ')
       FROM (VALUES ('{"amount": 1.5, "mood": "mad", "day": "2024-02-29", "code": "AB"}', '22P02'),
           ('{"amount": 1.5, "mood": "sad", "day": "2023-02-29", "code": "AB"}', '22008'),
                    ('{"amount": 1.5, "mood": "sad", "day": "2024-02-29", "code": "ab"}', '23514'),
                        ('{"amount": 1.5, "mood": "sad", "day": "2024-02-29", "code": "ABCDE"}', '22001'),
                    ('{"amount": 12345, "mood": "sad", "day": "2024-02-29", "code": "AB"}', '22003'),
                        ('{"mood": "sad", "day": "2024-02-29", "code": "AB"}', '42P10'),
                    ('{"amount": null, "mood": "sad", "day": "2024-02-29", "code": "AB"}', '22004'),
                        ('{"amount": 1.5, "mood": "sad", "day": "2024-02-29", "code": "AB", "n": 5}', '42P10')) AS bad (key,
                        code),
            pg_temp.state_of(format('SELECT pessimistic_lock(''row_odd.keys'', %L)', key)) AS state
      WHERE state <> code),
    NULL, 'values_that_a_key_cannot_have');
CREATE TABLE row_odd.typed_keys (b bool, by bytea, u uuid, ip inet, ts timestamptz, tz timetz, iv interval, f8 float8,
    c char(3), ch "char", n name, o oid, j jsonb, arr int[], r int4range, m money, bi bit(3), v varbit, mac macaddr, l pg_lsn,
    lt text, id int);
INSERT INTO row_odd.typed_keys VALUES (true, '\x00ff', '6f9619ff-8b86-d011-b42d-00c04fc964ff', '10.1.2.3/8',
    '2024-01-01 00:00+00', '12:00+01', '1 day', 'Infinity', 'ab', 'x', 'nm', 4294967295, '{"a": [1, null]}', '{1,NULL}',
    '[1,3)', 1.5,
    B'101', B'1', '08:00:2b:01:02:03', '0/16B3748', '', 1);
SELECT format('ALTER TABLE row_odd.typed_keys ALTER %1$I SET NOT NULL, ADD UNIQUE (%1$I)', attname) FROM pg_attribute
    WHERE attrelid = 'row_odd.typed_keys'::regclass AND attnum > 0 AND attname <> 'id' \gexec
SELECT is(
    (SELECT string_agg(format('%s: %s', a.attname, answer), '; ')
       FROM row_odd.typed_keys t, pg_attribute a,
            pg_temp.answer(format('SELECT outcome, row_data -> ''id'' AS id FROM pessimistic_lock(''row_odd.typed_keys'', %L)',
                jsonb_build_object(a.attname, to_jsonb(t) -> a.attname))) AS answer
      WHERE a.attrelid = 'row_odd.typed_keys'::regclass AND a.attnum > 0 AND a.attname <> 'id'
          AND answer <> '{"outcome": "locked", "id": 1}'),
    NULL, 'keys_of_many_types_by_what_row_data_shows');
SELECT is(
    (SELECT string_agg(format('%s: %s', key, answer), '; ')
       FROM unnest(ARRAY['{"b": "yes"}', '{"by": "\\x00FF"}', '{"iv": "24:00"}', '{"f8": "inf"}', '{"c": "ab "}',
           '{"j": {"a": [1.0, null]}}', '{"arr": "{1,NULL}"}', '{"r": "(0,2]"}', '{"ts": "2024-01-01 05:00+05"}', '{"m": 1.5}',
           '{"o": "4294967295"}']) AS key,
            pg_temp.answer(format('SELECT outcome FROM pessimistic_lock(''row_odd.typed_keys'', %L)', key)) AS answer
      WHERE answer <> '{"outcome": "locked"}'),
    NULL, 'and_in_other_spellings');

-- Domains over types whose bare SQL name is one character, or one bit, long.
CREATE DOMAIN row_odd.padded AS char(5);
CREATE DOMAIN row_odd.padded_list AS char(5)[];
CREATE DOMAIN row_odd.bits AS bit(4);
CREATE TABLE row_odd.fixed (id row_odd.padded PRIMARY KEY, flags row_odd.bits NOT NULL UNIQUE, list row_odd.padded_list, note text);
INSERT INTO row_odd.fixed VALUES ('abc', '1000', '{abc}'), ('axx', '1111', '{axx}');
SELECT is(pg_temp.answer($$ SELECT outcome FROM conditional_update('row_odd.fixed', '{"id": "abc"}', '{"flags": "1000"}', '{"note": "by id"}') $$)
    || pg_temp.answer($$ SELECT row_data -> 'flags' AS flags FROM pessimistic_lock('row_odd.fixed', '{"flags": "1111"}') $$),
    '{"outcome": "updated", "flags": "1111"}', 'key_of_a_domain_over_char_or_bit');
SELECT is((SELECT string_agg(id || coalesce(note, '-'), ',' ORDER BY id) FROM row_odd.fixed), 'abcby id,axx-', 'finds_one_row');
SELECT is(
    (SELECT string_agg(answer ->> 'outcome', ' ' ORDER BY n) FROM unnest(ARRAY['{"id": "abd"}', '{"flags": "1001"}', '{"list": ["abd"]}',
        '{"id": "abc", "flags": "1000", "list": ["abc"]}']) WITH ORDINALITY AS e (expected, n),
        pg_temp.answer(format('SELECT outcome FROM conditional_update(''row_odd.fixed'', ''{"id": "abc"}'', %L, ''{"note": "x"}'')', expected)) AS answer),
    'conflict conflict conflict updated', 'expected_value_of_such_a_domain_is_compared_in_full');

-- Values: the oracle is jsonb_populate_record on a row without values.
CREATE TYPE row_odd.address AS (street text, number int, tags text[]);
CREATE DOMAIN row_odd.percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN row_odd.required AS text NOT NULL DEFAULT 'x' CHECK (VALUE <> 'bad');
CREATE DOMAIN row_odd.list AS int[] CHECK (cardinality(VALUE) < 3);
CREATE DOMAIN row_odd.checked_address AS row_odd.address CHECK ((VALUE).number > 0);
CREATE TABLE row_odd.types (id int PRIMARY KEY, si smallint, i int, b bigint, n numeric, n62 numeric(6,2), f4 real, f8 float8,
    t text, v3 varchar(3), c3 char(3), bo bool, by bytea, u uuid, d date, ti time(0), ts timestamp(0), tz timestamptz,
    iv interval,
    ip inet, j json, jb jsonb, e row_odd.mood, a row_odd.address, aa row_odd.address[], ia int[], ta text[], va varchar(2)[],
        ja jsonb[], p row_odd.percent, l row_odd.list, ca row_odd.checked_address, r int4range, bi bit(3), pt point, x xml,
        rc regclass, nm name);
ALTER TABLE row_odd.types ADD gone int, ADD req row_odd.required NOT NULL DEFAULT 'x';
ALTER TABLE row_odd.types DROP gone;
INSERT INTO row_odd.types (id) VALUES (0), (1);
CREATE TEMP TABLE sample (n int GENERATED ALWAYS AS IDENTITY, value jsonb);
INSERT INTO sample (value) SELECT v::jsonb FROM unnest(ARRAY['null', 'true', 'false', '0', '1', '-1', '1.5', '1.005', '1e3',
    '99.995', '32768', '3000000000', '9007199254740993', '12345678901234567890.12345678901234567890', '1e400',
    '""', '" "', '"x"', '"abc"', '"abcd"', '"ab   "', '"1"', '" 1 "', '"1.5"', '"NaN"', '"Infinity"', '"true"', '"t"',
        '"null"', '"NULL"', '"{}"', '"{1,2}"', '"{1,2,3}"', '"{a,\"b c\",NULL}"', '"[1,5)"', '"(1,2)"', '"(a,1,{x})"', '"101"',
    '"\\x00ff"', '"\\"', '"a\"b''c"', '"glad"', '"so \"so\""', '"bad"', '"2024-02-29"', '"2023-02-29"',
        '"2024-02-29 12:34:56.789+01"', '"12:34:56.7"', '"1 day 2 hours"', '"now"', '"6F9619FF8B86D011B42D00C04FC964FF"',
        '"10.0.0.1/8"', '"pg_class"',
    '"<a>x</a>"', '"{\"a\": 1}"', '[]', '[1, 2]', '[1, 2, 3]', '[null]', '["a", "b c", null, "x\"y", "\\"]', '["abc"]',
        '[[1, 2], [3, 4]]', '[[1], [2, 3]]', '[1.5]', '[true]', '[{"street": "s", "number": "7"}, null]', '{}', '{"a": 1}',
    '{"street": "s"}', '{"street": "s", "number": 7, "tags": ["a", null]}', '{"number": -1}', '{"number": "x"}',
        '{"street": {"deep": [1]}, "number": null, "other": 1}', '{"tags": "{a,b}"}']) AS v;
CREATE FUNCTION pg_temp.differences(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one record;
    wanted text;
    found text;
    found_many text[];
BEGIN
    FOR one IN SELECT value, jsonb_build_object(name, value) AS changes FROM sample ORDER BY n LOOP
        BEGIN
            SELECT coalesce((to_jsonb(jsonb_populate_record(empty, one.changes)) -> name)::text, 'none') INTO wanted
                FROM row_odd.types AS empty WHERE id = 0;
        EXCEPTION WHEN OTHERS THEN
            wanted := SQLSTATE;
        END;
        BEGIN
            SELECT coalesce((row_data -> name)::text, 'none') INTO found FROM conditional_update('row_odd.types', '{"id": 1}',
                '{"id": 1}', one.changes);
        EXCEPTION WHEN OTHERS THEN
            found := SQLSTATE;
        END;
        IF found IS DISTINCT FROM wanted THEN found_many := found_many || format('%s: %s, not %s', one.value, found, wanted); END IF;
        IF one.value = '"now"' THEN CONTINUE; END IF;
        BEGIN
            SELECT coalesce((row_data -> name)::text, 'none') INTO found FROM unique_insert('row_odd.types',
                jsonb_build_object('id', 7) || one.changes);
            RAISE EXCEPTION 'undo' USING ERRCODE = 'UNDON';
        EXCEPTION WHEN OTHERS THEN
            IF SQLSTATE <> 'UNDON' THEN found := SQLSTATE; END IF;
        END;
        IF found IS DISTINCT FROM wanted THEN found_many := found_many || format('inserted %s: %s, not %s', one.value, found,
            wanted); END IF;
    END LOOP;
    RETURN array_to_string(found_many, '; ');
END $$;
SELECT is(
    (SELECT string_agg(format(E'\n%s: %s', attname, differences), '' ORDER BY attnum)
       FROM pg_attribute, pg_temp.differences(attname) WHERE attrelid = 'row_odd.types'::regclass AND attnum > 1
           AND NOT attisdropped AND differences IS NOT NULL),
    NULL, 'values_are_converted_as_by_jsonb_populate_record');

-- Comparisons: the oracle is IS NOT DISTINCT FROM between rows that hold the values.
CREATE FUNCTION pg_temp.differences_of_comparison(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one record;
    other record;
    wanted text;
    found text;
    found_many text[];
BEGIN
    CREATE TEMP TABLE fitting AS SELECT n, jsonb_build_object(name, value) AS object FROM sample WHERE false;
    FOR one IN SELECT n, jsonb_build_object(name, value) AS object FROM sample WHERE value <> '"now"' ORDER BY n % 5, n LOOP
        EXIT WHEN (SELECT count(*) FROM fitting) = 15;
        BEGIN
            PERFORM jsonb_populate_record(empty, one.object) FROM row_odd.types AS empty WHERE id = 0;
            INSERT INTO fitting VALUES (one.n, one.object);
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END LOOP;
    FOR one IN SELECT object FROM fitting ORDER BY n LOOP
        PERFORM conditional_update('row_odd.types', '{"id": 1}', '{"id": 1}', one.object);
        FOR other IN SELECT object FROM fitting ORDER BY n LOOP
            BEGIN
                EXECUTE format('SELECT CASE WHEN t.%1$I IS NOT DISTINCT FROM (jsonb_populate_record(empty, $1)).%1$I '
                               'THEN ''updated'' ELSE ''conflict'' END '
                               'FROM row_odd.types AS t, row_odd.types AS empty WHERE t.id = 1 AND empty.id = 0', name)
                   INTO wanted USING other.object;
            EXCEPTION WHEN OTHERS THEN
                wanted := SQLSTATE;
            END;
            BEGIN
                SELECT outcome INTO found FROM conditional_update('row_odd.types', '{"id": 1}', other.object, '{"id": 1}');
            EXCEPTION WHEN OTHERS THEN
                found := SQLSTATE;
            END;
            IF found IS DISTINCT FROM wanted THEN
                found_many := found_many || format('%s and %s: %s, not %s', one.object, other.object, found, wanted);
            END IF;
        END LOOP;
    END LOOP;
    DROP TABLE fitting;
    RETURN array_to_string(found_many, '; ');
END $$;
SELECT is(
    (SELECT string_agg(format(E'\n%s: %s', attname, differences), '' ORDER BY attnum)
       FROM pg_attribute, pg_temp.differences_of_comparison(attname) AS differences
      WHERE attrelid = 'row_odd.types'::regclass AND attnum > 1 AND NOT attisdropped AND differences IS NOT NULL),
    NULL, 'values_are_compared_as_by_is_not_distinct_from');

-- row_data is what to_jsonb makes of the row, whatever the settings.
CREATE TABLE row_odd.special (id int PRIMARY KEY, f4 real, f8 float8, n numeric, ts timestamp, tz timestamptz, d date,
    iv interval, by bytea, m money, t time, ttz timetz, x xml, j json, jb jsonb, a row_odd.address, aa row_odd.address[],
    f8s float8[], tzs timestamptz[], ch char(5), o oid, rc regclass, r tstzrange, e row_odd.mood,
    p row_odd.percent, nm name, ja json[]);
INSERT INTO row_odd.special VALUES
    (1, 'NaN', '-Infinity', 'NaN', 'infinity', '-infinity', 'infinity', '-1 mon 3 days -04:05:06.789', '\x00ff5c', -1.5,
        '24:00', '12:00+05:30', '<a/>', '{"a": 1, "a": [ 2 ] }', 'null', ('s"', NULL, '{}'),
        ARRAY[NULL, ('', 1, '{NULL,"x y"}')::row_odd.address],
     '{NaN,Infinity,-0}', '{infinity,2024-02-29 12:34:56.789+05:30}', 'ab', 4294967295, 'row_odd.special', '[2024-01-01,)',
         'so "so"', 7, 'name', ARRAY['{"b": 1.0}', '"x"']::json[]),
    (2, 0.1, 0.1::float8 + 0.2, 1e300, '0044-03-15 BC', '2024-03-31 02:30:00.000001+01', '4713-01-01 BC', '0', '', 0, '00:00',
        '00:00-15', '', '  []  ', '{"deep": {"a": [1.10, "\u00e9"]}}', NULL, '{}', '{}', '{}', '', 0, 0, 'empty', 'sad', 0, '',
        '{}'),
    (3, 1e-45, 5e-324, -0.00000000000000000001000, 'now', 'now', 'today', '178000000 years', repeat('\', 100)::bytea,
        92233720368547758.07, '23:59:59.999999', '12:00+00', '<?xml version="1.0"?><x>é</x>', '"\ud83d\ude00"', '"\u20ac"',
        (repeat('x', 5000), -1, '{a}'), NULL, NULL, NULL, 'żółć', 1, 'pg_class', '(,)', 'glad', 100,
     repeat('n', 63), NULL);
CREATE FUNCTION pg_temp.unlike() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s.%s: %s, not %s', s.id, key, left(row_data ->> key, 100), left(value #>> '{}', 100)), '; ')
      FROM row_odd.special s, pessimistic_lock('row_odd.special', jsonb_build_object('id', s.id)), jsonb_each(to_jsonb(s))
          WHERE (row_data -> key)::text IS DISTINCT FROM value::text
$$;
SELECT is(pg_temp.unlike(), NULL, 'row_data_is_as_to_jsonb_makes_it');
SET TimeZone = 'Asia/Kathmandu';
SET DateStyle = 'German, DMY';
SET IntervalStyle = iso_8601;
SET extra_float_digits = -3;
SET bytea_output = escape;
SELECT is(pg_temp.unlike(), NULL, 'under_other_settings_too');
RESET TimeZone;
RESET DateStyle;
RESET IntervalStyle;
RESET extra_float_digits;
RESET bytea_output;

-- Columns: generated, identity, dropped; the columns that a row does not show are not there.
CREATE TABLE row_odd.columns (gone1 int, id int GENERATED BY DEFAULT AS IDENTITY (START 10) PRIMARY KEY, gone2 text, a int,
    twice int GENERATED ALWAYS AS (a * 2) STORED, gone3 int, counted int GENERATED ALWAYS AS IDENTITY UNIQUE,
    b text DEFAULT 'b');
ALTER TABLE row_odd.columns DROP gone1, DROP gone2, DROP gone3;
SELECT is(pg_temp.answer($$ SELECT * FROM unique_insert('row_odd.columns', '{"id": 1, "a": 5}') $$),
    '{"outcome": "inserted", "row_data": {"id": 1, "a": 5, "twice": 10, "counted": 1, "b": "b"}}',
    'dropped_generated_and_identity_columns');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_update('row_odd.columns', '{"counted": 1}',
    '{"twice": 10, "counted": 1}', '{"a": 6, "id": 2}') $$),
    '{"outcome": "updated", "row_data": {"id": 2, "a": 6, "twice": 12, "counted": 1, "b": "b"}}', 'key_that_is_an_identity_column');
SELECT is(pg_temp.surprises(ARRAY[
    ['conditional_update(''row_odd.columns'', ''{"id": 2}'', ''{"a": 6}'', ''{"twice": 1}'')', '428C9'],
        ['conditional_update(''row_odd.columns'', ''{"id": 2}'', ''{"a": 6}'', ''{"counted": 2}'')', '428C9'],
    ['conditional_update(''row_odd.columns'', ''{"id": 2}'', ''{"a": 6}'', ''{"gone1": 1}'')', '42703'],
    ['conditional_update(''row_odd.columns'', ''{"id": 2}'', ''{"a": 6}'', ''{"........pg.dropped.1........": 1}'')', '42703'],
    ['pessimistic_lock(''row_odd.columns'', ''{"........pg.dropped.1........": 1}'')', '42703'],
        ['unique_insert(''row_odd.columns'', ''{"id": 2, "counted": 7}'')', '428C9'],
    ['unique_insert(''row_odd.columns'', ''{"id": 2, "twice": null}'')', '428C9'],
        ['unique_insert(''row_odd.columns'', ''{"a": 1}'')', '22023']]), NULL, 'columns_that_cannot_be_given');
SELECT format('CREATE TABLE row_odd.wide (id int PRIMARY KEY, %s)', string_agg(format('c%s int', n), ', '))
    FROM generate_series(1, 700) n \gexec
SELECT is((SELECT outcome || ' ' || (SELECT sum(value::int) FROM jsonb_each_text(row_data)) FROM unique_insert('row_odd.wide',
    (SELECT jsonb_object_agg('c' || n, n) || '{"id": 1}' FROM generate_series(1, 700) n))), 'inserted 245351',
    'seven_hundred_columns');
SELECT is((SELECT outcome || ' ' || (SELECT sum(value::int) FROM jsonb_each_text(row_data))
    FROM conditional_update('row_odd.wide', '{"id": 1}', (SELECT jsonb_object_agg('c' || n, n) FROM generate_series(1, 700) n),
    (SELECT jsonb_object_agg('c' || n, 1) FROM generate_series(1, 700) n))), 'updated 701', 'and_all_of_them_changed');

-- Indexes: which are keys.
CREATE TABLE row_odd.indexed (pk int PRIMARY KEY, deferred int NOT NULL UNIQUE DEFERRABLE, partial int NOT NULL,
    expr int NOT NULL, plain int NOT NULL, nullable int UNIQUE, incl int NOT NULL, extra int NOT NULL, excl int NOT NULL,
    two int NOT NULL, three int NOT NULL, invalid int NOT NULL,
    half int, UNIQUE (incl) INCLUDE (extra), UNIQUE (two, three), EXCLUDE USING btree (excl WITH =), UNIQUE (two, half));
CREATE UNIQUE INDEX ON row_odd.indexed (partial) WHERE partial > 0;
CREATE UNIQUE INDEX ON row_odd.indexed (abs(expr));
CREATE INDEX ON row_odd.indexed (plain);
CREATE UNIQUE INDEX invalid ON row_odd.indexed (invalid);
INSERT INTO row_odd.indexed VALUES (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
BEGIN;
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'row_odd.invalid'::regclass;
SELECT is(
    (SELECT string_agg(format('%s: %s', key, state), '; ')
       FROM unnest(ARRAY['{"deferred": 1}', '{"partial": 1}', '{"expr": 1}', '{"plain": 1}', '{"nullable": 1}', '{"excl": 1}',
           '{"invalid": 1}', '{"extra": 1}', '{"incl": 1, "extra": 1}', '{"two": 1}', '{"three": 1}', '{"two": 1, "half": 1}',
           '{"pk": 1, "incl": 1}',
                         '{"pk": 1, "two": 1, "three": 1}', '{}']) AS key,
                             pg_temp.state_of(format('SELECT pessimistic_lock(''row_odd.indexed'', %L)', key)) AS state
      WHERE state <> '42P10'),
    NULL, 'indexes_that_are_no_keys');
SELECT ok(state = '42P10' AND hint ~ '\mpk\M' AND hint ~ '\mincl\M' AND hint ~ '\mtwo\M.*\mthree\M'
    AND hint !~ '\m(deferred|partial|expr|plain|nullable|excl|invalid|extra|half)\M', format('hint_names_those_that_are: %s',
    hint))
  FROM pg_temp.error_of($$ SELECT pessimistic_lock('row_odd.indexed', '{"plain": 1}') $$);
ROLLBACK;
SELECT is(
    (SELECT string_agg(format('%s: %s', key, answer), '; ')
       FROM unnest(ARRAY['{"pk": 1}', '{"incl": 1}', '{"two": 1, "three": 1}', '{"three": 1, "two": 1}', '{"invalid": 1}']) AS key,
            pg_temp.answer(format('SELECT outcome, row_data -> ''pk'' AS pk FROM pessimistic_lock(''row_odd.indexed'', %L)', key)) AS answer
      WHERE answer <> '{"outcome": "locked", "pk": 1}'),
    NULL, 'indexes_that_are_keys');
CREATE TABLE row_odd.bare (a int NOT NULL);
SELECT ok(state = '42P10' AND message ~ '^[a-z"].*[^.]$', format('table_without_any_key: %s | %s', message, hint))
    FROM pg_temp.error_of($$ SELECT pessimistic_lock('row_odd.bare', '{"a": 1}') $$);
CREATE TABLE row_odd.quoted ("a ""b" int NOT NULL UNIQUE, b int);
SELECT ok(state = '42P10' AND strpos(hint, '"a ""b"') > 0, format('hint_quotes: %s', hint)) FROM pg_temp.error_of($$
    SELECT pessimistic_lock('row_odd.quoted', '{"b": 1}') $$);

-- Indexes of another collation or operator class: what is equal to the index is the key, so there is one such row at most.
SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i' AND collname = 'und-x-icu') AS icu \gset
\if :icu
CREATE COLLATION row_odd.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
\else
CREATE COLLATION row_odd.any_case FROM "C";
\endif
CREATE TABLE row_odd.collated (word text NOT NULL, other text NOT NULL, pattern text NOT NULL,
    loose text COLLATE row_odd.any_case NOT NULL, n int);
CREATE UNIQUE INDEX ON row_odd.collated (word COLLATE "POSIX");
CREATE UNIQUE INDEX ON row_odd.collated (other COLLATE row_odd.any_case);
CREATE UNIQUE INDEX ON row_odd.collated (pattern text_pattern_ops);
CREATE UNIQUE INDEX ON row_odd.collated (loose COLLATE "C");
INSERT INTO row_odd.collated VALUES ('Ab', 'Ab', 'Ab', 'Ab', 1), ('AB', 'CD', 'AB', 'AB', 2);
SELECT is(
    (SELECT string_agg(format('%s: %s', key, answer), '; ')
       FROM (VALUES ('{"word": "Ab"}', '1'), ('{"word": "AB"}', '2'), ('{"word": "ab"}', '-'), ('{"pattern": "AB"}', '2'),
           ('{"pattern": "ab"}', '-'), ('{"loose": "Ab"}', '1'), ('{"loose": "AB"}', '2'), ('{"loose": "ab"}', '-'),
           ('{"other": "Ab"}', '1'),
                    ('{"other": "AB"}', CASE WHEN :'icu' THEN '1' ELSE '-' END)) AS v (key, expected),
            pg_temp.answer(format('SELECT coalesce(row_data ->> ''n'', ''-'') AS n FROM '
                'pessimistic_lock(''row_odd.collated'', %L)', key)) AS answer
      WHERE answer NOT IN (jsonb_build_object('n', expected), '"42P10"')),
    NULL, 'indexes_of_another_collation_or_operator_class');

-- Keys are looked up by their index, whatever their type.
CREATE TABLE row_odd.large (b bigint NOT NULL UNIQUE, n numeric(10,2) NOT NULL UNIQUE, v varchar(20) NOT NULL UNIQUE,
    c char(20) NOT NULL UNIQUE, t text NOT NULL UNIQUE, code row_odd.percent NOT NULL, u uuid NOT NULL UNIQUE,
    UNIQUE (code, b));
INSERT INTO row_odd.large SELECT n, n, n, n, n, 5, md5(n::text)::uuid FROM generate_series(1, 20000) n;
ANALYZE row_odd.large;
SELECT seq_scan AS before FROM pg_stat_xact_user_tables WHERE relid = 'row_odd.large'::regclass \gset
BEGIN;
SELECT is(
    (SELECT count(*) FROM unnest(ARRAY['{"b": 77}', '{"n": 77}', '{"v": 77}', '{"c": "77"}', '{"t": "77"}',
        '{"code": 5, "b": 77}', jsonb_build_object('u', md5('77'))::text]) AS key,
            pg_temp.answer(format('SELECT outcome, row_data ->> ''b'' AS b FROM pessimistic_lock(''row_odd.large'', %L)', key)) AS answer,
            pg_temp.answer(format('SELECT outcome FROM conditional_update(''row_odd.large'', %L, ''{"b": 77}'', '
                '''{"b": 77}'')', key)) AS updated,
            pg_temp.answer(format('SELECT outcome FROM conditional_adjust(''row_odd.large'', %L, ''b'', 0)', key)) AS adjusted
      WHERE answer = '{"outcome": "locked", "b": "77"}' AND updated = '{"outcome": "updated"}' AND adjusted = '{"outcome": "adjusted"}'),
    7::bigint, 'rows_of_a_large_table');
SELECT is((SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relid = 'row_odd.large'::regclass), :before::bigint,
    'are_not_found_by_reading_it_all');
ROLLBACK;

-- Inheritance, partitions, temporary and unlogged tables.
CREATE TABLE row_odd.parent (id int PRIMARY KEY, a int);
CREATE TABLE row_odd.heir (b int, PRIMARY KEY (id)) INHERITS (row_odd.parent);
INSERT INTO row_odd.heir VALUES (1, 1, 1), (2, 2, 2);
INSERT INTO row_odd.parent VALUES (1, 10);
SELECT optimistic_enable('row_odd.parent');
SELECT is(
    (SELECT string_agg(answer #>> '{outcome}', ' ' ORDER BY n) FROM unnest(ARRAY[
        'conditional_update(''row_odd.parent'', ''{"id": 2}'', ''{"a": 2}'', ''{"a": 3}'')',
            'conditional_update(''row_odd.parent'', ''{"id": 1}'', ''{"a": 10}'', ''{"a": 11}'')',
            'conditional_adjust(''row_odd.parent'', ''{"id": 2}'', ''a'', 1)',
        'optimistic_update(''row_odd.parent'', ''{"id": 2}'', 1, ''{}'')',
            'pessimistic_lock(''row_odd.parent'', ''{"id": 2}'')', 'unique_insert(''row_odd.parent'', ''{"id": 2}'')',
            'guarded_insert(''row_odd.parent'', ''{"id": 1}'', ''{id}'')',
        'conditional_update(''row_odd.heir'', ''{"id": 1}'', ''{"b": 1}'', ''{"a": 7}'')']) WITH ORDINALITY AS c (call, n),
            pg_temp.answer('SELECT * FROM ' || call) AS answer),
    'not_found updated not_found not_found not_found inserted duplicate updated', 'parents_and_heirs');
SELECT results_eq('SELECT tableoid::regclass::text, id, a FROM row_odd.parent ORDER BY 1, 2', $$ VALUES ('row_odd.heir', 1, 7),
    ('row_odd.heir', 2, 2), ('row_odd.parent', 1, 11), ('row_odd.parent', 2, NULL) $$, 'each_its_own_rows');
CREATE TEMP TABLE passing (id int PRIMARY KEY, word text);
CREATE INDEX ON passing (word);
SELECT optimistic_enable('passing');
SELECT is(
    (SELECT string_agg(coalesce(answer ->> 'outcome', answer::text), ' ' ORDER BY n) FROM unnest(ARRAY[
        'unique_insert(''passing'', ''{"id": 1}'')',
            'guarded_insert(''pg_temp.passing'', ''{"id": 2, "word": "x"}'', ''{word}'')',
            'guarded_insert(''passing'', ''{"id": 3, "word": "x"}'', ''{word}'')',
            'optimistic_update(''passing'', ''{"id": 1}'', 1, ''{"word": "y"}'')',
        'conditional_update(''passing'', ''{"id": 1}'', ''{"word": "y"}'', ''{"word": "z"}'')',
            'conditional_adjust(''passing'', ''{"id": 2}'', ''id'', 5)',
            'pessimistic_lock(''passing'', ''{"id": 7}'', ''0'')']) WITH ORDINALITY AS c (call, n),
        pg_temp.answer('SELECT * FROM ' || call) AS answer),
    'inserted inserted duplicate updated updated adjusted locked', 'temporary_table');
CREATE UNLOGGED TABLE row_odd.unlogged (id int PRIMARY KEY);
SELECT is(pg_temp.answer($$ SELECT * FROM unique_insert('row_odd.unlogged', '{"id": 1}') $$) ->> 'outcome', 'inserted', 'unlogged_table');
CREATE TABLE row_odd.parts (id int, region text, n int DEFAULT 0, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
SELECT is(
    (SELECT string_agg(coalesce(answer ->> 'outcome', answer::text), ' ' ORDER BY n) FROM unnest(ARRAY[
        'pessimistic_lock(''row_odd.parts'', ''{"id": 1, "region": "eu"}'')',
            'conditional_adjust(''row_odd.parts'', ''{"id": 1, "region": "eu"}'', ''n'', 1)',
            'unique_insert(''row_odd.parts'', ''{"id": 1, "region": "eu"}'')']) WITH ORDINALITY AS c (call, n),
        pg_temp.answer('SELECT * FROM ' || call) AS answer),
    'not_found not_found "23514"', 'partitioned_table_without_partitions');
CREATE TABLE row_odd.parts_eu PARTITION OF row_odd.parts FOR VALUES IN ('eu') PARTITION BY RANGE (id);
CREATE TABLE row_odd.parts_eu_1 (n int, region text NOT NULL, id int NOT NULL);
ALTER TABLE row_odd.parts_eu ATTACH PARTITION row_odd.parts_eu_1 FOR VALUES FROM (0) TO (10);
CREATE TABLE row_odd.parts_eu_2 PARTITION OF row_odd.parts_eu DEFAULT;
SELECT is(
    (SELECT string_agg(coalesce(answer ->> 'outcome', answer::text), ' ' ORDER BY n) FROM unnest(ARRAY[
        'unique_insert(''row_odd.parts'', ''{"id": 1, "region": "eu"}'')',
            'unique_insert(''row_odd.parts_eu'', ''{"id": 1, "region": "eu"}'')',
            'unique_insert(''row_odd.parts_eu_1'', ''{"id": 1, "region": "eu"}'')',
        'conditional_update(''row_odd.parts'', ''{"id": 1, "region": "eu"}'', ''{"n": 0}'', ''{"id": 100}'')',
            'conditional_adjust(''row_odd.parts_eu'', ''{"id": 100, "region": "eu"}'', ''n'', 1)',
        'pessimistic_lock(''row_odd.parts_eu_2'', ''{"id": 100, "region": "eu"}'')',
            'conditional_update(''row_odd.parts_eu_2'', ''{"id": 100, "region": "eu"}'', ''{"n": 1}'', '
            '''{"id": 1}'')']) WITH ORDINALITY AS c (call, n),
        pg_temp.answer('SELECT * FROM ' || call) AS answer),
    'inserted duplicate duplicate updated adjusted locked "23514"', 'partitions_of_partitions');
ALTER TABLE row_odd.parts_eu DETACH PARTITION row_odd.parts_eu_2;
SELECT is(pg_temp.answer($$ SELECT outcome FROM pessimistic_lock('row_odd.parts', '{"id": 100, "region": "eu"}') $$)
    || pg_temp.answer($$ SELECT outcome AS detached FROM pessimistic_lock('row_odd.parts_eu_2',
    '{"id": 100, "region": "eu"}') $$),
    '{"outcome": "not_found", "detached": "locked"}', 'detached_partition');
CREATE TABLE row_odd.halfway (id int NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE row_odd.halfway_1 PARTITION OF row_odd.halfway FOR VALUES FROM (0) TO (10);
CREATE UNIQUE INDEX ON ONLY row_odd.halfway (id);
SELECT is(pg_temp.state_of($$ SELECT pessimistic_lock('row_odd.halfway', '{"id": 1}') $$), '42P10',
    'index_of_a_partitioned_table_that_is_not_valid_yet');

-- Partitions on another server: what is there can change without this server's locks, so nothing is decided by it.
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'file_fdw') AS foreign_files \gset
\if :foreign_files
CREATE EXTENSION IF NOT EXISTS file_fdw SCHEMA row_odd;
CREATE SERVER row_odd_files FOREIGN DATA WRAPPER file_fdw;
CREATE TABLE row_odd.spread (id int NOT NULL, word text) PARTITION BY RANGE (id);
CREATE TABLE row_odd.spread_here PARTITION OF row_odd.spread FOR VALUES FROM (0) TO (10);
CREATE TABLE row_odd.spread_more PARTITION OF row_odd.spread FOR VALUES FROM (10) TO (100) PARTITION BY RANGE (id);
CREATE INDEX ON row_odd.spread (word);
CREATE FUNCTION pg_temp.spread(target text, word text) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answer(format('SELECT outcome FROM guarded_insert(%L, %L, ''{word}'')', 'row_odd.' || target, jsonb_build_object('id', 1, 'word', word)))
$$;
SELECT is(pg_temp.spread('spread', 'a') ->> 'outcome', 'inserted', 'partitions_of_this_server');
CREATE FOREIGN TABLE row_odd.spread_away PARTITION OF row_odd.spread_more FOR VALUES FROM (20) TO (30) SERVER row_odd_files OPTIONS (filename '/dev/null');
SELECT is(pg_temp.spread('spread', 'b'), '"0A000"', 'partition_of_another_server_that_is_added_further_down');
SELECT is(pg_temp.spread('spread', 'a'), '"0A000"', 'duplicate_in_a_partition_of_this_one');
SELECT is(pg_temp.spread('spread_more', 'b'), '"0A000"', 'the_table_that_it_is_a_partition_of');
SELECT ok(state = '0A000' AND message ~ 'spread_away' AND detail IS NOT NULL, format('says_why: %s: %s', message, detail))
  FROM pg_temp.error_of($$ SELECT guarded_insert('row_odd.spread', '{"id": 1, "word": "b"}', '{word}') $$);
SELECT is(pg_temp.spread('spread_here', 'b') ->> 'outcome', 'inserted', 'partition_that_is_here_itself');
SELECT is((SELECT string_agg(DISTINCT pg_temp.state_of('SELECT * FROM ' || call), ' ')
       FROM unnest(ARRAY['pessimistic_lock(''row_odd.spread'', ''{"id": 1}'')', 'unique_insert(''row_odd.spread'', ''{"id": 1}'', ''{id}'')',
           'conditional_update(''row_odd.spread'', ''{"id": 1}'', ''{"id": 1}'', ''{"id": 1}'')']) AS call), '42P10', 'such_a_table_has_no_key');
CREATE TABLE row_odd.ancestor (id int PRIMARY KEY, word text);
CREATE INDEX ON row_odd.ancestor (word);
CREATE FOREIGN TABLE row_odd.child_away () INHERITS (row_odd.ancestor) SERVER row_odd_files OPTIONS (filename '/dev/null');
SELECT is(pg_temp.spread('ancestor', 'a') ->> 'outcome', 'inserted', 'child_of_another_server_is_not_looked_at');
DROP SERVER row_odd_files CASCADE;
SELECT is(pg_temp.spread('spread', 'b') ->> 'outcome', 'duplicate', 'and_without_it_again');
\else
SELECT skip(9, 'no file_fdw');
\endif

-- Tables that change between the calls of one session.
CREATE TABLE row_odd.live (id int PRIMARY KEY, a int, b text);
INSERT INTO row_odd.live VALUES (1, 1, 'x');
CREATE FUNCTION pg_temp.live(key jsonb = '{"id": 1}', target text = 'row_odd.live') RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    rows jsonb[];
    one jsonb;
    query text;
BEGIN
    FOREACH query IN ARRAY ARRAY['SELECT * FROM pessimistic_lock(%1$L, %2$L)',
        'SELECT * FROM pessimistic_lock_many(%1$L, ARRAY[%2$L]::jsonb[])',
        'SELECT * FROM conditional_update(%1$L, %2$L, %2$L, %2$L)',
                                 'SELECT * FROM unique_insert(%1$L, %2$L, (SELECT array_agg(k)::name[] FROM jsonb_object_keys(%2$L) k))',
                                 'SELECT * FROM guarded_insert(%1$L, %2$L, (SELECT array_agg(k)::name[] FROM '
                                     'jsonb_object_keys(%2$L) k))'] LOOP
        one := pg_temp.answer(format(query, target, key));
        rows := rows || CASE jsonb_typeof(one) WHEN 'object' THEN one -> 'row_data' ELSE one END;
    END LOOP;
    RETURN (SELECT CASE count(DISTINCT r) WHEN 1 THEN min(r::text)::jsonb ELSE jsonb_agg(r) END FROM unnest(rows) r);
END $$;
SELECT format('EXECUTE again(%s)', 'row_odd.live'::regclass::oid) AS again \gset
PREPARE again (regclass) AS SELECT * FROM pessimistic_lock($1, '{"id": 1}');
SELECT is(pg_temp.live(), '{"id": 1, "a": 1, "b": "x"}', 'table_as_it_was_made');
ALTER TABLE row_odd.live ADD c int DEFAULT 7;
SELECT is(pg_temp.live(), '{"id": 1, "a": 1, "b": "x", "c": 7}', 'column_that_is_added');
SELECT is(pg_temp.answer(:'again') -> 'row_data', '{"id": 1, "a": 1, "b": "x", "c": 7}', 'and_in_a_prepared_statement');
ALTER TABLE row_odd.live DROP b;
SELECT is(pg_temp.live(), '{"id": 1, "a": 1, "c": 7}', 'column_that_is_dropped');
ALTER TABLE row_odd.live ADD b jsonb DEFAULT '[]';
SELECT is(pg_temp.live(), '{"id": 1, "a": 1, "c": 7, "b": []}', 'and_added_with_another_type');
ALTER TABLE row_odd.live RENAME a TO d;
SELECT is(pg_temp.live(), '{"id": 1, "d": 1, "c": 7, "b": []}', 'column_that_is_renamed');
SELECT is(pg_temp.surprises(ARRAY[['conditional_update(''row_odd.live'', ''{"id": 1}'', ''{"a": 1}'', ''{"d": 2}'')', '42703'],
    ['conditional_adjust(''row_odd.live'', ''{"id": 1}'', ''a'', 1)', '42703'],
    ['conditional_adjust(''row_odd.live'', ''{"id": 1}'', ''d'', 1)', 'ok']]), NULL, 'has_its_new_name_only');
ALTER TABLE row_odd.live RENAME c TO e;
ALTER TABLE row_odd.live RENAME d TO c;
ALTER TABLE row_odd.live RENAME e TO d;
SELECT is(pg_temp.live(), '{"id": 1, "c": 2, "d": 7, "b": []}', 'columns_that_change_names');
ALTER TABLE row_odd.live ALTER c TYPE text USING 'now ' || c;
SELECT is(pg_temp.live(), '{"id": 1, "c": "now 2", "d": 7, "b": []}', 'column_that_changes_its_type');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_adjust('row_odd.live', '{"id": 1}', 'c', 1) $$), '"42804"',
    'and_is_no_number_any_more');
ALTER TABLE row_odd.live ALTER id TYPE text;
SELECT is(pg_temp.live('{"id": "1"}'), '{"id": "1", "c": "now 2", "d": 7, "b": []}', 'key_that_changes_its_type');
BEGIN;
ALTER TABLE row_odd.live ADD undone int DEFAULT 1;
SELECT is(pg_temp.live() -> 'undone', '1', 'change_of_the_own_transaction');
ROLLBACK;
SELECT is(pg_temp.live(), '{"id": "1", "c": "now 2", "d": 7, "b": []}', 'and_its_rollback');
BEGIN;
SAVEPOINT s;
ALTER TABLE row_odd.live RENAME d TO undone;
SELECT is(pg_temp.live() -> 'undone', '7', 'change_of_a_subtransaction');
ROLLBACK TO s;
SELECT is(pg_temp.live(), '{"id": "1", "c": "now 2", "d": 7, "b": []}', 'and_its_rollback_too');
COMMIT;
ALTER TABLE row_odd.live RENAME TO lively;
SELECT is(pg_temp.live(target => 'row_odd.lively'), '{"id": "1", "c": "now 2", "d": 7, "b": []}', 'table_that_is_renamed');
SELECT is(pg_temp.answer(:'again') #> '{row_data,d}', '7', 'is_the_same_to_a_prepared_statement');
CREATE TABLE row_odd.live (id int PRIMARY KEY, only_here int);
INSERT INTO row_odd.live VALUES (1, 5);
SELECT is(pg_temp.live() || pg_temp.live(target => 'row_odd.lively'),
    '{"id": "1", "only_here": 5, "c": "now 2", "d": 7, "b": []}', 'another_table_takes_its_name');
ALTER SCHEMA row_odd RENAME TO row_odd_renamed;
SELECT is(pg_temp.live(target => 'row_odd_renamed.live') || pg_temp.live(target => 'row_odd_renamed.lively'),
    '{"id": "1", "only_here": 5, "c": "now 2", "d": 7, "b": []}', 'schema_that_is_renamed');
ALTER SCHEMA row_odd_renamed RENAME TO row_odd;
ALTER TABLE row_odd.lively SET SCHEMA "row_odd ""2""; --";
SELECT is(pg_temp.live(target => '"row_odd ""2""; --".lively'), '{"id": "1", "c": "now 2", "d": 7, "b": []}',
    'table_that_moves_to_another_schema');
DROP TABLE "row_odd ""2""; --".lively;
SELECT is(pg_temp.answer(:'again'), '"42P01"', 'dropped_table_in_a_prepared_statement');
DROP TABLE row_odd.live;
CREATE TABLE row_odd.live (a text, id int PRIMARY KEY);
INSERT INTO row_odd.live VALUES ('anew', 1);
SELECT is(pg_temp.live(), '{"id": 1, "a": "anew"}', 'table_that_is_dropped_and_made_anew');
ALTER TABLE row_odd.live DROP CONSTRAINT live_pkey, ALTER id DROP NOT NULL;
SELECT is(pg_temp.live(), '"42P10"', 'key_that_is_dropped');
CREATE UNIQUE INDEX live_a ON row_odd.live (a);
ALTER TABLE row_odd.live ALTER a SET NOT NULL;
SELECT is(pg_temp.live('{"a": "anew"}'), '{"id": 1, "a": "anew"}', 'key_that_is_made');
ALTER TABLE row_odd.live ALTER a DROP NOT NULL;
SELECT is(pg_temp.state_of($$ SELECT pessimistic_lock('row_odd.live', '{"a": "anew"}') $$), '42P10', 'key_that_may_be_null_from_now_on');
ALTER TABLE row_odd.live ALTER a SET NOT NULL, ADD PRIMARY KEY USING INDEX live_a;
SELECT is(pg_temp.live('{"a": "anew"}'), '{"id": 1, "a": "anew"}', 'key_that_becomes_the_primary_key');
TRUNCATE row_odd.live;
SELECT is(pg_temp.answer($$ SELECT * FROM pessimistic_lock('row_odd.live', '{"a": "anew"}') $$) ->> 'outcome', 'not_found',
    'table_that_is_emptied');
ALTER TYPE row_odd.mood ADD VALUE 'new';
SELECT is(pg_temp.answer($$ SELECT row_data -> 'mood' AS mood FROM unique_insert('row_odd.keys',
    '{"amount": 1.5, "mood": "new", "day": "2024-02-29", "code": "AB"}') $$), '{"mood": "new"}', 'enum_that_grows');
SELECT is(pg_temp.answer($$ SELECT row_data -> 'a' AS a FROM conditional_update('row_odd.types', '{"id": 1}', '{"id": 1}',
    '{"a": {"street": "s", "zip": 5}}') $$), '{"a": {"street": "s", "number": null, "tags": null}}', 'composite_type');
ALTER TYPE row_odd.address ADD ATTRIBUTE zip int;
SELECT is(pg_temp.answer($$ SELECT row_data -> 'a' AS a FROM conditional_update('row_odd.types', '{"id": 1}', '{"id": 1}',
    '{"a": {"street": "s", "zip": 5}}') $$), '{"a": {"street": "s", "number": null, "tags": null, "zip": 5}}',
    'that_gets_an_attribute');
ALTER TYPE row_odd.address DROP ATTRIBUTE tags;
ALTER TYPE row_odd.address RENAME ATTRIBUTE zip TO code;
SELECT is(pg_temp.answer($$ SELECT row_data -> 'a' AS a FROM conditional_update('row_odd.types', '{"id": 1}', '{"id": 1}',
    '{"a": {"street": "s", "code": 6, "zip": 5, "tags": []}}') $$), '{"a": {"street": "s", "number": null, "code": 6}}',
    'and_loses_another');
SELECT is(pg_temp.answer($$ SELECT row_data -> 'a' AS a FROM conditional_update('row_odd.types', '{"id": 1}', '{"id": 1}',
    '{"a": {"street": "s", "zip": 5}}') $$), '{"a": {"street": "s", "number": null, "code": null}}',
    'and_the_name_that_it_had');
SELECT is(pg_temp.answer($$ SELECT outcome FROM conditional_update('row_odd.types', '{"id": 1}', '{"id": 1}',
    '{"p": 100}') $$), '{"outcome": "updated"}', 'domain');
UPDATE row_odd.types SET p = NULL;
DROP TABLE row_odd.large, row_odd.special;
ALTER DOMAIN row_odd.percent DROP CONSTRAINT percent_check;
ALTER DOMAIN row_odd.percent ADD CHECK (VALUE < 50);
SELECT is(pg_temp.answer($$ SELECT outcome FROM conditional_update('row_odd.types', '{"id": 1}', '{"id": 1}',
    '{"p": 100}') $$), '"23514"', 'whose_constraint_changes');
DEALLOCATE again;

-- What a statement names, apart from the table and its columns, that changes its name between two calls. The server looks names up when it
-- plans, so plans are discarded between calls. Calls are apart from tests: pgTAP's own changes make sessions forget statements.
CREATE SCHEMA row_odd_names;
CREATE TYPE row_odd.color AS ENUM ('red', 'green');
CREATE DOMAIN row_odd.paint AS row_odd.color;
CREATE DOMAIN row_odd.paints AS row_odd.color[];
CREATE TABLE row_odd.named (id row_odd.paint PRIMARY KEY, all_of row_odd.paints);
INSERT INTO row_odd.named VALUES ('red', '{green}');
CREATE FUNCTION pg_temp.named() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(coalesce(answer ->> 'outcome', answer::text), ' ' ORDER BY n)
      FROM unnest(ARRAY['conditional_update(''row_odd.named'', ''{"id": "red"}'', ''{"all_of": ["green"]}'', ''{"id": "red"}'')',
                        'pessimistic_lock(''row_odd.named'', ''{"id": "red"}'')', 'unique_insert(''row_odd.named'', ''{"id": "red"}'')']) WITH ORDINALITY AS c (call, n),
           pg_temp.answer('SELECT * FROM ' || call) AS answer
$$;
SELECT pg_temp.named() AS answer1 \gset
DISCARD PLANS;
ALTER TYPE row_odd.color RENAME TO colour;
SELECT pg_temp.named() AS answer2 \gset
DISCARD PLANS;
ALTER TYPE row_odd.colour SET SCHEMA row_odd_names;
SELECT pg_temp.named() AS answer3 \gset
DISCARD PLANS;
CREATE TYPE row_odd.colour AS ENUM ('blue');
SELECT pg_temp.named() AS answer4 \gset
DISCARD PLANS;
SELECT is(:'answer1'::text, 'updated locked duplicate', 'domains_over_a_type');
SELECT is(:'answer2'::text, 'updated locked duplicate', 'type_that_is_renamed');
SELECT is(:'answer3'::text, 'updated locked duplicate', 'type_that_moves_to_another_schema');
SELECT is(:'answer4'::text, 'updated locked duplicate', 'another_type_takes_its_name');
CREATE TABLE row_odd.arbiters (id int PRIMARY KEY, code text NOT NULL);
CREATE OPERATOR CLASS row_odd.own_ops FOR TYPE text USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 bttextcmp(text, text);
CREATE UNIQUE INDEX ON row_odd.arbiters (code row_odd.own_ops);
CREATE FUNCTION pg_temp.arbiters(new_id int) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT concat_ws(' ', pg_temp.answer(format('SELECT outcome FROM unique_insert(''row_odd.arbiters'', ''{"id": %s, "code": "%1$s"}'')', new_id)) ->> 'outcome',
        pg_temp.answer(format('SELECT outcome FROM unique_insert(''row_odd.arbiters'', ''{"id": %s, "code": "%s"}'', ''{code}'')', new_id + 100, new_id)) ->> 'outcome')
$$;
SELECT pg_temp.arbiters(1) AS answer5 \gset
DISCARD PLANS;
ALTER OPERATOR CLASS row_odd.own_ops USING btree RENAME TO renamed_ops;
SELECT pg_temp.arbiters(2) AS answer6 \gset
DISCARD PLANS;
ALTER OPERATOR CLASS row_odd.renamed_ops USING btree SET SCHEMA row_odd_names;
SELECT pg_temp.arbiters(3) AS answer7 \gset
DISCARD PLANS;
ALTER INDEX row_odd.arbiters_pkey RENAME TO arbiters_key;
SELECT pg_temp.arbiters(4) AS answer8 \gset
DISCARD PLANS;
ALTER TABLE row_odd.arbiters RENAME CONSTRAINT arbiters_key TO arbiters_id;
SELECT pg_temp.arbiters(5) AS answer9 \gset
DISCARD PLANS;
SELECT is(:'answer5'::text, 'inserted duplicate', 'operator_class_of_an_index');
SELECT is(:'answer6'::text, 'inserted duplicate', 'that_is_renamed');
SELECT is(:'answer7'::text, 'inserted duplicate', 'or_moves_to_another_schema');
SELECT is(:'answer8'::text, 'inserted duplicate', 'index_of_a_constraint_that_is_renamed');
SELECT is(:'answer9'::text, 'inserted duplicate', 'constraint_that_is_renamed');

-- What a column's value is computed by, and changes between two calls.
CREATE FUNCTION row_odd.folded(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE TABLE row_odd.generated (id int GENERATED ALWAYS AS IDENTITY, a text, code text GENERATED ALWAYS AS (row_odd.folded(a)) STORED UNIQUE);
PREPARE generated AS SELECT outcome || ' ' || (row_data ->> 'code') AS answer FROM unique_insert('row_odd.generated', $1, '{code}');
EXECUTE generated('{"a": "Ab"}');
EXECUTE generated('{"a": "Ab"}') \gset first_
CREATE OR REPLACE FUNCTION row_odd.folded(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)';
EXECUTE generated('{"a": "Cd"}');
EXECUTE generated('{"a": "Cd"}') \gset second_
SELECT is(:'first_answer'::text, 'duplicate ab', 'generation_expression');
SELECT is(:'second_answer'::text, 'duplicate CD', 'whose_function_is_replaced');
DEALLOCATE generated;
DROP SCHEMA row_odd_names CASCADE;

DROP SCHEMA row_odd, "row_odd ""2""; --" CASCADE;
SELECT * FROM finish();
