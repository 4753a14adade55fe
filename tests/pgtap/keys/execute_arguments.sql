-- idem_execute: its arguments are typed as a client's text parameters are, at each call anew.
\ir ../include/helpers.psql
SELECT plan(33);
CALL pg_temp.clean('args:');

SET client_min_messages = warning;
DROP SCHEMA IF EXISTS tap_args CASCADE;
CREATE SCHEMA tap_args;
CREATE TYPE tap_args.mood AS ENUM ('sad', 'glad');
CREATE DOMAIN tap_args.positive AS int CHECK (VALUE > 0);
CREATE TYPE tap_args.pair AS (x int, y text);
CREATE TABLE tap_args.typed (
    i int, b bigint, n numeric(10, 2), f float8, t text, v varchar(5), c char(3), u uuid, o boolean, d date,
    at timestamptz, s interval, j jsonb, x bytea, a text[], m tap_args.mood, p tap_args.positive, r tap_args.pair);

SELECT is(t.response,
    (SELECT jsonb_agg(to_jsonb(q)) FROM (SELECT
        1 AS i, 2::bigint AS b, 3.10::numeric(10, 2) AS n, 0.5::float8 AS f, 'it''s "x", {y}\' AS t, 'abc'::varchar(5) AS v,
        'ab'::char(3) AS c, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS u, true AS o, date '2024-02-29' AS d,
        timestamptz '2024-02-29 12:00+00' AS at, interval '36 h' AS s, '{"k": [1]}'::jsonb AS j, '\x00ff'::bytea AS x,
        ARRAY['a', NULL, 'b,c'] AS a, 'glad'::tap_args.mood AS m, 7::tap_args.positive AS p, ROW(1, 'z')::tap_args.pair AS r) q),
    'every_type_from_its_text')
  FROM idem_execute('args:types',
    'INSERT INTO tap_args.typed VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) RETURNING *',
    '["1", "2", "3.1", "0.5", "it''s \"x\", {y}\\", "abc", "ab", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "yes", "2024-02-29",
      "2024-02-29 12:00+00", "36 h", {"k": [1]}, "\\x00ff", "{a,NULL,\"b,c\"}", "glad", "7", "(1,z)"]') t;
SELECT is(t.response,
    (SELECT jsonb_agg(to_jsonb(q)) FROM (SELECT 9007199254740993 AS b, 3.10::numeric(10, 2) AS n, '12.50'::text AS t, true AS o,
        '"word"'::jsonb AS j, ARRAY['a', NULL, 'b,c'] AS a, ROW(1, 'z')::tap_args.pair AS r) q),
    'every_kind_of_json_fills_what_suits_it')
  FROM idem_execute('args:json', 'INSERT INTO tap_args.typed (b, n, t, o, j, a, r) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING b, n, t, o, j, a, r',
    '[9007199254740993, 3.1, 12.50, true, "word", ["a", null, "b,c"], {"x": 1, "y": "z"}]') t;
SELECT is(t.response, '[{"j": null, "k": "[1, 2]", "json": {"a": 1}}]', 'json_takes_the_element_and_text_its_text')
  FROM idem_execute('args:elements', 'SELECT $1::jsonb AS j, $2::text AS k, $3::json AS json', '[null, [1, 2], {"a": 1}]') t;
SELECT is(t.response, '[{"n": 2, "m": [[1, 2], [3, 4]]}]', 'arrays_fill_arrays')
  FROM idem_execute('args:array', 'SELECT n, $2::int[] AS m FROM generate_series(1, 3) n WHERE n = ANY ($1)', '[[2, 5], [[1, 2], [3, 4]]]') t;
SELECT is(t.response, '[{"p": [{"x": 1, "y": "a"}, null]}]', 'objects_fill_composites_in_arrays')
  FROM idem_execute('args:composites', 'SELECT $1::tap_args.pair[] AS p', '[[{"x": 1, "y": "a"}, null]]') t;
SELECT is(t.response, '[{"a": 1}]', 'null_args_are_none') FROM idem_execute('args:none', 'SELECT 1 AS a', NULL) t;
SELECT throws_ok($$ SELECT idem_execute('args:object', 'SELECT $1 AS a', '{"a": 1}') $$, '22023', 'args must be a JSON array', 'object_is_no_array');
SELECT throws_ok($$ SELECT idem_execute('args:scalar', 'SELECT $1 AS a', '"[1]"') $$, '22023', 'args must be a JSON array', 'string_is_no_array');
SELECT throws_ok($$ SELECT idem_execute('args:null', 'SELECT $1 AS a', 'null') $$, '22023', 'args must be a JSON array', 'json_null_is_no_array');
SELECT is(t.response, '[{"i": null, "t": null}]', 'null_argument_is_null')
  FROM idem_execute('args:null', 'INSERT INTO tap_args.typed (i, t) VALUES ($1, $2) RETURNING i, t', '[null, null]') t;
SELECT is(t.response, '[{"t": ""}]', 'empty_argument_is_not_null')
  FROM idem_execute('args:empty', 'INSERT INTO tap_args.typed (t) VALUES ($1) RETURNING t', '[""]') t;
SELECT is(t.response, '[{"t": "NULL"}]', 'word_null_is_not_null')
  FROM idem_execute('args:word', 'INSERT INTO tap_args.typed (t) VALUES ($1) RETURNING t', '["NULL"]') t;
