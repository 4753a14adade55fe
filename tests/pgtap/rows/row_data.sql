-- Rows as JSON are what to_jsonb makes of them, for every kind of type; in row_data and in what idem_execute stores.
\ir ../include/helpers.psql
SELECT plan(14);
CALL pg_temp.clean('rowdata:');

CREATE SCHEMA row_data;
CREATE TYPE row_data.mood AS ENUM ('sad', 'ok');
CREATE TYPE row_data.pair AS (a int, b text);
CREATE DOMAIN row_data.email AS text CHECK (VALUE LIKE '%@%');
CREATE DOMAIN row_data.many AS int[];
CREATE TABLE row_data.things (
    id int PRIMARY KEY, i2 int2, i8 int8, f4 float4, f8 float8, n numeric, n2 numeric(12, 4), ok boolean, t text, v varchar(9), c char(5),
    nm name, "char" "char", d date, ts timestamp, tz timestamptz, iv interval, u uuid, b bytea, inet inet, j json, jb jsonb, xs int[],
    mood row_data.mood, pair row_data.pair, pairs row_data.pair[], email row_data.email, many row_data.many, r int4range, m money, o oid,
    g int GENERATED ALWAYS AS (id * 2) STORED, "Odd "" name" text);
INSERT INTO row_data.things (id, i2, i8, f4, f8, n, n2, ok, t, v, c, nm, "char", d, ts, tz, iv, u, b, inet, j, jb, xs, mood, pair, pairs, email, many, r, m,
    o, "Odd "" name") VALUES
    (1, -32768, 9223372036854775807, 1.5, 'NaN', 'NaN', 12.5000, true, E'quote " back \\ \n tab \t', 'ö', 'ab', 'nm', 'x', '2026-11-21',
     '2026-11-21 01:02:03.4', '2026-11-21 01:02:03+02', '1 mon 2 days', '00000000-0000-0000-0000-00000000000a', '\xdeadbeef', '10.0.0.1/8',
     '{"b":  1, "a": [1, 2]}', '{"b": 1, "a": {"c": null}}', '{1,NULL,3}', 'ok', ROW(1, 'x'), ARRAY[ROW(1, 'x'), NULL]::row_data.pair[],
     'a@b', '{{1,2},{3,4}}', '[1,5)', 12.34, 7, 'odd'),
    (2, 0, 0, 'Infinity', '-Infinity', 'Infinity', 0, false, '', '', '', '', '', '-infinity', 'infinity', 'infinity', '0', NULL, '', '::1',
     'null', '"scalar"', '{}', 'sad', ROW(NULL, NULL), '{}', 'x@', '{}', 'empty', 0, 0, ''),
    (3, 7, 7, 1e-7, 1e300, 1e-20, NULL, NULL, repeat('long ', 3000), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[]',
     '17', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

BEGIN;
SELECT is((SELECT row_data FROM pessimistic_lock('row_data.things', jsonb_build_object('id', w.id))), to_jsonb(w),
          'row_' || w.id || '_is_what_to_jsonb_makes_of_it')
  FROM row_data.things w ORDER BY id;
COMMIT;
SELECT is((SELECT response FROM idem_execute('rowdata:all', 'SELECT * FROM row_data.things ORDER BY id')),
          (SELECT jsonb_agg(to_jsonb(w) ORDER BY id) FROM row_data.things w), 'stored_rows_are_what_to_jsonb_makes_of_them');
SELECT is((SELECT response FROM idem_execute('rowdata:none', 'SELECT * FROM row_data.things WHERE false')), '[]', 'no_rows');
SELECT is((SELECT response FROM idem_execute('rowdata:no columns', 'SELECT FROM row_data.things')), '[{}, {}, {}]', 'rows_without_columns');

-- The other way round: what was read can be written.
SELECT is((SELECT outcome FROM conditional_update('row_data.things', '{"id": 1}', '{"id": 1}',
              (SELECT to_jsonb(w) - '{g,m,nm}'::text[] FROM row_data.things w WHERE id = 1))), 'updated', 'row_data_can_be_given_back');
SELECT is((SELECT row_data - 'f8' FROM unique_insert('row_data.things',
              (SELECT to_jsonb(w) - '{g}'::text[] || '{"id": 4}' FROM row_data.things w WHERE id = 2))),
          (SELECT to_jsonb(w) - 'f8' || '{"id": 4, "g": 8}' FROM row_data.things w WHERE id = 2), 'row_can_be_inserted_from_row_data');

-- Tables of four columns and more are read as one value of the table's type: whatever they are called and however they are stored.
CREATE TABLE row_data."odd ""name.; --" (id int PRIMARY KEY, t int, "odd ""name.; --" text, big text, gone int);
ALTER TABLE row_data."odd ""name.; --" ALTER big SET STORAGE EXTERNAL;
CREATE FUNCTION pg_temp.wide(call text) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT row_data FROM ' || call, 'row_data."odd ""name.; --"');
END $$;
SELECT is(pg_temp.wide('unique_insert(%L, jsonb_build_object(''id'', 1, ''big'', repeat(''x'', 10000)))'),
          jsonb_build_object('id', 1, 't', NULL, 'odd "name.; --', NULL, 'big', repeat('x', 10000), 'gone', NULL), 'wide_row_is_inserted');
SELECT is(pg_temp.wide('conditional_update(%L, ''{"id": 1}'', ''{"t": null}'', ''{"t": 5}'')'), to_jsonb(w) || '{"t": 5}', 'and_changed')
  FROM row_data."odd ""name.; --" w;
SELECT is(pg_temp.wide('pessimistic_lock(%L, ''{"id": 1}'')'), to_jsonb(w), 'and_locked') FROM row_data."odd ""name.; --" w;
ALTER TABLE row_data."odd ""name.; --" ADD added int DEFAULT 3, DROP gone;
SELECT is(pg_temp.wide('pessimistic_lock(%L, ''{"id": 1}'')'), to_jsonb(w), 'also_with_a_column_added_and_one_dropped')
  FROM row_data."odd ""name.; --" w;
CREATE TABLE row_data.parted (id int PRIMARY KEY, a text, b int, c text) PARTITION BY RANGE (id);
CREATE TABLE row_data.part (c text, gone int, b int, a text, id int NOT NULL);
ALTER TABLE row_data.part DROP gone;
ALTER TABLE row_data.parted ATTACH PARTITION row_data.part FOR VALUES FROM (0) TO (10);
SELECT is((SELECT row_data FROM unique_insert('row_data.parted', '{"id": 1, "a": "a", "b": 2, "c": "c"}')),
          '{"id": 1, "a": "a", "b": 2, "c": "c"}', 'row_of_a_partition_with_other_columns');
SELECT is((SELECT row_data FROM pessimistic_lock('row_data.parted', '{"id": 1}')) || (SELECT row_data FROM conditional_update('row_data.parted',
              '{"id": 1}', '{"a": "a"}', '{"b": 3}')), '{"id": 1, "a": "a", "b": 3, "c": "c"}', 'is_locked_and_changed');

CALL pg_temp.clean('rowdata:');
SET client_min_messages = warning;
DROP SCHEMA row_data CASCADE;
SELECT * FROM finish();
