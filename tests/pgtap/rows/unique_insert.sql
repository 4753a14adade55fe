-- unique_insert: the unique index is the arbiter; the row that is there is the answer, either way.
\set schema row_unique
\ir ../include/row_flows.psql
SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE starts_with(gid, 'idem pgtap ') \gexec
SELECT plan(66);
SET statement_timeout = '30 s';
CREATE FUNCTION pg_temp.inserted(target text, new_row text, columns text = NULL) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answer(format('SELECT * FROM unique_insert(''row_unique.%s'', %L, %L)', target, new_row, columns))
$$;

-- Outcomes.
CREATE TABLE row_unique.users (id int PRIMARY KEY, mail text UNIQUE, name varchar(5) NOT NULL DEFAULT 'anon',
    slug text UNIQUE GENERATED ALWAYS AS (lower(mail)) STORED, n int GENERATED ALWAYS AS IDENTITY,
    score numeric(4,1) CHECK (score >= 0));
SELECT is(pg_temp.inserted('users', '{"id": 1, "mail": "A"}'),
    '{"outcome": "inserted", "row_data": {"id": 1, "mail": "A", "name": "anon", "slug": "a", "n": 1, "score": null}}',
    'row_is_new');
SELECT is(pg_temp.inserted('users', '{"id": 1, "mail": "other", "name": "other"}') #- '{row_data,n}',
    '{"outcome": "duplicate", "row_data": {"id": 1, "mail": "A", "name": "anon", "slug": "a", "score": null}}',
    'row_that_is_there_is_the_answer');
SELECT is(pg_temp.inserted('users', '{"id": "2", "mail": null, "score": "1.25"}') #- '{row_data,n}',
    '{"outcome": "inserted", "row_data": {"id": 2, "mail": null, "name": "anon", "slug": null, "score": 1.3}}',
    'values_are_converted');
