-- guarded_insert: for tables that cannot have the unique index. An ordinary index, and a lock on the value.
\set schema row_guarded
\ir ../include/row_flows.psql
SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE starts_with(gid, 'idem pgtap ') \gexec
SELECT plan(60);
SET statement_timeout = '30 s';
CREATE FUNCTION pg_temp.inserted(target text, new_row text, columns text) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answer(format('SELECT * FROM guarded_insert(''row_guarded.%s'', %L, %L)', target, new_row, columns))
$$;
-- The locks of idem's own, and those that an application could have taken itself (one or two keys).
CREATE FUNCTION pg_temp.locks(OUT own bigint, OUT applications bigint) LANGUAGE sql VOLATILE AS $$
    SELECT count(*) FILTER (WHERE objsubid NOT IN (1, 2)), count(*) FILTER (WHERE objsubid IN (1, 2)) FROM pg_locks
        WHERE pid = pg_backend_pid() AND locktype = 'advisory'
$$;

-- Outcomes.
CREATE TABLE row_guarded.events (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, source text, ref int,
    note varchar(5) DEFAULT 'none', loud text GENERATED ALWAYS AS (upper(note)) STORED);
CREATE INDEX ON row_guarded.events (source, ref);
SELECT is(pg_temp.inserted('events', '{"source": "a", "ref": 1}', '{source,ref}'),
    '{"outcome": "inserted", "row_data": {"id": 1, "source": "a", "ref": 1, "note": "none", "loud": "NONE"}}', 'row_is_new');
