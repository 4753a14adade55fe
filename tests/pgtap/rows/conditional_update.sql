-- conditional_update: compare-and-set on any columns, by the equality of their own types.
\set schema row_conditional
\ir ../include/row_flows.psql
SELECT plan(39);

CREATE TABLE row_conditional.orders (id bigint PRIMARY KEY, status int NOT NULL DEFAULT 0, note text, code varchar(3),
    shout text GENERATED ALWAYS AS (upper(note)) STORED);
INSERT INTO row_conditional.orders VALUES (1, 0, 'n'), (2, 0, NULL), (9007199254740993, 0, 'large');
CREATE FUNCTION pg_temp.updated(key jsonb, expected jsonb, changes jsonb) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answer(format('SELECT * FROM conditional_update(''row_conditional.orders'', %L, %L, %L)', key, expected, changes))
$$;

-- Outcomes.
SELECT is(pg_temp.updated('{"id": 1}', '{"status": 0}', '{"status": 1}'),
    '{"outcome": "updated", "row_data": {"id": 1, "status": 1, "note": "n", "code": null, "shout": "N"}}', 'status_is_as_expected');
SELECT is(pg_temp.updated('{"id": 1}', '{"status": 0}', '{"status": 1}'),
    '{"outcome": "conflict", "row_data": {"id": 1, "status": 1, "note": "n", "code": null, "shout": "N"}}', 'the_second_caller_is_told');
SELECT is(pg_temp.updated('{"id": 3}', '{"status": 0}', '{"status": 1}'), '{"outcome": "not_found", "row_data": null}', 'row_is_not_there');
SELECT is(pg_temp.updated('{"id": 9007199254740993}', '{"id": 9007199254740993}', '{"status": 5}') #>> '{row_data,id}',
    '9007199254740993', 'large_numbers_lose_no_digit');
SELECT is(pg_temp.updated('{"id": 9007199254740992}', '{"status": 5}', '{"status": 6}') ->> 'outcome', 'not_found', 'and_are_not_rounded');
SELECT results_eq('SELECT id, status FROM row_conditional.orders ORDER BY id',
    'VALUES (1::bigint, 1), (2, 0), (9007199254740993, 5)', 'only_the_row_is_changed');

-- NULLs.
SELECT is(pg_temp.updated('{"id": 2}', '{"note": "n"}', '{"status": 1}') ->> 'outcome', 'conflict', 'null_is_not_a_value');
SELECT is(pg_temp.updated('{"id": 1}', '{"note": null}', '{"status": 1}') ->> 'outcome', 'conflict', 'value_is_not_null');
SELECT is(pg_temp.updated('{"id": 2}', '{"note": null, "status": 0}', '{"note": "new", "status": null}'), '"23502"', 'not_null_column');
SELECT is(pg_temp.updated('{"id": 2}', '{"note": null, "status": 0}', '{"note": "new"}'),
    '{"outcome": "updated", "row_data": {"id": 2, "status": 0, "note": "new", "code": null, "shout": "NEW"}}', 'expected_null');
