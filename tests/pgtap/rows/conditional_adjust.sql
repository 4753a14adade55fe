-- conditional_adjust: adds to a number within bounds, in one statement. No oversell, and the last unit can be sold.
\set schema row_adjust
\ir ../include/row_flows.psql
SELECT plan(58);

\if :from_15
    \set hundreds 'numeric(5,-2)'
\else
    \set hundreds numeric
\endif
CREATE TABLE row_adjust.stock (sku text PRIMARY KEY, quantity int NOT NULL, reserved int, big bigint, small smallint,
    exact numeric, money numeric(9,2), hundreds :hundreds,
    approx float8, coarse real, label text, cash money, due date, doubled int GENERATED ALWAYS AS (quantity * 2) STORED,
        counted int GENERATED ALWAYS AS IDENTITY);
INSERT INTO row_adjust.stock VALUES ('a', 3, NULL, 9007199254740993, 32766, 1.50, 10, 500, 0.25, 0.5, '7', 1, '2024-01-01'),
    ('b', 3, 3, 3, 3, 3, 3, 300, 3, 3, NULL, NULL, NULL);
-- value as text: its digits matter.
CREATE FUNCTION pg_temp.adjusted(arguments text, sku text = 'a') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answered record;
BEGIN
    EXECUTE format('SELECT * FROM conditional_adjust(''row_adjust.stock'', %L, %s)', jsonb_build_object('sku', sku), arguments)
        INTO STRICT answered;
    RETURN concat_ws(' ', answered.outcome, answered.value);
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;

