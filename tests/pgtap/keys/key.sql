-- idem_key of parts of any type: two values make the same key if and only if they are equal. key_of_texts.sql has the form.
\ir ../include/helpers.psql
SELECT plan(19);

-- The types: parts are compared by their text.
SELECT is(
    (SELECT string_agg(DISTINCT k, ' ')
       FROM (VALUES (idem_key(1::smallint)), (idem_key(1::int)), (idem_key(1::bigint)), (idem_key(1.0)),
                    (idem_key(1.000::numeric(10, 3))), (idem_key('1')), (idem_key('1'::varchar))) AS made (k)),
    '1', 'one_is_one_in_every_type');
SELECT is(idem_key(-9223372036854775808), '-9223372036854775808', 'smallest_bigint');
SELECT is(idem_key(1.50, -0.0, 1e3, 0.10), '1.5:0:1000:0.1', 'numeric_in_its_shortest_form');
SELECT is(
    idem_key('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
    'uuid_in_its_canonical_form');
SELECT isnt(idem_key(true), idem_key(false), 'booleans_differ');
SELECT is(idem_key(date '2024-02-29'), '2024-02-29', 'date_in_iso_form');

PREPARE mixed AS SELECT idem_key('order', $1::text, 42);
SELECT results_eq($$ EXECUTE mixed('a') $$, $$ VALUES ('order:a:42') $$, 'mixed_parameters_with_a_cast');
SELECT throws_ok('PREPARE mixed_without AS SELECT idem_key($1, 42)', '42P18', NULL, 'mixed_parameters_without_a_cast');
SELECT is(idem_key(VARIADIC ARRAY[1, 2]), '1:2', 'array_of_integers');

SET DateStyle = 'SQL, DMY';
SET extra_float_digits = 0;
SELECT is(idem_key(date '2024-02-29', 1.5, 'x'), '2024-02-29:1.5:x', 'settings_do_not_change_a_key');
RESET ALL;

CREATE DOMAIN pg_temp.short AS text;
CREATE DOMAIN pg_temp.shorter AS pg_temp.short CHECK (length(VALUE) < 10);
CREATE DOMAIN pg_temp.positive AS int CHECK (VALUE > 0);
SELECT is(idem_key('a'::pg_temp.shorter, 7::pg_temp.positive), 'a:7', 'domains_are_taken_as_their_base_type');

-- char(n) ignores trailing blanks when it compares; two equal values must not make two keys.
SELECT ok(
    pg_temp.state_of($$ SELECT idem_key('ab'::char(5)) $$) = '42804'
    OR pg_temp.state_of($$ DO 'BEGIN
           ASSERT idem_key(''ab''::char(5)) = idem_key(''ab''::char(9)); END' $$) = 'ok',
    'padding_of_char_does_not_make_another_key');

-- A table's columns, a prepared parameter and a Unicode part.
SELECT is((SELECT string_agg(idem_key('n', n), ' ') FROM generate_series(1, 3) n), 'n:1 n:2 n:3', 'key_of_each_row');
PREPARE made_key (text, int) AS SELECT idem_key($1, $2);
CREATE TEMP TABLE made AS EXECUTE made_key('p', 5);
SELECT is((SELECT idem_key FROM made), 'p:5', 'key_of_parameters');

-- VARIADIC arrays.
SELECT is(idem_key(VARIADIC ARRAY[1, 2]), '1:2', 'variadic_array_of_integers');
SELECT throws_ok($$ SELECT idem_key(VARIADIC ARRAY[1.5::float8]) $$, '42804', NULL, 'variadic_array_of_another_type');

-- What is refused.
SELECT throws_ok($$ SELECT idem_key('a', NULL::int) $$, '22004', NULL, 'null_part');
SELECT throws_ok($$ SELECT idem_key('a', NULL::pg_temp.short) $$, '22004', NULL, 'null_of_a_domain');
SELECT is(
    (SELECT string_agg(part || ': ' || state, ', ')
       FROM unnest(ARRAY['1.5::float8', '1.5::float4', 'now()', 'localtimestamp', 'interval ''1 s''', '''{}''::jsonb',
                         '''{}''::json', '''x''::bytea', 'ARRAY[''a'']', 'ARRAY[1]', 'ROW(1, 2)', '1::money',
                         'point(1, 2)', '''acquired''::idem_outcome', 'inet ''::1''', 'int4range(1, 2)']) AS part,
            pg_temp.state_of(format('SELECT idem_key(%s)', part)) AS state
      WHERE state <> '42804'),
    NULL, 'other_types_are_42804');

SELECT * FROM finish();