SELECT is(pg_temp.updated('{"id": 2}', '{"note": "new"}', '{"note": null}') #> '{row_data,note}', 'null', 'change_to_null');

-- Several columns: all of them must match.
SELECT is(pg_temp.updated('{"id": 1}', '{"status": 1, "note": "other"}', '{"status": 2}') ->> 'outcome', 'conflict',
    'one_column_that_differs_is_enough');
SELECT is(pg_temp.updated('{"id": 1}', '{"status": 1, "note": "n", "shout": "N", "id": 1, "code": null}',
    '{"status": 2}') ->> 'outcome', 'updated', 'key_and_generated_columns_can_be_expected');
SELECT is(pg_temp.updated('{"id": 1}', '{"status": "2"}', '{"status": "3", "code": 12}') #> '{row_data}',
    '{"id": 1, "status": 3, "note": "n", "code": "12", "shout": "N"}', 'values_are_converted');
SELECT is(pg_temp.updated('{"id": 1}', '{"code": 12}', '{"status": 3}') ->> 'outcome', 'updated', 'same_values_are_an_update_too');

-- Errors.
SELECT is(pg_temp.surprises(ARRAY[
    ['conditional_update(NULL, ''{"id": 1}'', ''{"status": 0}'', ''{"status": 0}'')', '22004'],
    ['conditional_update(''row_conditional.orders'', NULL, ''{"status": 0}'', ''{"status": 0}'')', '22004'],
    ['conditional_update(''row_conditional.orders'', ''{"id": 1}'', NULL, ''{"status": 0}'')', '22004'],
    ['conditional_update(''row_conditional.orders'', ''{"id": 1}'', ''{"status": 0}'', NULL)', '22004'],
    ['conditional_update(''row_conditional.orders'', ''{"id": null}'', ''{"status": 0}'', ''{"status": 0}'')', '22004']]), NULL, 'nulls');
SELECT is(
    (SELECT string_agg(format('%s %s %s: %s', key, expected, changes, state), '; ')
       FROM (VALUES ('[]', '{"status": 3}', '{"status": 3}', '22023'), ('{"id": 1}', '[]', '{"status": 3}', '22023'),
           ('{"id": 1}', '{"status": 3}', '[]', '22023'),
                    ('null', '{"status": 3}', '{"status": 3}', '22023'), ('{"id": 1}', 'null', '{"status": 3}', '22023'),
                        ('{"id": 1}', '{"status": 3}', 'null', '22023'),
                    ('{"id": 1}', '{}', '{"status": 3}', '22023'), ('{"id": 1}', '{"status": 3}', '{}', '22023'),
                    ('{}', '{"status": 3}', '{"status": 3}', '42P10'), ('{"status": 1}', '{"status": 3}', '{"status": 3}', '42P10'),
                    ('{"id": 1, "status": 3}', '{"status": 3}', '{"status": 3}', '42P10'),
                    ('{"x": 1}', '{"status": 3}', '{"status": 3}', '42703'), ('{"id": 1}', '{"x": 3}', '{"status": 3}', '42703'),
                    ('{"id": 1}', '{"status": 3}', '{"x": 3}', '42703'), ('{"id": 1}', '{"status": 3}', '{"shout": "X"}', '428C9'),
                    ('{"id": "x"}', '{"status": 3}', '{"status": 3}', '22P02'), ('{"id": 1}', '{"status": "x"}', '{"status": 3}', '22P02'),
                    ('{"id": 1}', '{"status": 3}', '{"status": "x"}', '22P02'), ('{"id": 1}', '{"status": 3}', '{"status": 1.5}', '22P02'),
                    ('{"id": 1}', '{"status": 3}', '{"code": "four"}', '22001'), ('{"id": 1}', '{"code": "four"}',
                        '{"status": 3}', '22001'),
                    ('{"id": 1}', '{"status": 3}', '{"id": 2}', '23505')) AS bad (key, expected, changes, code),
            pg_temp.updated(key::jsonb, expected::jsonb, changes::jsonb) AS state
      WHERE state <> to_jsonb(code)),
    NULL, 'bad_arguments');
SELECT results_eq('SELECT id, status, note, code FROM row_conditional.orders WHERE id < 3 ORDER BY id',
    $$ VALUES (1::bigint, 3, 'n', '12'::varchar), (2, 0, NULL, NULL) $$, 'errors_change_nothing');

-- The equality of each type.
SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i' AND collname = 'und-x-icu') AS icu,
       EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext') AS citext \gset
\if :icu
CREATE COLLATION row_conditional.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
\else
CREATE COLLATION row_conditional.any_case FROM "C";
\endif
CREATE TYPE row_conditional.mood AS ENUM ('sad', 'glad');
CREATE TYPE row_conditional.pair AS (a int, b text);
CREATE DOMAIN row_conditional.percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE TABLE row_conditional.typed (id int PRIMARY KEY, exact numeric, approx float8, padded char(5), moment timestamptz,
    mood row_conditional.mood, pair row_conditional.pair,
    percent row_conditional.percent, tags text[], doc jsonb, bytes bytea, span int4range, ip inet, uid uuid,
        word text COLLATE row_conditional.any_case,
    plain json, spot point, markup xml, done bool, gap interval);
INSERT INTO row_conditional.typed VALUES (1, 1.50, 'NaN', 'ab', '2024-03-31 12:00+02', 'glad', '(1,x)', 50, '{a,NULL,"b c"}',
    '{"b": 1, "a": [1.0]}', '\xdead', '[1,5)', '10.0.0.1',
    '6f9619ff-8b86-d011-b42d-00c04fc964ff', 'Straße', '{"a": 1}', '(1,2)', NULL, true, '1 day');
CREATE FUNCTION pg_temp.compared(expected jsonb) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(answer ->> 'outcome', answer #>> '{}')
      FROM pg_temp.answer(format('SELECT * FROM conditional_update(''row_conditional.typed'', ''{"id": 1}'', %L, '
          '''{"id": 1}'')', expected)) AS answer
$$;
SELECT is(
    (SELECT string_agg(format('%s: %s', expected, compared), '; ')
       FROM unnest(ARRAY['{"exact": 1.5}', '{"exact": 1.5000}', '{"exact": "1.50"}', '{"exact": 15e-1}', '{"approx": "NaN"}',
           '{"padded": "ab"}', '{"padded": "ab   "}',
                         '{"moment": "2024-03-31 10:00:00Z"}', '{"moment": "2024-03-31T05:00:00-05:00"}', '{"mood": "glad"}',
                             '{"pair": {"a": 1, "b": "x"}}', '{"pair": "(1,x)"}',
                         '{"percent": 50}', '{"tags": ["a", null, "b c"]}', '{"tags": "{a,NULL,b c}"}',
                             '{"doc": {"a": [1], "b": 1.0}}', '{"bytes": "\\xDEAD"}', '{"span": "(0,4]"}',
                         '{"ip": "10.0.0.1/32"}', '{"uid": "{6F9619FF8B86D011B42D00C04FC964FF}"}', '{"done": true}',
                             '{"done": "yes"}', '{"gap": "24:00:00"}',
                         '{"gap": "1 day", "ip": "10.0.0.1", "exact": 1.5}']) AS expected, pg_temp.compared(expected::jsonb) AS compared
      WHERE compared <> 'updated'),
    NULL, 'values_that_are_equal_in_their_type');
SELECT is(
    (SELECT string_agg(format('%s: %s', expected, compared), '; ')
       FROM unnest(ARRAY['{"exact": 1.51}', '{"approx": 1}', '{"padded": " ab"}', '{"moment": "2024-03-31 12:00:00Z"}',
           '{"mood": "sad"}', '{"pair": {"a": 1, "b": "X"}}', '{"pair": {"a": 1}}',
                         '{"pair": null}', '{"percent": 49}', '{"percent": null}', '{"tags": ["a", "b c", null]}',
                             '{"tags": []}', '{"doc": {"a": [1]}}', '{"doc": "{\"b\": 1, \"a\": [1.0]}"}', '{"doc": null}',
                         '{"bytes": "\\xbeef"}', '{"span": "[1,5]"}', '{"ip": "10.0.0.1/24"}',
                             '{"uid": "6f9619ff-8b86-d011-b42d-00c04fc964fe"}', '{"done": false}',
                             '{"gap": "23:00"}']) AS expected,
            pg_temp.compared(expected::jsonb) AS compared
      WHERE compared <> 'conflict'),
    NULL, 'values_that_differ_in_their_type');
SELECT is(
    (SELECT string_agg(format('%s: %s', expected, compared), '; ')
       FROM unnest(ARRAY['{"plain": {"a": 1}}', '{"spot": "(1,2)"}', '{"markup": "<a/>"}']) AS expected,
           pg_temp.compared(expected::jsonb) AS compared
      WHERE compared <> '42883'),
    NULL, 'types_without_equality_are_42883');
SELECT is(
    (SELECT string_agg(format('%s: %s, not %s', expected, compared, code), '; ')
       FROM (VALUES ('{"mood": "mad"}', '22P02'), ('{"percent": 101}', '23514'), ('{"moment": "soon"}', '22007'),
           ('{"uid": "x"}', '22P02'), ('{"tags": "a"}', '22P02'), ('{"tags": {"a": 1}}', '22P02'),
                    ('{"pair": [1, "x"]}', '22P02|22023|42804'), ('{"padded": "sixsix"}', '22001')) AS bad (expected, code),
                        pg_temp.compared(expected::jsonb) AS compared
      WHERE compared !~ code),
    NULL, 'expected_values_that_the_type_does_not_have');
\if :icu
SELECT is(pg_temp.compared('{"word": "STRASSE"}') || ' ' || pg_temp.compared('{"word": "straße"}'), 'conflict updated',
    'collation_of_the_column_decides');
\else
SELECT skip(1, 'no ICU');
\endif
\if :citext
CREATE EXTENSION IF NOT EXISTS citext SCHEMA row_conditional;
SELECT nspname AS citext_schema FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'citext' \gset
CREATE TABLE row_conditional.mails (id int PRIMARY KEY, mail :"citext_schema".citext UNIQUE NOT NULL);
INSERT INTO row_conditional.mails VALUES (1, 'Ada@Example.org');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_update('row_conditional.mails', '{"mail": "ADA@example.org"}',
    '{"mail": "ada@EXAMPLE.org"}', '{"mail": "ADA"}') $$),
    '{"outcome": "updated", "row_data": {"id": 1, "mail": "ADA"}}', 'equality_of_a_type_whose_operators_are_not_in_the_search_path');
\else
SELECT skip(1, 'no citext');
\endif
CREATE TYPE row_conditional.odd AS (a point);
ALTER TABLE row_conditional.typed ADD odd row_conditional.odd, ADD points point[];
UPDATE row_conditional.typed SET odd = row('(1,2)'::point), points = '{"(1,2)"}';
SELECT is(pg_temp.compared('{"points": ["(1,2)"]}') || ' ' || pg_temp.compared('{"odd": {"a": "(1,2)"}}'), '42883 42883',
    'containers_of_types_without_equality');

-- The answer is the row after the change, whatever else changed it.
CREATE TABLE row_conditional.triggered (id int PRIMARY KEY, status text, n int NOT NULL DEFAULT 0);
INSERT INTO row_conditional.triggered VALUES (1, 'new'), (2, 'none');
CREATE FUNCTION row_conditional.count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status = 'none' THEN RETURN NULL; END IF;
    NEW.n := OLD.n + 10;
    NEW.status := upper(NEW.status);
    RETURN NEW;
END $$;
CREATE TRIGGER count BEFORE UPDATE ON row_conditional.triggered FOR EACH ROW EXECUTE FUNCTION row_conditional.count();
CREATE FUNCTION pg_temp.triggered(id int, expected text, status text) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answer(format('SELECT * FROM conditional_update(''row_conditional.triggered'', %L, %L, %L)',
        jsonb_build_object('id', id), jsonb_build_object('status', expected), jsonb_build_object('status', status)))
$$;
SELECT is(pg_temp.triggered(1, 'new', 'paid'), '{"outcome": "updated", "row_data": {"id": 1, "status": "PAID", "n": 10}}',
    'row_as_a_trigger_left_it');
SELECT is(pg_temp.triggered(1, 'paid', 'sent') ->> 'outcome', 'conflict', 'and_as_it_is_stored');
SELECT is(pg_temp.triggered(2, 'none', 'x'), '"09000"', 'update_that_a_trigger_suppresses');
SELECT is(pg_temp.triggered(2, 'new', 'x') ->> 'outcome', 'conflict', 'conflict_before_a_trigger_that_suppresses');
CREATE FUNCTION row_conditional.again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.n < 30 THEN
        UPDATE row_conditional.triggered SET n = 30 WHERE id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER again AFTER UPDATE ON row_conditional.triggered FOR EACH ROW EXECUTE FUNCTION row_conditional.again();
SELECT is(pg_temp.triggered(1, 'PAID', 'sent') ->> 'outcome', 'updated', 'trigger_that_updates_the_row_again');
SELECT is((SELECT status || ' ' || n FROM row_conditional.triggered WHERE id = 1), 'SENT 30', 'has_its_effect');
ALTER TABLE row_conditional.triggered DISABLE TRIGGER USER;
CREATE RULE never AS ON UPDATE TO row_conditional.triggered WHERE NEW.status = 'ruled out' DO INSTEAD NOTHING;
SELECT matches(pg_temp.triggered(1, 'SENT', 'ruled out')::text, '^"(09000|0A000)"$', 'update_that_a_rule_suppresses');
SELECT is((SELECT status FROM row_conditional.triggered WHERE id = 1), 'SENT', 'and_that_changed_nothing');

-- With the version guard the change counts.
CREATE TABLE row_conditional.guarded (id int PRIMARY KEY, status int);
INSERT INTO row_conditional.guarded VALUES (1, 0);
SELECT optimistic_enable('row_conditional.guarded');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_update('row_conditional.guarded', '{"id": 1}', '{"status": 0}', '{"status": 1}') $$),
    '{"outcome": "updated", "row_data": {"id": 1, "status": 1, "version": 2}}', 'guarded_row_is_counted');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_update('row_conditional.guarded', '{"id": 1}', '{"version": 2}',
    '{"version": 3}') $$),
    '{"outcome": "updated", "row_data": {"id": 1, "status": 1, "version": 3}}', 'version_can_be_set_to_the_next');
SELECT is(pg_temp.answer($$ SELECT * FROM conditional_update('row_conditional.guarded', '{"id": 1}', '{"version": 3}',
    '{"version": 3000}') $$), '"ID004"', 'and_to_no_other');

-- Partitions.
CREATE TABLE row_conditional.parted (id int PRIMARY KEY, status int) PARTITION BY HASH (id);
CREATE TABLE row_conditional.parted_0 PARTITION OF row_conditional.parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE row_conditional.parted_1 PARTITION OF row_conditional.parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO row_conditional.parted SELECT n, 0 FROM generate_series(1, 20) n;
SELECT is(
    (SELECT string_agg(DISTINCT pg_temp.answer(format('SELECT * FROM conditional_update(''row_conditional.parted'', '
        '''{"id": %1$s}'', ''{"status": 0}'', ''{"status": 1, "id": %2$s}'')', n, n + 100))::text, ' ')
       FROM generate_series(1, 1) n),
    '{"outcome": "updated", "row_data": {"id": 101, "status": 1}}', 'row_of_a_partitioned_table');
SELECT is(
    (SELECT count(*) FROM generate_series(2, 20) n,
            pg_temp.answer(format('SELECT * FROM conditional_update(''row_conditional.parted'', ''{"id": %1$s}'', '
                '''{"status": 0}'', ''{"status": 1, "id": %2$s}'')', n, n + 100)) AS answer
      WHERE answer = jsonb_build_object('outcome', 'updated', 'row_data', jsonb_build_object('id', n + 100, 'status', 1))),
          19::bigint, 'rows_that_move_or_stay');
SELECT is((SELECT count(*) FROM row_conditional.parted WHERE status = 1 AND id > 100), 20::bigint, 'none_is_lost');

DROP SCHEMA row_conditional CASCADE;
SELECT * FROM finish();