SELECT is(pg_temp.inserted('events', '{"source": "a", "ref": "1", "note": "other"}', '{source,ref}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "source": "a", "ref": 1, "note": "none", "loud": "NONE"}}',
        'row_that_is_there_is_the_answer');
SELECT is(pg_temp.inserted('events', '{"source": "a", "ref": 2}', '{ref,source}') ->> 'outcome', 'inserted', 'columns_in_any_order');
SELECT is(pg_temp.inserted('events', '{"source": "a", "ref": 2}', '{ref,source}') #> '{row_data,ref}', '2', 'and_its_duplicate');
SELECT is(pg_temp.inserted('events', '{"source": "b", "ref": 1}', '{source}') ->> 'outcome', 'inserted', 'first_column_of_the_index');
SELECT is(pg_temp.inserted('events', '{"source": "b", "ref": 7}', '{source}') #> '{row_data,ref}', '1', 'and_its_duplicate_too');
SELECT is((SELECT string_agg(source || ref, ' ' ORDER BY source, ref) FROM row_guarded.events), 'a1 a2 b1', 'duplicates_insert_nothing');
SELECT is((SELECT string_agg(outcome, ' ') FROM generate_series(1, 3) n, guarded_insert('row_guarded.events',
    jsonb_build_object('source', 'c', 'ref', n), '{source}')), 'inserted duplicate duplicate',
    'duplicates_within_one_statement');
INSERT INTO row_guarded.events (source, ref) VALUES ('dup', 1), ('dup', 2);
SELECT is(pg_temp.inserted('events', '{"source": "dup"}', '{source}') #> '{row_data,source}', '"dup"', 'more_than_one_that_are_there');

-- The lock: until the transaction ends, in a space of its own.
BEGIN;
SELECT outcome FROM guarded_insert('row_guarded.events', '{"source": "locked", "ref": 1}', '{source}');
SELECT is(applications, 0::bigint, 'applications_advisory_locks_are_left_alone') FROM pg_temp.locks();
SELECT ok(own > 0, 'value_is_locked') FROM pg_temp.locks();
COMMIT;
SELECT is(own + applications, 0::bigint, 'and_free_after_the_transaction') FROM pg_temp.locks();
BEGIN;
SAVEPOINT s;
SELECT outcome FROM guarded_insert('row_guarded.events', '{"source": "undone"}', '{source}');
ROLLBACK TO s;
SELECT is(pg_temp.inserted('events', '{"source": "undone"}', '{source}') ->> 'outcome', 'inserted', 'savepoint_takes_its_row_back');
ROLLBACK;

-- Columns that new_row leaves out.
CREATE TABLE row_guarded.defaults (a int DEFAULT 1, b int, c int NOT NULL DEFAULT 5);
CREATE INDEX ON row_guarded.defaults (a, b);
CREATE INDEX ON row_guarded.defaults (b);
SELECT is(pg_temp.inserted('defaults', '{}', '{a}') || pg_temp.inserted('defaults', '{"b": 2}', '{a}'),
    '{"outcome": "duplicate", "row_data": {"a": 1, "b": null, "c": 5}}', 'default_is_the_value_that_is_looked_for');
SELECT is(
    (SELECT string_agg(format('%s %s: %s', new_row, columns, answer), '; ')
       FROM (VALUES ('{}', '{b}'), ('{"b": null}', '{b}'), ('{"a": null}', '{a}'), ('{"a": 1}', '{a,b}'),
           ('{"a": 1, "b": null}', '{b,a}')) AS bad (new_row, columns), pg_temp.inserted('defaults', new_row, columns) AS answer
      WHERE answer <> '"22004"'),
    NULL, 'null_is_no_value_to_guard');

-- Which index.
CREATE TABLE row_guarded.indexed (a int, b int, c int, d int, e int, f int, g int);
CREATE INDEX ON row_guarded.indexed (a) WHERE a > 0;
CREATE INDEX ON row_guarded.indexed (abs(b));
CREATE INDEX ON row_guarded.indexed (c, d);
CREATE INDEX ON row_guarded.indexed (c) INCLUDE (e);
CREATE UNIQUE INDEX ON row_guarded.indexed (f);
SELECT is(
    (SELECT string_agg(format('%s: %s', columns, answer), '; ')
       FROM unnest(ARRAY['{a}', '{b}', '{d}', '{e}', '{c,e}', '{d,e}', '{g}', '{c,d,g}', '{a,g}']) AS columns,
            pg_temp.inserted('indexed', '{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}', columns) AS answer
      WHERE answer <> '"42P10"'),
    NULL, 'columns_that_are_not_the_first_of_an_index');
SELECT ok(state = '42P10' AND hint ~ 'CREATE INDEX', format('has_a_hint: %s', hint)) FROM pg_temp.error_of($$
    SELECT guarded_insert('row_guarded.indexed', '{"g": 1}', '{g}') $$);
SELECT is(pg_temp.inserted('indexed', '{"c": 1, "d": 1}', '{d,c}') ->> 'outcome', 'inserted', 'all_columns_of_an_index');
SELECT is(pg_temp.inserted('indexed', '{"f": 1}', '{f}') ->> 'outcome' || ' ' || (pg_temp.inserted('indexed', '{"f": 1}',
    '{f}') ->> 'outcome'), 'inserted duplicate', 'unique_index_will_do_too');
CREATE INDEX indexed_g ON row_guarded.indexed (g);
SELECT is(pg_temp.inserted('indexed', '{"g": 1}', '{g}') ->> 'outcome', 'inserted', 'index_made_as_the_hint_says');
DROP INDEX row_guarded.indexed_g;
SELECT is(pg_temp.inserted('indexed', '{"g": 1}', '{g}'), '"42P10"', 'index_that_is_dropped');

-- Errors.
SELECT is(
    (SELECT string_agg(format('%s %s: %s', new_row, columns, state), '; ')
       FROM (VALUES (NULL, '{source}', '22004'), ('{"source": "e"}', NULL, '22004'), ('{"source": "e"}', '{}', '22023'),
           ('{"source": "e"}', '{NULL}', '22004'), ('{"source": "e", "ref": 1}', '{source,NULL}', '22004'),
                    ('[]', '{source}', '22023'), ('null', '{source}', '22023'), ('{"source": "e"}', '{missing}', '42703'),
                        ('{"source": "e"}', '{Source}', '42703'), ('{"source": "e", "missing": 1}', '{source}', '42703'),
                    ('{"source": "e", "ref": "x"}', '{source}', '22P02'), ('{"source": "e", "note": "sixsix"}', '{source}',
                        '22001'), ('{"source": "e", "loud": "x"}', '{source}', '428C9'),
                    ('{"source": "e", "id": 1}', '{source}', '428C9'), ('{"source": "a", "ref": "x"}', '{source}',
                        '22P02')) AS bad (new_row, columns, code),
            pg_temp.inserted('events', new_row, columns) AS state
      WHERE state <> to_jsonb(code)),
    NULL, 'bad_arguments');
SELECT is(pg_temp.state_of($$ SELECT guarded_insert(NULL, '{"source": "e"}', '{source}') $$), '22004', 'null_target');
SELECT is((SELECT count(*) FROM row_guarded.events WHERE source = 'e'), 0::bigint, 'errors_insert_nothing');
CREATE TABLE row_guarded.constrained (id int PRIMARY KEY, word text NOT NULL, n int CHECK (n > 0),
    of int REFERENCES row_guarded.constrained);
CREATE INDEX ON row_guarded.constrained (word);
INSERT INTO row_guarded.constrained VALUES (1, 'one');
SELECT is(
    (SELECT string_agg(format('%s: %s', new_row, state), '; ')
       FROM (VALUES ('{"id": 1, "word": "new"}', '23505'), ('{"id": 2, "word": "new", "n": 0}', '23514'),
           ('{"id": 2, "word": "new", "of": 9}', '23503'), ('{"word": "new"}', '23502'), ('{"id": 3000000000, "word": "new"}',
           '22003')) AS bad (new_row, code),
            pg_temp.inserted('constrained', new_row, '{word}') AS state
      WHERE state <> to_jsonb(code)),
    NULL, 'constraints_raise_their_own_errors');
SELECT is(pg_temp.inserted('constrained', '{"id": 1, "word": "one", "n": 0}', '{word}') ->> 'outcome', 'duplicate',
    'duplicate_violates_nothing');

-- The types' own equality decides what is a duplicate.
SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i' AND collname = 'und-x-icu') AS icu, EXISTS (SELECT
    FROM pg_available_extensions WHERE name = 'citext') AS citext \gset
CREATE DOMAIN row_guarded.percent AS numeric CHECK (VALUE <= 100);
CREATE TYPE row_guarded.mood AS ENUM ('sad', 'glad');
CREATE TABLE row_guarded.equal (n int, exact numeric, approx float8, padded char(5), moment timestamptz, tags text[],
    doc jsonb, percent row_guarded.percent, mood row_guarded.mood, bytes bytea, ip inet, span int4range);
INSERT INTO row_guarded.equal VALUES (1, 1.50, 'NaN', 'ab', '2024-03-31 12:00+02', '{a,NULL}', '{"a": 1.0}', 5, 'sad', '\xff',
    '10.0.0.1', '[1,5)'), (2, 0, 0, '', 'infinity', '{}', '[]', 0, 'glad', '', '::1', 'empty');
SELECT format('CREATE INDEX ON row_guarded.equal (%I)', attname) FROM pg_attribute
    WHERE attrelid = 'row_guarded.equal'::regclass AND attnum > 1 \gexec
SELECT is(
    (SELECT string_agg(format('%s: %s', new_row, answer), '; ')
       FROM (VALUES ('exact', '1.5', 1), ('exact', '"1.500"', 1), ('exact', '0.00', 2), ('approx', '"NaN"', 1),
           ('approx', '-0.0', 2), ('padded', '"ab   "', 1), ('padded', '"   "', 2),
                    ('moment', '"2024-03-31T10:00:00Z"', 1), ('moment', '"infinity"', 2), ('tags', '["a", null]', 1),
                        ('tags', '"{}"', 2), ('doc', '{"a": 1}', 1), ('doc', '[]', 2), ('percent', '5.00', 1),
                        ('mood', '"glad"', 2),
                    ('bytes', '"\\xFF"', 1), ('ip', '"10.0.0.1/32"', 1), ('span', '"(0,4]"', 1), ('span', '"[3,3)"',
                        2)) AS v (name, value, row),
            format('{"n": 9, "%s": %s}', name, value) AS new_row, pg_temp.inserted('equal', new_row, format('{%s}', name)) AS answer
      WHERE answer ->> 'outcome' IS DISTINCT FROM 'duplicate' OR (answer #>> '{row_data,n}')::int <> v.row),
    NULL, 'equal_values_in_another_spelling');
\if :icu
CREATE COLLATION row_guarded.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE row_guarded.collated (id int, word text COLLATE row_guarded.any_case);
CREATE INDEX ON row_guarded.collated (word);
SELECT is(pg_temp.inserted('collated', '{"id": 1, "word": "Word"}', '{word}') || pg_temp.inserted('collated',
    '{"id": 2, "word": "WORD"}', '{word}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "word": "Word"}}', 'nondeterministic_collation');
\else
SELECT skip(1, 'no ICU');
\endif
\if :citext
CREATE EXTENSION IF NOT EXISTS citext SCHEMA row_guarded;
SELECT nspname AS citext_schema FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'citext' \gset
CREATE TABLE row_guarded.mails (id int, mail :"citext_schema".citext);
CREATE INDEX ON row_guarded.mails (mail);
SELECT is(pg_temp.inserted('mails', '{"id": 1, "mail": "Ada"}', '{mail}') || pg_temp.inserted('mails',
    '{"id": 2, "mail": "ADA"}', '{mail}'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "mail": "Ada"}}', 'citext');
\else
SELECT skip(1, 'no citext');
\endif
-- Values that the index finds equal take the same locks, also where the index has another equality than the type.
CREATE FUNCTION row_guarded.compare(a text, b text) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT bttextcmp(lower(a), lower(b)) $$;
CREATE FUNCTION row_guarded.lt(a text, b text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT row_guarded.compare(a, b) < 0 $$;
CREATE FUNCTION row_guarded.le(a text, b text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT row_guarded.compare(a, b) <= 0 $$;
CREATE FUNCTION row_guarded.eq(a text, b text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT row_guarded.compare(a, b) = 0 $$;
CREATE FUNCTION row_guarded.ge(a text, b text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT row_guarded.compare(a, b) >= 0 $$;
CREATE FUNCTION row_guarded.gt(a text, b text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT row_guarded.compare(a, b) > 0 $$;
CREATE OPERATOR row_guarded.<# (LEFTARG = text, RIGHTARG = text, FUNCTION = row_guarded.lt);
CREATE OPERATOR row_guarded.<=# (LEFTARG = text, RIGHTARG = text, FUNCTION = row_guarded.le);
CREATE OPERATOR row_guarded.=# (LEFTARG = text, RIGHTARG = text, FUNCTION = row_guarded.eq);
CREATE OPERATOR row_guarded.>=# (LEFTARG = text, RIGHTARG = text, FUNCTION = row_guarded.ge);
CREATE OPERATOR row_guarded.># (LEFTARG = text, RIGHTARG = text, FUNCTION = row_guarded.gt);
CREATE OPERATOR CLASS row_guarded.any_case_ops FOR TYPE text USING btree AS OPERATOR 1 row_guarded.<#, OPERATOR 2 row_guarded.<=#,
    OPERATOR 3 row_guarded.=#, OPERATOR 4 row_guarded.>=#, OPERATOR 5 row_guarded.>#, FUNCTION 1 row_guarded.compare(text, text);
CREATE TYPE row_guarded.word_range AS RANGE (subtype = text, subtype_opclass = row_guarded.any_case_ops, multirange_type_name = row_guarded.word_ranges);
CREATE TYPE row_guarded.pair AS (n numeric, c char(4));
CREATE TYPE row_guarded.ranged AS (n int, r row_guarded.word_range);
CREATE TABLE row_guarded.alike (n int, word text, exact numeric, approx float8, padded char(5), exacts numeric[], approxes float8[], pair row_guarded.pair,
    pairs row_guarded.pair[], exact_range numrange, word_range row_guarded.word_range, word_ranges row_guarded.word_ranges,
    ranged row_guarded.ranged, word_range_list row_guarded.word_range[]);
CREATE INDEX ON row_guarded.alike (word row_guarded.any_case_ops);
SELECT format('CREATE INDEX ON row_guarded.alike (%I)', attname) FROM pg_attribute
    WHERE attrelid = 'row_guarded.alike'::regclass AND attnum > 2 \gexec
-- Which of the two calls was given another lock than the other, or inserted a second row.
CREATE FUNCTION pg_temp.apart(target text, name text, one text, other text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    outcomes text;
    before bigint;
    first bigint;
    second bigint;
BEGIN
    SELECT own FROM pg_temp.locks() INTO before;
    outcomes := pg_temp.inserted(target, format('{"%s": %s}', name, one), format('{%s}', name)) ->> 'outcome';
    SELECT own FROM pg_temp.locks() INTO first;
    outcomes := outcomes || ' ' || (pg_temp.inserted(target, format('{"%s": %s}', name, other), format('{%s}', name)) ->> 'outcome');
    SELECT own FROM pg_temp.locks() INTO second;
    RETURN CASE WHEN outcomes <> 'inserted duplicate' OR first <= before OR second > first
           THEN format('%s %s %s: %s, locks: %s %s', name, one, other, outcomes, first - before, second - first) END;
END $$;
BEGIN;
SELECT is(string_agg(pg_temp.apart('alike', name, one, other), '; '), NULL, 'equal_values_take_the_same_locks')
  FROM (VALUES ('word', '"Zed"', '"zed"'), ('exact', '1.0', '1'), ('approx', '"-0"', '0'), ('padded', '"a"', '"a  "'), ('exacts', '[1.0]', '[1]'),
           ('approxes', '[0]', '["-0"]'), ('pair', '{"n": 1.0, "c": "a"}', '{"n": 1, "c": "a  "}'), ('pairs', '[{"n": 1.0}]', '[{"n": 1}]'),
           ('exact_range', '"[1.0,2]"', '"[1,2.00]"'), ('word_range', '"[Zed,zee]"', '"[zed,Zee]"'), ('word_ranges', '"{[Zed,zee]}"', '"{[zed,Zee]}"'),
           ('ranged', '{"n": 1, "r": "[Zed,zee]"}', '{"n": 1, "r": "[zed,Zee]"}'), ('word_range_list', '["[Zed,zee]"]', '["[zed,Zee]"]'))
       AS v (name, one, other);
\if :icu
CREATE TABLE row_guarded.collated_index (plain text, list text[]);
CREATE INDEX ON row_guarded.collated_index (plain COLLATE row_guarded.any_case);
CREATE INDEX ON row_guarded.collated_index (list COLLATE row_guarded.any_case);
SELECT is(concat(pg_temp.apart('collated', 'word', '"Zed"', '"zed"'), pg_temp.apart('collated_index', 'plain', '"Zed"', '"zed"'),
    pg_temp.apart('collated_index', 'list', '["Zed"]', '["zed"]')), '', 'equal_by_collation');
\else
SELECT skip(1, 'no ICU');
\endif
\if :citext
ALTER TABLE row_guarded.mails ADD list :"citext_schema".citext[];
CREATE INDEX ON row_guarded.mails (list);
SELECT is(concat(pg_temp.apart('mails', 'mail', '"Zed"', '"zed"'), pg_temp.apart('mails', 'list', '["Zed"]', '["zed"]')), '', 'equal_by_citext');
\else
SELECT skip(1, 'no citext');
\endif
ROLLBACK;
SELECT pass('rolled_back');
CREATE TABLE row_guarded.wide (id int, a text, b text);
CREATE INDEX ON row_guarded.wide (a, b);
SELECT is(
    (SELECT string_agg(outcome, ' ' ORDER BY n) FROM (VALUES (1, 'a', 'bc'), (2, 'ab', 'c'), (3, '', 'abc'), (4, 'abc', ''),
        (5, 'ab', 'c')) AS v (n, a, b),
            guarded_insert('row_guarded.wide', jsonb_build_object('id', n, 'a', a, 'b', b), '{a,b}')),
    'inserted inserted inserted inserted duplicate', 'columns_are_not_run_together');

-- Triggers and rules.
CREATE TABLE row_guarded.triggered (word text, a text);
CREATE INDEX ON row_guarded.triggered (word);
CREATE FUNCTION row_guarded.edit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.a = 'none' THEN RETURN NULL; END IF;
    NEW.a := upper(NEW.a);
    RETURN NEW;
END $$;
CREATE TRIGGER edit BEFORE INSERT ON row_guarded.triggered FOR EACH ROW EXECUTE FUNCTION row_guarded.edit();
SELECT is(pg_temp.inserted('triggered', '{"word": "x", "a": "a"}', '{word}'),
    '{"outcome": "inserted", "row_data": {"word": "x", "a": "A"}}', 'row_as_a_trigger_made_it');
SELECT is(pg_temp.inserted('triggered', '{"word": "y", "a": "none"}', '{word}'), '"09000"', 'row_that_a_trigger_suppresses');
SELECT is(pg_temp.inserted('triggered', '{"word": "x", "a": "none"}', '{word}') ->> 'outcome', 'duplicate',
    'duplicate_before_a_trigger_that_suppresses');
-- A trigger that changes the match column. It runs once for each call, and what it does for a duplicate is undone.
CREATE TABLE row_guarded.upper (word text, part int) PARTITION BY LIST (part);
CREATE TABLE row_guarded.upper_1 (part int, gone int, word text);
ALTER TABLE row_guarded.upper_1 DROP gone;
ALTER TABLE row_guarded.upper ATTACH PARTITION row_guarded.upper_1 DEFAULT;
CREATE INDEX ON row_guarded.upper (word);
CREATE TABLE row_guarded.noted (word text);
CREATE SEQUENCE row_guarded.runs;
CREATE FUNCTION row_guarded.raise_case() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('row_guarded.runs');
    INSERT INTO row_guarded.noted VALUES (NEW.word);
    NEW.word := upper(NEW.word);
    RETURN NEW;
END $$;
CREATE TRIGGER raise_case BEFORE INSERT ON row_guarded.upper FOR EACH ROW EXECUTE FUNCTION row_guarded.raise_case();
SELECT is((SELECT string_agg(pg_temp.inserted(target, new_row, '{word}') #>> '{outcome}', ' ' ORDER BY n)
             FROM (VALUES (1, 'upper', '{"word": "a"}'), (2, 'upper', '{"word": "a"}'), (3, 'upper_1', '{"word": "A"}'), (4, 'upper_1', '{"word": "b"}'),
                          (5, 'upper', '{"word": "B"}')) AS v (n, target, new_row)),
    'inserted duplicate duplicate inserted duplicate', 'trigger_that_changes_the_match_column');
SELECT is((SELECT string_agg(word, ' ' ORDER BY word) FROM row_guarded.upper), 'A B', 'makes_no_duplicates');
SELECT is((SELECT last_value FROM row_guarded.runs), 5::bigint, 'and_runs_once_for_each_call');
SELECT is((SELECT string_agg(word, ' ' ORDER BY word) FROM row_guarded.noted), 'a b', 'undone_for_duplicates');
-- One of a single partition.
DROP TRIGGER raise_case ON row_guarded.upper;
CREATE TRIGGER raise_case BEFORE INSERT ON row_guarded.upper_1 FOR EACH ROW EXECUTE FUNCTION row_guarded.raise_case();
SELECT is(pg_temp.inserted('upper', '{"word": "c"}', '{word}') ->> 'outcome', 'inserted', 'row_that_a_trigger_of_a_partition_changes');
SELECT is(pg_temp.inserted('upper', '{"word": "c"}', '{word}'), '"09000"', 'duplicate_that_it_makes');
SELECT is(pg_temp.inserted('upper', '{"word": "C"}', '{word}') ->> 'outcome', 'duplicate', 'duplicate_as_it_was_given');
CREATE TABLE row_guarded.slugs (name text, slug text GENERATED ALWAYS AS (lower(name)) STORED);
CREATE INDEX ON row_guarded.slugs (slug);
SELECT is(pg_temp.inserted('slugs', '{"name": "Ada"}', '{slug}') || pg_temp.inserted('slugs', '{"name": "ADA"}', '{slug}'),
    '{"outcome": "duplicate", "row_data": {"name": "Ada", "slug": "ada"}}', 'generated_match_column');
CREATE TABLE row_guarded.ruled (word text);
CREATE INDEX ON row_guarded.ruled (word);
CREATE RULE never AS ON INSERT TO row_guarded.ruled DO INSTEAD NOTHING;
SELECT matches(pg_temp.inserted('ruled', '{"word": "x"}', '{word}')::text, '^"(09000|0A000)"$', 'row_that_a_rule_suppresses');

-- Partitioned tables: those whose key rules the unique index out are what this is for.
CREATE TABLE row_guarded.parted (at date, word text, id int) PARTITION BY RANGE (at);
CREATE TABLE row_guarded.parted_1 PARTITION OF row_guarded.parted FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE row_guarded.parted_2 (id int, gone int, word text, at date);
ALTER TABLE row_guarded.parted_2 DROP gone;
ALTER TABLE row_guarded.parted ATTACH PARTITION row_guarded.parted_2 FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
CREATE INDEX ON row_guarded.parted (word);
SELECT is(pg_temp.inserted('parted', '{"at": "2024-01-15", "word": "x", "id": 1}', '{word}') ->> 'outcome', 'inserted',
    'row_of_a_partitioned_table');
SELECT is(pg_temp.inserted('parted', '{"at": "2024-02-15", "word": "x", "id": 2}', '{word}'),
    '{"outcome": "duplicate", "row_data": {"at": "2024-01-15", "word": "x", "id": 1}}', 'its_duplicate_for_another_partition');
SELECT is(pg_temp.inserted('parted_2', '{"at": "2024-02-15", "word": "x", "id": 2}', '{word}') ->> 'outcome', 'inserted',
    'partition_itself_has_its_own_rows');
SELECT is(pg_temp.inserted('parted', '{"at": "2025-01-15", "word": "y"}', '{word}'), '"23514"', 'no_partition_for_it');
-- An index of one partition that finds more values equal than the parent's does.
CREATE TABLE row_guarded.cased (at date, word text) PARTITION BY RANGE (at);
CREATE TABLE row_guarded.cased_1 PARTITION OF row_guarded.cased FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE INDEX ON row_guarded.cased_1 (word row_guarded.any_case_ops);
CREATE INDEX ON row_guarded.cased (word);
CREATE TABLE row_guarded.heir () INHERITS (row_guarded.defaults);
INSERT INTO row_guarded.heir VALUES (70, 70);
SELECT is(pg_temp.inserted('defaults', '{"b": 70}', '{b}') ->> 'outcome', 'inserted', 'heirs_rows_are_no_duplicates');

BEGIN READ ONLY;
SELECT is(pg_temp.inserted('events', '{"source": "r"}', '{source}'), '"25006"', 'read_only_transaction');
ROLLBACK;

-- Another caller, played by a prepared transaction.
SELECT current_setting('max_prepared_transactions')::int > 0 AS possible \gset
\if :possible
BEGIN;
SELECT outcome FROM guarded_insert('row_guarded.events', '{"source": "other", "ref": 1}', '{source,ref}');
SELECT outcome FROM guarded_insert('row_guarded.equal', '{"exact": 7.0}', '{exact}');
SELECT outcome FROM guarded_insert('row_guarded.parted', '{"at": "2024-01-15", "word": "other"}', '{word}');
SELECT outcome FROM guarded_insert('row_guarded.cased', '{"at": "2024-01-15", "word": "Zed"}', '{word}');
PREPARE TRANSACTION 'idem pgtap guarded';
SET lock_timeout = '100 ms';
SELECT is(pg_temp.inserted('events', '{"source": "other", "ref": 1}', '{source,ref}'), '"55P03"', 'value_of_another_is_waited_for');
SELECT is(pg_temp.inserted('events', '{"ref": 1, "source": "other"}', '{ref,source}'), '"55P03"',
    'columns_in_any_order_are_the_same_value');
SELECT is(pg_temp.inserted('equal', '{"exact": "7"}', '{exact}'), '"55P03"', 'as_are_equal_values_in_another_spelling');
SELECT is(pg_temp.inserted('parted_1', '{"at": "2024-01-16", "word": "other"}', '{word}'), '"55P03"',
    'and_those_of_a_partition_and_its_parent');
SELECT is(pg_temp.inserted('cased_1', '{"at": "2024-01-16", "word": "zed"}', '{word}'), '"55P03"', 'also_where_only_the_partition_finds_them_equal');
SELECT is(pg_temp.inserted('events', '{"source": "other", "ref": 2}', '{source,ref}') ->> 'outcome', 'inserted', 'other_values_are_free');
RESET lock_timeout;
COMMIT PREPARED 'idem pgtap guarded';
SELECT is(pg_temp.inserted('events', '{"source": "other", "ref": 1}', '{source,ref}') ->> 'outcome', 'duplicate',
    'and_is_a_duplicate_after_its_commit');
BEGIN;
SELECT outcome FROM guarded_insert('row_guarded.events', '{"source": "undone"}', '{source}');
PREPARE TRANSACTION 'idem pgtap guarded';
ROLLBACK PREPARED 'idem pgtap guarded';
SELECT is(pg_temp.inserted('events', '{"source": "undone"}', '{source}') ->> 'outcome', 'inserted', 'and_none_after_its_rollback');
\else
SELECT skip(8, 'max_prepared_transactions is 0');
\endif

DROP SCHEMA row_guarded CASCADE;
SELECT * FROM finish();