SELECT is(pg_temp.inserted('users', '{"id": 3, "mail": "A"}'), '"23505"', 'violation_of_another_constraint_is_an_error');
SELECT is(pg_temp.inserted('users', '{"id": 3, "mail": "A"}', '{mail}') #> '{row_data,id}', '1', 'unless_it_is_the_one_asked_for');
SELECT is(pg_temp.inserted('users', '{"id": 1, "mail": "B"}', '{mail}'), '"23505"', 'and_then_the_primary_key_is_another');
SELECT is(pg_temp.inserted('users', '{"id": 3, "mail": "C"}', '{mail}') ->> 'outcome', 'inserted', 'new_by_the_column_asked_for');
SELECT is(pg_temp.inserted('users', '{"id": 4, "mail": "c"}', '{slug}') #> '{row_data,id}', '3', 'generated_column_as_the_key');
SELECT is(pg_temp.inserted('users', '{"id": 4, "mail": "D"}', '{slug}') #> '{row_data,slug}', '"d"', 'and_new_by_it');
SELECT is((SELECT count(*) FROM row_unique.users), 4::bigint, 'duplicates_insert_nothing');
SELECT is((SELECT count(*) || ' ' || count(outcome) FILTER (WHERE outcome = 'inserted')
    FROM generate_series(1, 10) n, unique_insert('row_unique.users', jsonb_build_object('id', 100 + n % 3))), '10 3',
        'duplicates_within_one_statement');

-- NULLs never conflict, unless the index says so.
SELECT is(pg_temp.inserted('users', '{"id": 5, "mail": null}', '{mail}') ->> 'outcome', 'inserted', 'null_in_a_nullable_key');
SELECT is(pg_temp.inserted('users', '{"id": 6}', '{mail}') ->> 'outcome', 'inserted', 'missing_value_is_null');
SELECT is(pg_temp.inserted('users', '{"id": 6, "mail": null}', '{mail}'), '"23505"', 'null_beside_a_duplicate_primary_key');
SELECT is(pg_temp.inserted('users', '{"id": null}'), '"23502"', 'primary_key_is_never_null');
SELECT is(pg_temp.inserted('users', '{"mail": "E"}'), '"23502"', 'nor_missing');
\if :from_15
CREATE TABLE row_unique.one_null (id int PRIMARY KEY, a int, b int, UNIQUE NULLS NOT DISTINCT (a, b));
INSERT INTO row_unique.one_null VALUES (1, NULL, 1);
SELECT is(pg_temp.inserted('one_null', '{"id": 2, "b": 1}', '{a,b}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "a": null, "b": 1}}', 'nulls_that_are_not_distinct');
SELECT is(pg_temp.inserted('one_null', '{"id": 2, "a": null, "b": 2}', '{b,a}') ->> 'outcome', 'inserted', 'columns_in_any_order');
\else
SELECT skip('NULLs are distinct before PostgreSQL 15', 2);
\endif

-- Which columns.
CREATE TABLE row_unique.indexed (a int, b int, c int, d int, e int, f int, g int, h int, PRIMARY KEY (a, b),
    UNIQUE (c) DEFERRABLE, UNIQUE (h) INCLUDE (g));
CREATE UNIQUE INDEX ON row_unique.indexed (d) WHERE d > 0;
CREATE UNIQUE INDEX ON row_unique.indexed (abs(e));
CREATE INDEX ON row_unique.indexed (f);
ALTER TABLE row_unique.indexed ADD EXCLUDE USING btree (g WITH =);
INSERT INTO row_unique.indexed VALUES (1, 1, 1, 1, 1, 1, 1, 1);
SELECT is(
    (SELECT string_agg(format('%s: %s', columns, answer), '; ')
       FROM unnest(ARRAY['{a}', '{b}', '{a,b,c}', '{c}', '{d}', '{e}', '{f}', '{g}', '{h,g}', '{abs}']) AS columns,
            pg_temp.inserted('indexed', '{"a": 1, "b": 1, "c": 2, "d": 2, "e": 2, "f": 1, "g": 2, "h": 2}', columns) AS answer
      WHERE answer <> CASE columns WHEN '{abs}' THEN '"42703"'::jsonb ELSE '"42P10"' END),
    NULL, 'columns_that_are_not_exactly_a_unique_index');
SELECT ok(state = '42P10' AND hint ~ '\ma\M' AND hint ~ '\mb\M' AND hint ~ '\mh\M' AND hint !~ '\m[cdefg]\M',
    format('hint_names_the_usable_ones: %s', hint))
  FROM pg_temp.error_of($$ SELECT unique_insert('row_unique.indexed', '{}', '{f}') $$);
SELECT is(pg_temp.inserted('indexed', '{"a": 1, "b": 1, "c": 2}', '{b,a}') ->> 'outcome', 'duplicate', 'columns_of_a_key_in_any_order');
SELECT is(pg_temp.inserted('indexed', '{"a": 9, "b": 1, "c": 9, "h": 1}', '{h}') ->> 'outcome', 'duplicate', 'key_with_included_columns');
SELECT is(pg_temp.inserted('indexed', '{"a": 9, "b": 1, "d": 1}'), '"23505"', 'violation_of_a_partial_index');
SELECT is(pg_temp.inserted('indexed', '{"a": 9, "b": 1, "g": 1}'), '"23P01"', 'violation_of_an_exclusion_constraint');
CREATE TABLE row_unique.deferrable (id int PRIMARY KEY DEFERRABLE, a int);
CREATE TABLE row_unique.keyless (id int NOT NULL, a int UNIQUE);
SELECT is(pg_temp.inserted('deferrable', '{"id": 1}') || pg_temp.inserted('deferrable', '{"id": 1}', '{id}'),
    '["42P10", "42P10"]', 'deferrable_primary_key');
SELECT is(pg_temp.inserted('keyless', '{"id": 1}'), '"42P10"', 'no_primary_key');
SELECT is(pg_temp.inserted('keyless', '{"id": 1, "a": 1}', '{a}') || pg_temp.inserted('keyless', '{"id": 1, "a": 1}', '{a}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "a": 1}}', 'which_another_key_does_not_need');

-- Columns that new_row leaves out.
CREATE FUNCTION row_unique.one() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE FUNCTION row_unique.some() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
CREATE DOMAIN row_unique.lucky AS int DEFAULT 7;
CREATE TABLE row_unique.defaults (constant int UNIQUE DEFAULT 1, called int UNIQUE DEFAULT row_unique.one(),
    day date UNIQUE DEFAULT current_date, lucky row_unique.lucky UNIQUE,
    wild int UNIQUE DEFAULT row_unique.some(), serial serial UNIQUE, uid uuid UNIQUE DEFAULT gen_random_uuid(),
        moment timestamptz UNIQUE DEFAULT clock_timestamp(),
    counted int UNIQUE GENERATED ALWAYS AS IDENTITY, assigned int UNIQUE GENERATED BY DEFAULT AS IDENTITY, note text);
SELECT is(
    (SELECT string_agg(format('%s: %s', name, answer), '; ')
        FROM unnest('{wild,serial,uid,moment,counted,assigned}'::text[]) AS name, pg_temp.inserted('defaults', '{}',
        format('{%s}', name)) AS answer
      WHERE answer <> '"22023"'),
    NULL, 'default_that_is_never_a_duplicate');
SELECT is((SELECT count(*) FROM row_unique.defaults), 0::bigint, 'is_not_inserted');
BEGIN;
SELECT is(pg_temp.inserted('defaults', '{"note": "first"}', '{constant}') ->> 'outcome', 'inserted', 'constant_default');
SELECT is(
    (SELECT string_agg(format('%s: %s', name, answer), '; ') FROM unnest('{constant,called,day,lucky}'::text[]) AS name,
        pg_temp.inserted('defaults', '{"note": "second"}', format('{%s}', name)) AS answer
      WHERE answer ->> 'outcome' <> 'duplicate' OR answer #>> '{row_data,note}' <> 'first'),
    NULL, 'default_is_the_value_that_is_looked_for');
ROLLBACK;
SELECT is(pg_temp.inserted('defaults', '{"assigned": 5, "serial": 5, "wild": 5, '
    '"uid": "6f9619ff-8b86-d011-b42d-00c04fc964ff"}', format('{%s}', name)) ->> 'outcome', outcome, 'given_' || name)
  FROM (VALUES ('assigned', 'inserted'), ('serial', 'duplicate'), ('wild', 'duplicate'), ('uid', 'duplicate')) AS given (name, outcome);
SELECT is(pg_temp.inserted('defaults', '{"counted": 5}', '{counted}'), '"428C9"', 'given_identity');
SELECT is(pg_temp.inserted('users', '{"id": 50, "slug": "x"}') || pg_temp.inserted('users', '{"id": 50, "n": 1}'),
    '["428C9", "428C9"]', 'given_generated_columns');
CREATE TABLE row_unique.whole (id int PRIMARY KEY DEFAULT 1, a int DEFAULT 2);
SELECT is(pg_temp.inserted('whole', '{}') || pg_temp.inserted('whole', '{}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "a": 2}}', 'empty_row');
SELECT is(pg_temp.inserted('whole', '{"id": 2, "a": null}') -> 'row_data', '{"id": 2, "a": null}', 'null_is_not_the_default');

-- Errors.
SELECT is(
    (SELECT string_agg(format('%s %s: %s', new_row, columns, state), '; ')
       FROM (VALUES (NULL, NULL, '22004'), ('[]', NULL, '22023'), ('null', NULL, '22023'), ('"x"', NULL, '22023'),
           ('{"id": 50}', '{}', '22023'), ('{"id": 50}', '{NULL}', '22004'), ('{"id": 50}', '{id,NULL}', '22004'),
                    ('{"id": 50}', '{missing}', '42703'), ('{"id": 50}', '{ID}', '42703'), ('{"id": 50}', '{""}', '42703'),
                        ('{"id": 50}', '{xmin}', '42703|42P10'), ('{"missing": 1}', NULL, '42703'), ('{"id": 50, "ctid": 1}',
                        NULL, '42703'),
                    ('{"id": "x"}', NULL, '22P02'), ('{"id": 1.5}', NULL, '22P02'), ('{"id": 3000000000}', NULL, '22003'),
                        ('{"id": 50, "name": "sixsix"}', NULL, '22001'), ('{"id": 50, "name": null}', NULL, '23502'),
                    ('{"id": 50, "score": -1}', NULL, '23514'), ('{"id": 50, "score": 10000}', NULL, '22003'),
                        ('{"id": "x", "mail": "A"}', '{mail}', '22P02')) AS bad (new_row, columns, code),
            pg_temp.inserted('users', new_row, columns) AS state
      WHERE state #>> '{}' !~ format('^(%s)$', code)),
    NULL, 'bad_arguments');
SELECT is(pg_temp.state_of($$ SELECT unique_insert(NULL, '{"id": 50}') $$), '22004', 'null_target');
SELECT is((SELECT count(*) FROM row_unique.users WHERE id >= 50 AND id < 100), 0::bigint, 'errors_insert_nothing');

-- The index's own equality decides what is a duplicate.
SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i' AND collname = 'und-x-icu') AS icu \gset
CREATE TABLE row_unique.equal (id int PRIMARY KEY, exact numeric UNIQUE, approx float8 UNIQUE, padded char(5) UNIQUE,
    moment timestamptz UNIQUE, tags text[] UNIQUE, doc jsonb UNIQUE);
INSERT INTO row_unique.equal VALUES (1, 1.50, 'NaN', 'ab', '2024-03-31 12:00+02', '{a,NULL}', '{"a": 1.0}'),
    (2, 0, 0, '', 'infinity', '{}', '[]');
SELECT is(
    (SELECT string_agg(format('%s: %s', new_row, answer), '; ')
       FROM (VALUES ('exact', '1.5', 1), ('exact', '"1.500"', 1), ('exact', '0.00', 2), ('approx', '"NaN"', 1),
           ('approx', '-0.0', 2), ('padded', '"ab   "', 1), ('padded', '"   "', 2),
                    ('moment', '"2024-03-31T10:00:00Z"', 1), ('moment', '"infinity"', 2), ('tags', '["a", null]', 1),
                        ('tags', '"{}"', 2), ('doc', '{"a": 1}', 1), ('doc', '[]', 2)) AS v (name, value, row),
            format('{"id": 9, "%s": %s}', name, value) AS new_row, pg_temp.inserted('equal', new_row, format('{%s}', name)) AS answer
      WHERE answer ->> 'outcome' IS DISTINCT FROM 'duplicate' OR (answer #>> '{row_data,id}')::int <> v.row),
    NULL, 'equal_values_in_another_spelling');
\if :icu
CREATE COLLATION row_unique.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE row_unique.collated (id int PRIMARY KEY, word text COLLATE row_unique.any_case UNIQUE);
SELECT is(pg_temp.inserted('collated', '{"id": 1, "word": "Word"}', '{word}') || pg_temp.inserted('collated',
    '{"id": 2, "word": "WORD"}', '{word}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "word": "Word"}}', 'nondeterministic_collation');
\else
SELECT skip(1, 'no ICU');
\endif

-- Triggers. What they make of the row is what may be a duplicate.
CREATE TABLE row_unique.triggered (mail text PRIMARY KEY, a text);
CREATE FUNCTION row_unique.lower_mail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.a = 'none' THEN RETURN NULL; END IF;
    NEW.mail := lower(NEW.mail);
    RETURN NEW;
END $$;
CREATE TRIGGER lower_mail BEFORE INSERT ON row_unique.triggered FOR EACH ROW EXECUTE FUNCTION row_unique.lower_mail();
SELECT is(pg_temp.inserted('triggered', '{"mail": "ADA", "a": "x"}'),
    '{"outcome": "inserted", "row_data": {"mail": "ada", "a": "x"}}', 'row_as_a_trigger_made_it');
SELECT is(pg_temp.inserted('triggered', '{"mail": "ada", "a": "y"}'),
    '{"outcome": "duplicate", "row_data": {"mail": "ada", "a": "x"}}', 'its_duplicate');
SELECT is(pg_temp.inserted('triggered', '{"mail": "Ada", "a": "y"}'),
    '{"outcome": "duplicate", "row_data": {"mail": "ada", "a": "x"}}', 'duplicate_that_a_trigger_made');
SELECT is(pg_temp.inserted('triggered', '{"mail": "eve", "a": "none"}'), '"09000"', 'row_that_a_trigger_suppresses');
SELECT is((SELECT count(*) FROM row_unique.triggered), 1::bigint, 'is_not_inserted_and_not_called_a_duplicate');
-- They run once for each call. A sequence counts what is undone, too.
CREATE SEQUENCE row_unique.runs;
CREATE FUNCTION row_unique.counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('row_unique.runs');
    IF TG_LEVEL = 'STATEMENT' THEN RETURN NULL; END IF;
    NEW.mail := lower(NEW.mail);
    RETURN NEW;
END $$;
CREATE TABLE row_unique.counting (mail text PRIMARY KEY, slug text UNIQUE GENERATED ALWAYS AS (left(mail, 2)) STORED);
CREATE TRIGGER first BEFORE INSERT ON row_unique.counting EXECUTE FUNCTION row_unique.counted();
CREATE TRIGGER counted BEFORE INSERT ON row_unique.counting FOR EACH ROW EXECUTE FUNCTION row_unique.counted();
CREATE TRIGGER last AFTER INSERT ON row_unique.counting EXECUTE FUNCTION row_unique.counted();
CREATE TABLE row_unique.counting_parts (id int, mail text, PRIMARY KEY (mail)) PARTITION BY LIST (mail);
CREATE TABLE row_unique.counting_part (mail text NOT NULL, gone int, id int);
ALTER TABLE row_unique.counting_part DROP gone;
ALTER TABLE row_unique.counting_parts ATTACH PARTITION row_unique.counting_part DEFAULT;
CREATE TRIGGER counted BEFORE INSERT ON row_unique.counting_part FOR EACH ROW EXECUTE FUNCTION row_unique.counted();
CREATE FUNCTION pg_temp.counting(target text, new_row text, columns text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    before bigint := nextval('row_unique.runs');
    answer jsonb := pg_temp.inserted(target, new_row, columns);
BEGIN
    RETURN concat_ws(' ', coalesce(answer ->> 'outcome', answer #>> '{}'), answer #>> '{row_data,mail}', nextval('row_unique.runs') - before - 1);
END $$;
SELECT is(pg_temp.counting('counting', '{"mail": "Ada"}', '{mail}'), 'inserted ada 3', 'triggers_run_once');
SELECT is(pg_temp.counting('counting', '{"mail": "ADA"}', '{mail}'), 'duplicate ada 3', 'also_for_a_duplicate_that_they_made');
SELECT is(pg_temp.counting('counting', '{"mail": "ADELE"}', '{slug}'), 'duplicate ada 3', 'or_that_is_generated_from_what_they_made');
SELECT is(pg_temp.counting('counting_parts', '{"mail": "Ada"}', '{mail}'), 'inserted ada 1', 'triggers_of_a_partition');
SELECT is(pg_temp.counting('counting_parts', '{"mail": "aDA"}', '{mail}'), 'duplicate ada 1', 'and_the_duplicates_that_they_make');
CREATE TABLE row_unique.after (id int PRIMARY KEY, a int);
CREATE FUNCTION row_unique.raise_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE row_unique.after SET a = 77
    WHERE id = NEW.id; RAISE EXCEPTION USING ERRCODE = NEW.a::text; END $$;
CREATE TRIGGER raise_it AFTER INSERT ON row_unique.after FOR EACH ROW WHEN (NEW.a IS NOT NULL) EXECUTE FUNCTION row_unique.raise_it();
SELECT is(pg_temp.inserted('after', '{"id": 1, "a": 23505}'), '"23505"', 'unique_violation_of_a_trigger_is_not_a_duplicate');
CREATE TABLE row_unique.ruled (id int PRIMARY KEY);
CREATE RULE never AS ON INSERT TO row_unique.ruled DO INSTEAD NOTHING;
SELECT matches(pg_temp.inserted('ruled', '{"id": 1}')::text, '^"(09000|0A000)"$', 'row_that_a_rule_suppresses');

-- Foreign keys, partitions, heirs.
CREATE TABLE row_unique.referring (id int PRIMARY KEY, mail text REFERENCES row_unique.triggered);
SELECT is(pg_temp.inserted('referring', '{"id": 1, "mail": "nobody"}'), '"23503"', 'violation_of_a_foreign_key');
CREATE TABLE row_unique.parted (a text, id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE row_unique.parted_eu (region text NOT NULL, gone int, id int NOT NULL, a text);
ALTER TABLE row_unique.parted_eu DROP gone;
ALTER TABLE row_unique.parted ATTACH PARTITION row_unique.parted_eu FOR VALUES IN ('eu');
SELECT is(pg_temp.inserted('parted', '{"id": 1, "region": "eu", "a": "x"}'),
    '{"outcome": "inserted", "row_data": {"id": 1, "region": "eu", "a": "x"}}', 'row_of_a_partitioned_table');
SELECT is(pg_temp.inserted('parted', '{"id": 1, "region": "eu", "a": "y"}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "region": "eu", "a": "x"}}', 'its_duplicate_there');
SELECT is(pg_temp.inserted('parted_eu', '{"id": 1, "region": "eu"}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "region": "eu", "a": "x"}}', 'and_in_the_partition_itself');
SELECT is(pg_temp.inserted('parted', '{"id": 1, "region": "us"}') || pg_temp.inserted('parted_eu',
    '{"id": 1, "region": "us"}'), '["23514", "23514"]', 'no_partition_for_it');
CREATE TABLE row_unique.heir () INHERITS (row_unique.whole);
INSERT INTO row_unique.heir VALUES (70, 70);
SELECT is(pg_temp.inserted('whole', '{"id": 70}'), '{"outcome": "inserted", "row_data": {"id": 70, "a": 2}}',
    'heirs_rows_are_no_duplicates');

-- Read-only transactions; an uncommitted duplicate is waited for, and only a committed one is called one.
BEGIN READ ONLY;
SELECT is(pg_temp.inserted('users', '{"id": 60}'), '"25006"', 'read_only_transaction');
ROLLBACK;
SELECT current_setting('max_prepared_transactions')::int > 0 AS possible \gset
\if :possible
BEGIN;
SELECT outcome FROM unique_insert('row_unique.users', '{"id": 61, "mail": "61"}');
PREPARE TRANSACTION 'idem pgtap unique';
SET lock_timeout = '100 ms';
SELECT is(pg_temp.inserted('users', '{"id": 61}'), '"55P03"', 'uncommitted_duplicate_is_waited_for');
RESET lock_timeout;
ROLLBACK PREPARED 'idem pgtap unique';
SELECT is(pg_temp.inserted('users', '{"id": 61}') ->> 'outcome', 'inserted', 'and_is_none_after_its_rollback');
\else
SELECT skip(2, 'max_prepared_transactions is 0');
\endif

-- With the version guard.
SELECT optimistic_enable('row_unique.after');
SELECT is(pg_temp.inserted('after', '{"id": 5}') || pg_temp.inserted('after', '{"id": 5}'),
    '{"outcome": "duplicate", "row_data": {"id": 5, "a": null, "version": 1}}', 'version_begins_at_1');

DROP SCHEMA row_unique CASCADE;
SELECT * FROM finish();
