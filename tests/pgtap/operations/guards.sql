-- idem_guards: every guard is one row, and one that is gone or does not fire is seen.
\ir ../include/helpers.psql
SELECT plan(9);
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS guards CASCADE;
CREATE SCHEMA guards;
CREATE ROLE tap_guards;
SELECT idem_machine_define('guards: "m" \ ü', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
CREATE TABLE guards.orders (id int PRIMARY KEY, state text, "odd \ 'ü" text);
CREATE TABLE guards.parts (id int PRIMARY KEY, state text) PARTITION BY RANGE (id);
CREATE TABLE guards.parts1 PARTITION OF guards.parts FOR VALUES FROM (0) TO (10);
SELECT optimistic_enable('guards.orders'), idem_machine_attach('guards.orders', 'state', 'guards: "m" \ ü'),
       idem_machine_attach('guards.orders', 'odd \ ''ü', 'guards: "m" \ ü', log => true, validate => false);
SELECT optimistic_enable('guards.parts', 'v'), idem_machine_attach('guards.parts', 'state', 'guards: "m" \ ü');

CREATE FUNCTION pg_temp.guards(about text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws('|', target, kind, column_name, machine, is_enabled, is_valid) FROM idem.idem_guards
     WHERE target::text LIKE about ORDER BY target::text, kind, column_name COLLATE "C"
$$;
SELECT results_eq($$ SELECT pg_temp.guards('guards.%') $$, ARRAY[
    'guards.orders|state|odd \ ''ü|guards: "m" \ ü|t|f', 'guards.orders|state|state|guards: "m" \ ü|t|t', 'guards.orders|version|version|t|t',
    'guards.parts|state|state|guards: "m" \ ü|t|t', 'guards.parts|version|v|t|t'], 'one_row_for_each_guard');

-- The question at an application's start, of the documents.
PREPARE missing AS
    SELECT * FROM (VALUES ('guards.orders'::regclass, 'version', 'version'::name), ('guards.orders', 'state', 'state'), ('guards.parts', 'state', 'state'))
                  AS expected (target, kind, column_name)
    EXCEPT SELECT target, kind, column_name FROM idem_guards WHERE is_enabled;
SELECT is_empty('missing', 'nothing_is_missing');
ALTER TABLE guards.orders DISABLE TRIGGER zz_idem_version_guard;
SELECT results_eq('missing', $$ VALUES ('guards.orders'::regclass, 'version', 'version'::name) $$, 'disabled_guard');
ALTER TABLE guards.orders ENABLE ALWAYS TRIGGER zz_idem_version_guard;
ALTER TABLE guards.parts1 DISABLE TRIGGER USER;
SELECT results_eq('missing', $$ VALUES ('guards.parts'::regclass, 'state', 'state'::name) $$, 'guard_that_is_disabled_on_a_partition');
ALTER TABLE guards.parts1 ENABLE REPLICA TRIGGER idem_state_state;
SELECT is((SELECT is_enabled FROM idem_guards WHERE target = 'guards.parts'::regclass AND kind = 'state'), false, 'guard_for_replication_only');

-- What schema tools do: the table is made anew.
ALTER TABLE guards.orders RENAME TO old_orders;
CREATE TABLE guards.orders (LIKE guards.old_orders INCLUDING ALL);
DROP TABLE guards.old_orders;
SELECT is_empty($$ SELECT pg_temp.guards('guards.orders') $$, 'table_that_was_made_anew_has_no_guards');

-- Triggers with the functions that were made by hand, and do not fire for every change.
CREATE TRIGGER by_hand BEFORE UPDATE OF id ON guards.orders FOR EACH ROW EXECUTE FUNCTION idem_version_guard('version');
CREATE TRIGGER some_rows BEFORE UPDATE ON guards.orders FOR EACH ROW WHEN (new.id > 5) EXECUTE FUNCTION idem_version_guard('version');
CREATE TRIGGER half AFTER UPDATE ON guards.orders FOR EACH ROW EXECUTE FUNCTION idem_state_guard('guards: "m" \ ü', 'state', 'no log', 'valid');
CREATE TRIGGER less AFTER INSERT OR UPDATE ON guards.orders FOR EACH ROW EXECUTE FUNCTION idem_state_guard('guards: "m" \ ü');
SELECT is_empty($$ SELECT pg_temp.guards('guards.orders') $$, 'triggers_made_by_hand_are_no_guards');

SELECT is(has_table_privilege('tap_guards', 'idem_guards', 'SELECT'), false, 'not_for_everybody');
SELECT idem_grant('tap_guards');
SELECT is(has_table_privilege('tap_guards', 'idem_guards', 'SELECT'), true, 'readable_through_idem_grant');

SELECT * FROM finish();
DROP SCHEMA guards CASCADE;
SELECT idem_machine_drop('guards: "m" \ ü');
DROP OWNED BY tap_guards;
DROP ROLE tap_guards;
