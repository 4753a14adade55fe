-- idem_key: a composite key that cannot be read in two ways.
\ir ../include/helpers.psql
SELECT plan(20);

-- The form: parts joined by ':', with '\' in front of a part's own ':' and '\'.
SELECT is(idem_key('order', '42'), 'order:42', 'parts_are_joined');
SELECT is(idem_key('a:b'), 'a\:b', 'separator_in_a_part_is_escaped');
SELECT is(idem_key('a\b'), 'a\\b', 'escape_in_a_part_is_escaped');
SELECT is(idem_key('a'), 'a', 'single_part_is_itself');
SELECT isnt(idem_key('a', 'bc'), idem_key('ab', 'c'), 'boundary_between_parts_counts');
SELECT isnt(idem_key(''), idem_key('', ''), 'number_of_empty_parts_counts');

CREATE TEMP TABLE part AS
    WITH letter (l) AS (VALUES (''), ('a'), (':'), ('\'))
    SELECT DISTINCT x.l || y.l AS p FROM letter x, letter y;
SELECT is(
    (SELECT count(DISTINCT k) FROM (SELECT idem_key(p) FROM part
                              UNION ALL SELECT idem_key(a.p, b.p) FROM part a, part b
                              UNION ALL SELECT idem_key(a.p, b.p, c.p) FROM part a, part b, part c) AS made (k)),
    (SELECT count(*) + count(*) ^ 2 + count(*) ^ 3 FROM part)::bigint,
    'different_parts_never_make_the_same_key');

SELECT is(idem_key('a'::name::text, 'b'::varchar(9)), 'a:b', 'text_like_parts');
SELECT is(idem_key('żółw', '鍵'), 'żółw:鍵', 'letters_outside_ascii_stay');

-- A driver's parameters have no type; they are text.
PREPARE untyped AS SELECT idem_key($1, $2);
SELECT results_eq($$ EXECUTE untyped('a:', 'b\') $$, $$ SELECT idem_key('a:'::text, 'b\'::varchar) $$, 'parameters_without_a_type');
PREPARE untyped_one AS SELECT idem_key($1);
SELECT results_eq($$ EXECUTE untyped_one('a') $$, $$ VALUES ('a') $$, 'one_parameter_without_a_type');

-- VARIADIC arrays.
SELECT is(idem_key(VARIADIC ARRAY['a', 'b']), 'a:b', 'array_of_texts');
SELECT is(idem_key(VARIADIC ARRAY['a:', 'b']), idem_key('a:', 'b'), 'variadic_array_of_text');
SELECT throws_ok($$ SELECT idem_key(VARIADIC ARRAY['a', NULL]) $$, '22004', NULL, 'null_in_an_array_of_texts');
SELECT is(idem_key(VARIADIC '{{a,b},{c,d}}'::text[]), 'a:b:c:d', 'array_of_two_dimensions');
SELECT throws_ok($$ SELECT idem_key(VARIADIC '{{a,b},{c,NULL}}'::text[]) $$, '22004', NULL, 'null_in_an_array_of_two_dimensions');
SELECT throws_ok($$ SELECT idem_key(VARIADIC NULL::text[]) $$, '22004', NULL, 'null_array_of_texts');
SELECT throws_ok($$ SELECT idem_key(VARIADIC '{}'::text[]) $$, '22023', NULL, 'no_texts');

-- What is refused.
SELECT throws_ok($$ SELECT idem_key(NULL) $$, '22004', NULL, 'untyped_null');
SELECT throws_ok($$ SELECT idem_key() $$, '42883', NULL, 'no_part_at_all');

SELECT * FROM finish();