SELECT is(t.response, '[{"a": "x"}]', 'argument_without_a_context_is_text') FROM idem_execute('args:unknown', 'SELECT $1 AS a', '["x"]') t;
SELECT is(t.response, '[{"a": 3}]', 'argument_is_typed_by_its_operator') FROM idem_execute('args:operator', 'SELECT $1 + 1 AS a', '[2]') t;
SELECT is(t.response, '[{"a": 3}]', 'argument_is_typed_by_its_cast') FROM idem_execute('args:cast', 'SELECT $1::int AS a', '[3]') t;
SELECT is(t.response, '[{"a": 4, "b": 4}]', 'argument_used_twice')
  FROM idem_execute('args:twice', 'SELECT $1::int AS a, $1 AS b', '[4]') t;
SELECT is(t.response, '[{"a": "two", "b": "one"}]', 'arguments_by_their_number')
  FROM idem_execute('args:order', 'SELECT $2 AS a, $1 AS b', '["one", "two"]') t;
SELECT is(t.response, '[{"n": 2}]', 'array_argument')
  FROM idem_execute('args:any', 'SELECT n FROM generate_series(1, 3) n WHERE n = ANY ($1)', '["{2,5}"]') t;
SELECT is(t.response, '[{"quoted": "''; DROP TABLE tap_args.typed; --"}]', 'argument_is_never_part_of_the_statement')
  FROM idem_execute('args:injection', 'SELECT $1 AS quoted', '["''; DROP TABLE tap_args.typed; --"]') t;
SELECT is(t.response -> 0 ->> 'last', '64', 'sixty_four_arguments')
  FROM idem_execute('args:many', (SELECT 'SELECT $64 AS last, ' || string_agg(format('$%s AS a%1$s', n), ', ')
                                    FROM generate_series(1, 64) n),
                    (SELECT jsonb_agg(n ORDER BY n) FROM generate_series(1, 64) n)) t;
SELECT is(t.response, '[{"length": 1000000}]', 'argument_of_a_megabyte')
  FROM idem_execute('args:large', 'SELECT length($1) AS length', jsonb_build_array(repeat('x', 1000000))) t;

-- Bad arguments are the type's own error and free the key.
SELECT throws_ok($$ SELECT * FROM idem_execute('args:bad', 'SELECT $1::int AS a', '["x"]') $$, '22P02', NULL, 'text_that_is_no_integer');
SELECT throws_ok($$ SELECT * FROM idem_execute('args:bad', 'INSERT INTO tap_args.typed (p) VALUES ($1)', '[0]') $$, '23514', NULL,
    'value_outside_the_domain');
SELECT throws_ok($$ SELECT * FROM idem_execute('args:bad', 'SELECT $1 AS a', '[]') $$, '22023', NULL, 'too_few_arguments');
SELECT throws_ok($$ SELECT * FROM idem_execute('args:bad', 'SELECT 1 AS a', '["x"]') $$, '22023', NULL, 'too_many_arguments');
SELECT is(idem_try_claim('args:bad'), 'acquired', 'failed_calls_freed_the_key');
SELECT isnt(pg_temp.state_of($$ SELECT * FROM idem_execute('args:b1', 'SELECT 1 AS a', NULL) $$), 'XX000', 'null_args_are_no_internal_error');
SELECT isnt(pg_temp.state_of($$ SELECT * FROM idem_execute('args:b2', 'SELECT $1 AS a, $2 AS b', '[["x", "y"]]') $$), 'XX000',
    'array_of_arrays_is_no_internal_error');

-- The same text means what it means now.
CREATE TABLE tap_args.changing (a int);
SELECT is(t.response, '[{"a": 1}]', 'column_is_an_integer')
  FROM idem_execute('args:ddl1', 'INSERT INTO tap_args.changing VALUES ($1) RETURNING *', '[1]') t;
ALTER TABLE tap_args.changing ALTER a TYPE text;
SELECT is(t.response, '[{"a": "two"}]', 'column_became_text')
  FROM idem_execute('args:ddl2', 'INSERT INTO tap_args.changing VALUES ($1) RETURNING *', '["two"]') t;
ALTER TABLE tap_args.changing ADD b boolean DEFAULT true;
SELECT is(t.response, '[{"a": "three", "b": true}]', 'column_was_added')
  FROM idem_execute('args:ddl3', 'INSERT INTO tap_args.changing VALUES ($1) RETURNING *', '["three"]') t;
DROP TABLE tap_args.changing;
CREATE TABLE tap_args.changing (z date);
SELECT is(t.response, '[{"z": "2024-02-29"}]', 'table_was_made_anew')
  FROM idem_execute('args:ddl4', 'INSERT INTO tap_args.changing VALUES ($1) RETURNING *', '["2024-02-29"]') t;
DROP TABLE tap_args.changing;
SELECT throws_ok(
    $$ SELECT * FROM idem_execute('args:ddl5', 'INSERT INTO tap_args.changing VALUES ($1) RETURNING *', '["2024-02-29"]') $$,
    '42P01', NULL, 'table_was_dropped');

DROP SCHEMA tap_args CASCADE;
CALL pg_temp.clean('args:');
SELECT * FROM finish();
