-- idem_machine_attach, idem_machine_detach: what can be attached, by whom, and what it takes to change a machine then.
\ir ../include/helpers.psql
SELECT plan(80);
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS attach, attach_closed CASCADE;
DELETE FROM idem_machines WHERE starts_with(name, 'attach:');
CREATE SCHEMA attach;
CREATE ROLE tap_attacher;
SELECT idem_grant('tap_attacher');
GRANT USAGE ON SCHEMA attach TO tap_attacher;
SELECT idem_machine_define('attach:m', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c"]}}');

CREATE FUNCTION pg_temp.refusal(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ': ' || detail;
END $$;

-- Attach and see whether the guard works.
CREATE FUNCTION pg_temp.guards(target regclass, state_column name) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    states text[] := '{}';
BEGIN
    PERFORM idem.idem_machine_attach(target, state_column, 'attach:m');
    FOR i IN 1 .. 2 LOOP
        states := states || pg_temp.state_of(format('INSERT INTO %s (%I) VALUES (%L)', target, state_column, ('{a,b}'::text[])[i]));
    END LOOP;
    RETURN array_to_string(states, ' ');
END $$;

-- Types.
CREATE TYPE attach.exact AS ENUM ('a', 'b', 'c');
CREATE TYPE attach.lacking AS ENUM ('a', 'b');
CREATE DOMAIN attach.text_domain AS text;
CREATE DOMAIN attach.enum_domain AS attach.exact;
CREATE DOMAIN attach.domain_domain AS attach.enum_domain;
CREATE TABLE attach.types (id int, t text, v varchar(10), e attach.exact, td attach.text_domain, ed attach.enum_domain,
    dd attach.domain_domain, l attach.lacking, i int, n name, c char(3), j jsonb, b "char", ta text[],
    g text GENERATED ALWAYS AS ('a') STORED);
SELECT is(pg_temp.refusal(format('SELECT idem_machine_attach(''attach.types'', %L, ''attach:m'')', name)),
    '42804: It is of type ' || type || '.', 'column_of_type_' || type)
  FROM (VALUES ('i', 'integer'), ('n', 'name'), ('c', 'character'), ('j', 'jsonb'), ('b', '"char"'), ('ta', 'text[]')) AS bad (name, type);
SELECT is(pg_temp.state_of($$ SELECT idem_machine_attach('attach.types', 'l', 'attach:m') $$), '22023', 'enum_that_lacks_a_state');
DROP TABLE attach.types;
CREATE FUNCTION pg_temp.guards_type(type text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    states text;
BEGIN
    EXECUTE format('CREATE TABLE attach.typed (id int, s %s)', type);
    states := pg_temp.guards('attach.typed', 's');
    DROP TABLE attach.typed;
    RETURN states;
END $$;
SELECT is(pg_temp.guards_type(type), 'ok ID003', 'guards_' || type)
  FROM unnest('{text,varchar(10),varchar,attach.exact,attach.text_domain,attach.enum_domain,attach.domain_domain}'::text[]) type;

-- Columns, tables, names.
CREATE TABLE attach.t (id int PRIMARY KEY, s text, "odd ""name'\" text);
SELECT throws_ok($$ SELECT idem_machine_attach('attach.t', 'none', 'attach:m') $$, '42703', NULL, 'unknown_column');
SELECT throws_ok($$ SELECT idem_machine_attach('attach.t', 'ctid', 'attach:m') $$, '42703', NULL, 'system_column');
SELECT throws_ok($$ SELECT idem_machine_attach('attach.t', 's', 'attach:none') $$, '42704', NULL, 'unknown_machine');
SELECT throws_ok($$ SELECT idem_machine_attach(NULL, 's', 'attach:m') $$, '22004', NULL, 'null_target');
SELECT throws_ok($$ SELECT idem_machine_attach('attach.t', NULL, 'attach:m') $$, '22004', NULL, 'null_column');
SELECT throws_ok($$ SELECT idem_machine_attach('attach.t', 's', NULL) $$, '22004', NULL, 'null_machine');
CREATE TABLE attach.defaults (s text);
SELECT idem_machine_attach('attach.defaults', 's', 'attach:m', NULL, NULL);
SELECT is((SELECT array_agg(encode(tgargs, 'escape')) FROM pg_trigger WHERE tgrelid = 'attach.defaults'::regclass),
    '{attach:m\\000s\\000no log\\000valid\\000}', 'null_log_and_validate_are_not_given');
SELECT throws_ok($$ SELECT idem_machine_attach(1::regclass, 's', 'attach:m') $$, '42P01', NULL, 'no_such_table');
CREATE VIEW attach.v AS SELECT * FROM attach.t;
CREATE MATERIALIZED VIEW attach.mv AS SELECT * FROM attach.t;
CREATE SEQUENCE attach.seq;
SELECT throws_ok(format('SELECT idem_machine_attach(%L, ''s'', ''attach:m'')', 'attach.' || name), '42809', NULL, 'attach_to_' || name)
  FROM unnest('{v,mv,seq}'::text[]) name;
CREATE TABLE attach."Odd table'" (id int, "odd ""name'\" text);
SELECT is(pg_temp.guards('attach."Odd table''"', 'odd "name''\'), 'ok ID003', 'odd_names');
SELECT lives_ok($$ SELECT idem_machine_detach('attach."Odd table''"', 'odd "name''\') $$, 'odd_names_are_detached');
SELECT idem_machine_define(E'attach:odd \\ ''"; DROP TABLE x', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
SELECT idem_machine_attach('attach."Odd table''"', 'odd "name''\', E'attach:odd \\ ''"; DROP TABLE x');
SELECT is(pg_temp.state_of($$ INSERT INTO attach."Odd table'" VALUES (1, 'b') $$), 'ID003', 'machine_with_an_odd_name');
CREATE TEMP TABLE temporary (id int, s text);
SELECT is(pg_temp.guards('temporary', 's'), 'ok ID003', 'temporary_table');
DO $$ BEGIN EXECUTE format('CREATE TABLE attach.long (%1$s1 text, %1$s2 text)', repeat('x', 62)); END $$;
SELECT idem_machine_attach('attach.long', repeat('x', 62) || '1', 'attach:m');
SELECT lives_ok($$ SELECT idem_machine_attach('attach.long', repeat('x', 62) || '2', 'attach:m') $$, 'names_of_triggers_differ');

-- Once is enough.
SELECT lives_ok($$ SELECT idem_machine_attach('attach.t', 's', 'attach:m') $$, 'attach');
SELECT throws_ok($$ SELECT idem_machine_attach('attach.t', 's', 'attach:m') $$, '42710', NULL, 'attach_again');
SELECT lives_ok($$ SELECT idem_machine_attach('attach.t', 'odd "name''\', 'attach:m') $$, 'attach_another_column');
SELECT lives_ok($$ SELECT idem_machine_detach('attach.t', 'odd "name''\') $$, 'detach_it');
SELECT throws_ok($$ SELECT idem_machine_detach('attach.t', 'odd "name''\') $$, '42704', NULL, 'detach_what_is_not_attached');
SELECT throws_ok($$ SELECT idem_machine_detach('attach.t', 'none') $$, '42703', NULL, 'detach_from_an_unknown_column');
SELECT is(pg_temp.state_of($$ INSERT INTO attach.t VALUES (9, 'b') $$), 'ID003', 'the_other_column_stays_guarded');
SELECT matches(pg_temp.refusal($$ SELECT idem_machine_drop('attach:m') $$), '^2BP01: It is attached to .*column "s" of table "t"',
    'drop_of_an_attached_machine_names_the_tables');

-- Rows that are there already.
CREATE TABLE attach.rows (id int, s text);
INSERT INTO attach.rows VALUES (1, 'a'), (2, 'x'), (3, NULL), (4, 'x"y');
SELECT is(pg_temp.refusal($$ SELECT idem_machine_attach('attach.rows', 's', 'attach:m') $$) ~ '^23514: Column "s" holds: ', true, 'rows_in_other_states');
DELETE FROM attach.rows WHERE id = 4;
DELETE FROM attach.rows WHERE id = 3;
SELECT is(pg_temp.refusal($$ SELECT idem_machine_attach('attach.rows', 's', 'attach:m') $$), '23514: Column "s" holds: "x".', 'are_named');
UPDATE attach.rows SET s = NULL WHERE id = 2;
SELECT is(pg_temp.refusal($$ SELECT idem_machine_attach('attach.rows', 's', 'attach:m') $$), '23514: Column "s" holds: null.', 'and_so_is_null');
UPDATE attach.rows SET s = 'c' WHERE id = 2;
CREATE TABLE attach.heir () INHERITS (attach.rows);
INSERT INTO attach.heir VALUES (5, 'x');
SELECT lives_ok($$ SELECT idem_machine_attach('attach.rows', 's', 'attach:m') $$, 'rows_of_heirs_do_not_count');

-- Another definition: rows of attached tables decide, those of row-level security's hidden rows included.
SELECT is(pg_temp.refusal($$ SELECT idem_machine_define('attach:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}') $$),
    '23514: Column "s" holds: "c".', 'definition_without_a_state_that_rows_hold');
SELECT is(idem_can_transition('attach:m', 'b', 'c'), true, 'the_old_definition_stays');
ALTER TABLE attach.rows OWNER TO tap_attacher, ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT is(pg_temp.state_of($$ SELECT idem_machine_define('attach:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}') $$), '23514', 'hidden_rows_count');
DELETE FROM attach.rows WHERE s = 'c';
SELECT lives_ok($$ SELECT idem_machine_define('attach:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}') $$, 'definition_without_a_state_that_no_row_holds');
SELECT is(pg_temp.state_of($$ UPDATE attach.rows SET s = 'b' WHERE id = 1 $$), 'ok', 'guard_has_the_new_definition');
CREATE TABLE attach.enums (s attach.exact);
SELECT idem_machine_define('attach:m', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c"]}}');
SELECT idem_machine_attach('attach.enums', 's', 'attach:m');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_define('attach:m', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c", "d"]}}') $$), '22023',
    'definition_with_a_state_that_an_enum_lacks');

-- Nobody needs privileges on the table for that, its owner neither.
SELECT idem_machine_define('attach:closed', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
CREATE SCHEMA attach_closed;
CREATE TABLE attach_closed.t (id int, s text);
INSERT INTO attach_closed.t VALUES (1, 'a'), (2, 'x');
REVOKE ALL ON attach_closed.t FROM CURRENT_USER;
ALTER TABLE attach_closed.t OWNER TO tap_attacher;
REVOKE SELECT ON attach_closed.t FROM tap_attacher;
SELECT is(pg_temp.refusal($$ SELECT idem_machine_attach('attach_closed.t', 's', 'attach:closed') $$), '23514: Column "s" holds: "x".',
    'owner_without_privileges_on_table_and_schema');
DELETE FROM attach_closed.t WHERE id = 2;
SELECT is(pg_temp.refusal($$ SELECT idem_machine_attach('attach_closed.t', 's', 'attach:closed') $$), 'ok', 'does_not_keep_it_from_being_attached');
SELECT is(pg_temp.refusal($$ SELECT idem_machine_define('attach:closed', '{"initial": ["a"], "transitions": {"a": ["c"]}}') $$), 'ok', 'nor_the_machine_from_being_defined');
SELECT is(pg_temp.refusal($$ SELECT idem_machine_define('attach:closed', '{"initial": ["c"], "transitions": {"c": ["d"]}}') $$), '23514: Column "s" holds: "a".',
    'and_its_rows_count');
DROP SCHEMA attach_closed CASCADE;

-- Many rows and states, and values that are stored out of line.
CREATE TABLE attach.many (id int, s text);
ALTER TABLE attach.many ALTER s SET STORAGE EXTERNAL;
INSERT INTO attach.many SELECT i, 's' || i % 100 FROM generate_series(1, 5000) AS i;
INSERT INTO attach.many VALUES (0, repeat('long ', 2000));
SELECT idem_machine_define('attach:closed', (SELECT jsonb_build_object('initial', jsonb_agg('s' || i), 'states', jsonb_agg('s' || i) || to_jsonb(ARRAY[]::text[]))
                                               FROM generate_series(0, 99) AS i));
SELECT is(left(pg_temp.refusal($$ SELECT idem_machine_attach('attach.many', 's', 'attach:closed') $$), 40), '23514: Column "s" holds: "long long long', 'long_value');
DELETE FROM attach.many WHERE id = 0;
SELECT is(pg_temp.refusal($$ SELECT idem_machine_attach('attach.many', 's', 'attach:closed') $$), 'ok', 'many_rows_and_states');
SELECT is(pg_temp.refusal($$ SELECT idem_machine_define('attach:closed', '{"initial": ["s1"], "states": ["s1"]}') $$),
    '23514: Column "s" holds: "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11" and others.', 'ten_of_them_are_named');
DROP TABLE attach.many;

-- Partitions.
CREATE TABLE attach.later (id int, k int, s text, l text);
SELECT idem_machine_attach('attach.later', 's', 'attach:m');
CREATE TABLE attach.parted (id int, k int, s text, l text) PARTITION BY LIST (k);
CREATE TABLE attach.parted1 PARTITION OF attach.parted FOR VALUES IN (1) PARTITION BY RANGE (l);
CREATE TABLE attach.parted1a PARTITION OF attach.parted1 DEFAULT;
SELECT throws_ok($$ SELECT idem_machine_attach('attach.parted1', 's', 'attach:m') $$, '42809', NULL, 'partition');
SELECT throws_ok($$ SELECT idem_machine_attach('attach.parted', 'l', 'attach:m') $$, '0A000', NULL, 'column_of_a_partition_key_further_down');
ALTER TABLE attach.parted ATTACH PARTITION attach.later FOR VALUES IN (2);
ALTER TRIGGER idem_state_s ON attach.later RENAME TO otherwise;
SELECT throws_ok($$ SELECT idem_machine_attach('attach.parted', 's', 'attach:m') $$, '42710', NULL, 'partition_that_was_attached_before_it_was_one');
SELECT idem_machine_detach('attach.later', 's');
CREATE TABLE attach.expression (s text, k int) PARTITION BY LIST (lower(s));
SELECT throws_ok($$ SELECT idem_machine_attach('attach.expression', 's', 'attach:m') $$, '0A000', NULL, 'column_in_an_expression_of_a_partition_key');
INSERT INTO attach.parted VALUES (1, 1, 'x', 'l');
SELECT throws_ok($$ SELECT idem_machine_attach('attach.parted', 's', 'attach:m') $$, '23514', NULL, 'rows_of_partitions_count');
DELETE FROM attach.parted;
SELECT idem_machine_attach('attach.parted', 's', 'attach:m');
SELECT doesnt_match(pg_temp.refusal($$ SELECT idem_machine_drop('attach:m') $$), '"parted1|"later"',
    'partitions_are_not_attached_by_themselves');

-- A partition elsewhere, which cannot be read just now.
CREATE FOREIGN DATA WRAPPER attach_elsewhere;
CREATE SERVER attach_elsewhere FOREIGN DATA WRAPPER attach_elsewhere;
CREATE TABLE attach.spread (id int, k int, s text) PARTITION BY LIST (k);
SELECT idem_machine_attach('attach.spread', 's', 'attach:closed');
CREATE TABLE attach.spread1 (s text, k int, id int);
ALTER TABLE attach.spread ATTACH PARTITION attach.spread1 FOR VALUES IN (1);
INSERT INTO attach.spread VALUES (1, 1, 's1');
CREATE FOREIGN TABLE attach.spread2 PARTITION OF attach.spread FOR VALUES IN (2) SERVER attach_elsewhere;
SELECT is(pg_temp.refusal($$ SELECT idem_machine_define('attach:closed', '{"initial": ["s1"], "states": ["s1"]}') $$), 'ok', 'rows_of_foreign_partitions_do_not_count');
SELECT is(pg_temp.refusal($$ SELECT idem_machine_define('attach:closed', '{"initial": ["s2"], "states": ["s2"]}') $$), '23514: Column "s" holds: "s1".',
    'those_of_the_others_do');
DROP FOREIGN DATA WRAPPER attach_elsewhere CASCADE;
DROP TABLE attach.spread;

-- Collations, logs without a key.
CREATE COLLATION attach.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE attach.ci (s text COLLATE attach.ci);
SELECT throws_ok($$ SELECT idem_machine_attach('attach.ci', 's', 'attach:m') $$, '0A000', NULL, 'nondeterministic_collation');
CREATE TABLE attach.keyless (id int UNIQUE, s text);
SELECT throws_ok($$ SELECT idem_machine_attach('attach.keyless', 's', 'attach:m', true) $$, '42P10', NULL, 'log_without_a_key');

-- Who may.
CREATE TABLE attach.others (id int, s text);
SELECT is(pg_temp.state_as('tap_attacher', $$ SELECT idem.idem_machine_attach('attach.others', 's', 'attach:m') $$), '42501', 'stranger_cannot_attach');
ALTER TABLE attach.others OWNER TO tap_attacher;
SELECT is(pg_temp.state_as('tap_attacher', $$ SELECT idem.idem_machine_attach('attach.others', 's', 'attach:m', false) $$), 'ok', 'owner_can_attach');
SELECT is(pg_temp.state_as('tap_attacher', $$ INSERT INTO attach.others VALUES (1, 'b') $$), 'ID003', 'and_is_guarded');
SELECT is(pg_temp.state_as('tap_attacher', $$ SELECT idem.idem_machine_define('attach:m', '{"initial": ["a"], "states": ["a"]}') $$), '42501', 'and_cannot_define');
SELECT is(pg_temp.state_as('tap_attacher', $$ SELECT idem.idem_machine_detach('attach.t', 's') $$), '42501', 'stranger_cannot_detach');
SELECT is(pg_temp.state_as('tap_attacher', $$ SELECT idem.idem_machine_detach('attach.others', 's') $$), 'ok', 'owner_can_detach');
SELECT is(pg_temp.state_of('DROP EXTENSION idem'), '2BP01', 'extension_is_not_dropped_while_guards_exist');

-- Partitions on another server: whether their rows are in a state of the machine can change at any time.
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'file_fdw') AS foreign_files \gset
\if :foreign_files
CREATE EXTENSION IF NOT EXISTS file_fdw SCHEMA attach;
CREATE SERVER attach_files FOREIGN DATA WRAPPER file_fdw;
SELECT idem_machine_define('attach:spread', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
CREATE TABLE attach.partly (id int, s text) PARTITION BY RANGE (id);
CREATE TABLE attach.partly_more PARTITION OF attach.partly DEFAULT PARTITION BY RANGE (id);
CREATE FOREIGN TABLE attach.partly_away PARTITION OF attach.partly_more FOR VALUES FROM (0) TO (9) SERVER attach_files OPTIONS (filename '/dev/null');
SELECT throws_ok($$ SELECT idem_machine_attach('attach.partly', 's', 'attach:spread', false) $$, '0A000', NULL, 'partition_of_another_server');
ALTER TABLE attach.partly_more DETACH PARTITION attach.partly_away;
SELECT lives_ok($$ SELECT idem_machine_attach('attach.partly', 's', 'attach:spread', false) $$, 'without_it');
ALTER TABLE attach.partly_more ATTACH PARTITION attach.partly_away FOR VALUES FROM (0) TO (9);
SELECT lives_ok($$ SELECT idem_machine_define('attach:spread', '{"initial": ["a"], "states": ["a"]}') $$,
    'partition_of_another_server_that_came_later_holds_no_definition_back');
SELECT lives_ok($$ SELECT idem_machine_detach('attach.partly', 's') $$, 'but_detached');
CREATE TABLE attach.ancestor (id int, s text);
CREATE FOREIGN TABLE attach.child_away () INHERITS (attach.ancestor) SERVER attach_files OPTIONS (filename '/dev/null');
SELECT lives_ok($$ SELECT idem_machine_attach('attach.ancestor', 's', 'attach:spread', false) $$, 'child_of_another_server_is_not_looked_at');
DROP SERVER attach_files CASCADE;
\else
SELECT skip(5, 'no file_fdw');
\endif

-- Renamed columns.
ALTER TABLE attach.rows RENAME s TO state;
SELECT throws_like($$ INSERT INTO attach.rows VALUES (7, 'a') $$, '%"s"%no longer there%', 'renamed_column');
SELECT lives_ok($$ SELECT idem_machine_detach('attach.rows', 's') $$, 'is_detached_by_its_old_name');
SELECT lives_ok($$ SELECT idem_machine_attach('attach.rows', 'state', 'attach:m') $$, 'and_attached_by_its_new_name');

DROP SCHEMA attach CASCADE;
DROP TABLE temporary;
SELECT idem_revoke('tap_attacher');
REVOKE USAGE ON SCHEMA idem FROM tap_attacher;
DROP ROLE tap_attacher;
DELETE FROM idem_machines WHERE starts_with(name, 'attach:');
SELECT * FROM finish();