-- Selling out.
SELECT results_eq($$ SELECT pg_temp.adjusted('''quantity'', -1') FROM generate_series(1, 5) $$,
    $$ VALUES ('adjusted 2'), ('adjusted 1'), ('adjusted 0'), ('out_of_range 0'), ('out_of_range 0') $$,
        'last_unit_can_be_sold_and_no_more');
SELECT is((SELECT quantity || ' ' || doubled FROM row_adjust.stock WHERE sku = 'a'), '0 0', 'stock_is_empty');
SELECT is(pg_temp.adjusted('''quantity'', 10'), 'adjusted 10', 'new_stock');
SELECT is(pg_temp.adjusted('''quantity'', -11'), 'out_of_range 10', 'more_than_there_is');
SELECT is(pg_temp.adjusted('''quantity'', -10'), 'adjusted 0', 'all_there_is');
SELECT is((SELECT quantity FROM row_adjust.stock WHERE sku = 'b'), 3, 'other_rows_keep_theirs');
SELECT is(pg_temp.adjusted('''quantity'', -1', 'missing'), 'not_found', 'row_is_not_there');
SELECT results_eq($$ SELECT outcome, value FROM conditional_adjust('row_adjust.stock', '{"sku": "missing"}', 'quantity',
    -1) $$, $$ VALUES ('not_found', NULL::numeric) $$,
    'and_has_no_value');

-- Bounds.
SELECT is(pg_temp.adjusted('''quantity'', 5, 0, 5'), 'adjusted 5', 'maximum_can_be_reached');
SELECT is(pg_temp.adjusted('''quantity'', 1, 0, 5'), 'out_of_range 5', 'and_not_passed');
SELECT is(pg_temp.adjusted('''quantity'', -3, minimum => 2'), 'adjusted 2', 'minimum_can_be_reached');
SELECT is(pg_temp.adjusted('''quantity'', -1, minimum => 2'), 'out_of_range 2', 'and_not_passed_either');
SELECT is(pg_temp.adjusted('''quantity'', -5, minimum => NULL, maximum => NULL'), 'out_of_range 2', 'null_bounds_are_not_given');
SELECT is(pg_temp.adjusted('''quantity'', -5, minimum => ''-infinity'''), 'adjusted -3', 'minus_infinity_is_no_minimum');
SELECT is(pg_temp.adjusted('''quantity'', 1'), 'out_of_range -3', 'value_outside_the_bounds_has_to_get_inside');
SELECT is(pg_temp.adjusted('''quantity'', 4'), 'adjusted 1', 'and_may');
SELECT is(pg_temp.adjusted('''quantity'', 0'), 'adjusted 1', 'nothing_can_be_added');
SELECT is(pg_temp.adjusted('''quantity'', 0, 5'), 'out_of_range 1', 'but_not_outside_the_bounds');
SELECT is(pg_temp.adjusted('''quantity'', 0, 1, 1'), 'adjusted 1', 'bounds_can_meet');
SELECT is(pg_temp.adjusted('''quantity'', 1, 0.5, 1.5'), 'out_of_range 1', 'bounds_can_have_fractions');
SELECT is(pg_temp.adjusted('''quantity'', -1, -1e30, 1e30'), 'adjusted 0', 'bounds_can_be_beyond_the_type');
SELECT is(pg_temp.adjusted('''quantity'', 1, ''-Infinity'', ''Infinity'''), 'adjusted 1', 'bounds_can_be_infinite');
SELECT is(pg_temp.adjusted('''quantity'', 2147483647, 0, 100'), 'out_of_range 1', 'bounds_come_before_the_types_overflow');
SELECT is(pg_temp.adjusted('''money'', -12345678') || ', ' || pg_temp.adjusted('''money'', 1e20, 0, 100') || ', '
    || pg_temp.adjusted('''quantity'', -1e30') || ', ' || pg_temp.adjusted('''small'', -65536'),
    'out_of_range 10.00, out_of_range 10.00, out_of_range 1, out_of_range 32766', 'also_for_a_delta_that_the_type_cannot_hold');

-- Types.
SELECT is(pg_temp.adjusted('''big'', 1'), 'adjusted 9007199254740994', 'bigint_loses_no_digit');
SELECT is(pg_temp.adjusted('''big'', 9214364837600034813, NULL, 9223372036854775806'), 'out_of_range 9007199254740994',
    'nor_at_its_bounds');
SELECT is(pg_temp.adjusted('''big'', 9214364837600034813, NULL, 9223372036854775807'), 'adjusted 9223372036854775807', 'up_to_its_maximum');
SELECT is(pg_temp.adjusted('''small'', 1'), 'adjusted 32767', 'smallint');
SELECT is(pg_temp.adjusted('''exact'', -1.500'), 'adjusted 0.000', 'numeric');
SELECT is(pg_temp.adjusted('''exact'', 1e-30'), 'adjusted 0.000000000000000000000000000001', 'small_numeric');
SELECT is(pg_temp.adjusted('''exact'', 123456789012345678901234567890'),
    'adjusted 123456789012345678901234567890.000000000000000000000000000001', 'large_numeric');
SELECT is(pg_temp.adjusted('''money'', -0.01'), 'adjusted 9.99', 'numeric_of_two_places');
SELECT is(pg_temp.adjusted('''money'', 0.0100'), 'adjusted 10.00', 'and_zeros_behind_them');
SELECT is(pg_temp.adjusted('''quantity'', 1.0'), 'adjusted 2', 'zeros_fit_an_integer');
SELECT is(pg_temp.adjusted('''hundreds'', 100'), 'adjusted 600', 'numeric_of_negative_scale');
SELECT is(pg_temp.adjusted('''approx'', 0.5'), 'adjusted 0.75', 'double_precision');
SELECT is(pg_temp.adjusted('''coarse'', -0.5'), 'adjusted 0', 'real');
SELECT is(pg_temp.adjusted('''approx'', -0.76'), 'out_of_range 0.75', 'double_precision_has_bounds');
-- Whole numbers that the type holds exactly, in more digits than it prints by default.
UPDATE row_adjust.stock SET coarse = 1234567, approx = 9007199254740990 WHERE sku = 'b';
SELECT is(pg_temp.adjusted('''coarse'', -1', 'b'), 'adjusted 1234566', 'real_loses_no_digit');
SELECT is((SELECT coarse::int FROM row_adjust.stock WHERE sku = 'b'), 1234566, 'nor_what_is_stored');
SELECT is(pg_temp.adjusted('''approx'', 1, 0, 9007199254740991', 'b'), 'adjusted 9007199254740991', 'double_precision_loses_no_digit');
SELECT is((SELECT approx::bigint FROM row_adjust.stock WHERE sku = 'b'), 9007199254740991, 'nor_what_is_stored_then');
UPDATE row_adjust.stock SET approx = 0.1::float8 + 0.2::float8 WHERE sku = 'b';
SELECT outcome FROM conditional_adjust('row_adjust.stock', '{"sku": "b"}', 'approx', 0);
SELECT is((SELECT approx FROM row_adjust.stock WHERE sku = 'b'), 0.1::float8 + 0.2::float8, 'adding_nothing_changes_nothing');

-- Errors.
SELECT is(
    (SELECT string_agg(format('%s: %s, not %s', arguments, state, code), '; ')
       FROM (VALUES ('''small'', 1', '22003'), ('''big'', 1', '22003'), ('''quantity'', 2147483646', '22003'),
           ('''quantity'', 1e30', '22003'), ('''money'', 9999990', '22003'),
                    ('''small'', -65536, ''-infinity''', '22003'), ('''coarse'', 1e39', '22003'), ('''approx'', 1e309',
                        '22003')) AS bad (arguments, code),
            pg_temp.adjusted(arguments) AS state
      WHERE state <> code),
    NULL, 'overflow_of_the_columns_type');
SELECT is(
    (SELECT string_agg(format('%s: %s', arguments, state), '; ')
       FROM unnest(ARRAY['''quantity'', 1.5', '''quantity'', 0.0000001', '''small'', -0.5', '''big'', 1e-20',
           '''money'', 0.001', '''money'', 1.005', '''hundreds'', 50', '''hundreds'', 101']) AS arguments,
            pg_temp.adjusted(arguments) AS state
      WHERE state <> '22023'),
    NULL, 'delta_that_the_column_would_round');
SELECT is(
    (SELECT string_agg(format('%s: %s', arguments, state), '; ')
       FROM unnest('{quantity,exact,approx}'::text[]) AS name,
            unnest(ARRAY['''NaN''', '''Infinity''', '''-Infinity''', '1, ''NaN''', '1, 0, ''NaN''', '1, 2, 1',
                '1, ''Infinity'', ''-Infinity''']) AS rest,
            format('%L, %s', name, rest) AS arguments, pg_temp.adjusted(arguments) AS state
      WHERE state <> '22023'),
    NULL, 'numbers_that_are_none_and_bounds_out_of_order');
SELECT is(
    (SELECT string_agg(format('%s: %s, not %s', arguments, state, code), '; ')
       FROM (VALUES ('NULL, 1', '22004'), ('''quantity'', NULL', '22004'), ('''reserved'', 1', '22004'), ('''missing'', 1',
           '42703'), ('''Quantity'', 1', '42703'), ('''quantity, reserved'', 1', '42703'), ('''ctid'', 1', '42703'),
                    ('''label'', 1', '42804'), ('''sku'', 1', '42804'), ('''cash'', 1', '42804'), ('''due'', 1', '42804'),
                        ('''doubled'', 1', '428C9'), ('''counted'', 1', '428C9')) AS bad (arguments, code),
            pg_temp.adjusted(arguments) AS state
      WHERE state <> code),
    NULL, 'bad_columns');
SELECT is(pg_temp.surprises(ARRAY[
    ['conditional_adjust(NULL, ''{"sku": "a"}'', ''quantity'', 1)', '22004'],
        ['conditional_adjust(''row_adjust.stock'', NULL, ''quantity'', 1)', '22004'],
    ['conditional_adjust(''row_adjust.stock'', ''{"sku": null}'', ''quantity'', 1)', '22004'],
        ['conditional_adjust(''row_adjust.stock'', ''[]'', ''quantity'', 1)', '22023'],
    ['conditional_adjust(''row_adjust.stock'', ''{}'', ''quantity'', 1)', '42P10'],
        ['conditional_adjust(''row_adjust.stock'', ''{"quantity": 1}'', ''quantity'', 1)', '42P10'],
    ['conditional_adjust(''row_adjust.stock'', ''{"x": 1}'', ''quantity'', 1)', '42703']]), NULL, 'bad_targets_and_keys');
SELECT is((SELECT concat_ws(' ', quantity, reserved, big, small, money, hundreds) FROM row_adjust.stock WHERE sku = 'a'),
    '2 9223372036854775807 32767 10.00 600',
    'errors_change_nothing');

-- Domains and checks.
CREATE DOMAIN row_adjust.percent AS int CHECK (VALUE <= 100);
CREATE DOMAIN row_adjust.share AS row_adjust.percent CHECK (VALUE <> 13);
CREATE DOMAIN row_adjust.price AS numeric(6,2);
CREATE TABLE row_adjust.typed (id int PRIMARY KEY, share row_adjust.share NOT NULL, price row_adjust.price,
    checked int CHECK (checked < 50));
INSERT INTO row_adjust.typed VALUES (1, 10, 1, 10);
SELECT is(
    (SELECT string_agg(format('%s: %s, not %s', arguments, state, code), '; ')
       FROM (VALUES ('''share'', 2', '{"outcome": "adjusted", "value": 12}'), ('''share'', 1', '"23514"'), ('''share'', 89',
           '"23514"'), ('''share'', 0.5', '"22023"'),
                    ('''price'', 0.25', '{"outcome": "adjusted", "value": 1.25}'), ('''price'', 0.001', '"22023"'),
                        ('''price'', 9999', '"22003"'), ('''checked'', 40', '"23514"')) AS bad (arguments, code),
            pg_temp.answer(format('SELECT * FROM conditional_adjust(''row_adjust.typed'', ''{"id": 1}'', %s)', arguments)) AS state
      WHERE state <> code::jsonb),
    NULL, 'domains_over_numbers');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_adjust('row_adjust.typed', '{"id": 1}', 'id', 5) $$),
    '{"outcome": "adjusted", "value": 6}', 'key_itself');

-- Triggers, the version guard, rules.
CREATE TABLE row_adjust.triggered (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO row_adjust.triggered VALUES (1, 10), (2, -1);
SELECT optimistic_enable('row_adjust.triggered');
CREATE FUNCTION row_adjust.cap() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.n < 0 THEN RETURN NULL; END IF;
    NEW.n := least(NEW.n, 12);
    RETURN NEW;
END $$;
CREATE TRIGGER cap BEFORE UPDATE ON row_adjust.triggered FOR EACH ROW EXECUTE FUNCTION row_adjust.cap();
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_adjust('row_adjust.triggered', '{"id": 1}', 'n', 5) $$),
    '{"outcome": "adjusted", "value": 12}', 'value_as_a_trigger_left_it');
SELECT is((SELECT n || ' ' || version FROM row_adjust.triggered WHERE id = 1), '12 2', 'which_is_what_is_stored_and_counted');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_adjust('row_adjust.triggered', '{"id": 2}', 'n', 5) $$), '"09000"',
    'update_that_a_trigger_suppresses');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_adjust('row_adjust.triggered', '{"id": 2}', 'n', -5) $$),
    '{"outcome": "out_of_range", "value": -1}',
    'out_of_range_before_a_trigger_that_suppresses');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_adjust('row_adjust.triggered', '{"id": 1}', 'version', 5) $$), '"ID004"',
    'guarded_version');

-- The reservation of two units at once, or of none.
BEGIN;
SELECT is(
    (SELECT string_agg(outcome, ' ') FROM (VALUES ('a', -2), ('b', -4)) AS ordered (sku, delta),
        conditional_adjust('row_adjust.stock', jsonb_build_object('sku', sku), 'quantity', delta)),
    'adjusted out_of_range', 'several_rows_in_one_statement');
ROLLBACK;
SELECT is((SELECT string_agg(quantity::text, ' ' ORDER BY sku) FROM row_adjust.stock), '2 3', 'rollback_gives_the_reservation_back');

DROP SCHEMA row_adjust CASCADE;
SELECT * FROM finish();
