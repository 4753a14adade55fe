-- idem_transition: each outcome, what comes first when several fit, column types, errors.
\ir ../include/helpers.psql
SELECT plan(60);

CREATE SCHEMA row_transition;
SELECT idem_machine_define('transition:order',
    '{"initial": ["created"], "transitions": {"created": ["paid", "cancelled"], "paid": ["shipped"], "shipped": []}}');
CREATE TABLE row_transition.orders (id int PRIMARY KEY, ref text NOT NULL UNIQUE, status text NOT NULL DEFAULT 'created', note text);
SELECT idem_machine_attach('row_transition.orders', 'status', 'transition:order', log => true);
INSERT INTO row_transition.orders (id, ref) SELECT i, 'r' || i FROM generate_series(1, 9) AS i;

-- What one call answers, as outcome/state.
CREATE FUNCTION pg_temp.go(key jsonb, to_state text, expected text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws('/', outcome, state) FROM idem.idem_transition('row_transition.orders', key, expected, to_state)
$$;

-- Outcomes without an expected state.
SELECT is(pg_temp.go('{"id": 1}', 'paid'), 'moved/paid', 'legal_transition_moves');
SELECT is(pg_temp.go('{"id": 1}', 'paid'), 'already/paid', 'repeated_transition_is_already');
SELECT is(pg_temp.go('{"id": 1}', 'cancelled'), 'not_allowed/paid', 'illegal_transition_is_told_with_the_state');
SELECT is(pg_temp.go('{"id": 1}', 'nowhere'), 'not_allowed/paid', 'unknown_state_is_not_allowed');
SELECT is(pg_temp.go('{"id": 99}', 'paid'), 'not_found', 'missing_row');
SELECT is(pg_temp.go('{"id": 99}', 'nowhere'), 'not_found', 'missing_row_comes_before_not_allowed');
SELECT is((SELECT status FROM row_transition.orders WHERE id = 1), 'paid', 'what_is_refused_changes_nothing');
SELECT is(pg_temp.go('{"ref": "r2"}', 'cancelled'), 'moved/cancelled', 'any_unique_key_finds_the_row');

-- With an expected state.
SELECT is(pg_temp.go('{"id": 3}', 'paid', 'created'), 'moved/paid', 'expected_state_is_there');
SELECT is(pg_temp.go('{"id": 3}', 'paid', 'created'), 'already/paid', 'already_comes_before_conflict');
SELECT is(pg_temp.go('{"id": 3}', 'shipped', 'created'), 'conflict/paid', 'conflict_comes_before_not_allowed');
SELECT is(pg_temp.go('{"id": 3}', 'cancelled', 'created'), 'conflict/paid', 'another_state_than_expected');
SELECT is(pg_temp.go('{"id": 3}', 'cancelled', 'paid'), 'not_allowed/paid', 'expected_but_not_allowed');
SELECT is(pg_temp.go('{"id": 3}', 'shipped', 'nowhere'), 'conflict/paid', 'unknown_expected_state_is_a_conflict');
SELECT is(pg_temp.go('{"id": 3}', 'paid', 'paid'), 'already/paid', 'expected_state_is_the_new_one');
SELECT is(pg_temp.go('{"id": 99}', 'paid', 'created'), 'not_found', 'missing_row_with_expected_state');
SELECT is(pg_temp.go('{"id": 3}', 'shipped', 'paid'), 'moved/shipped', 'second_transition');

-- The log tells each move once.
SELECT is((SELECT string_agg(coalesce(from_state, '-') || '>' || to_state, ' ' ORDER BY at) FROM idem_transition_log
            WHERE target = 'row_transition.orders' AND key = '{"id": 3}'),
    '->created created>paid paid>shipped', 'log_has_one_row_per_move');

-- What triggers make of the row counts.
CREATE FUNCTION row_transition.divert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.note = 'divert' THEN NEW.status := 'cancelled'; END IF;
    IF NEW.note = 'suppress' THEN RETURN NULL; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER divert BEFORE UPDATE OF status ON row_transition.orders FOR EACH ROW EXECUTE FUNCTION row_transition.divert();
UPDATE row_transition.orders SET note = 'divert' WHERE id = 4;
SELECT is(pg_temp.go('{"id": 4}', 'paid'), 'moved/cancelled', 'state_is_the_one_that_triggers_made');
UPDATE row_transition.orders SET note = 'suppress' WHERE id = 5;
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.orders', '{"id": 5}', NULL, 'paid') $$), '09000',
    'update_that_a_trigger_discards_is_an_error');

-- Columns of other types.
CREATE TYPE row_transition.state AS ENUM ('shipped', 'created', 'cancelled', 'paid');
CREATE DOMAIN row_transition.short AS varchar(20) CHECK (VALUE <> '');
CREATE TABLE row_transition.enums ("the id" bigint PRIMARY KEY, "Status" row_transition.state NOT NULL);
CREATE DOMAIN row_transition.live AS row_transition.state CHECK (VALUE <> 'shipped');
CREATE TABLE row_transition.domains (id uuid PRIMARY KEY, status row_transition.short NOT NULL);
CREATE TABLE row_transition.enum_domains (id row_transition.live PRIMARY KEY, status row_transition.live NOT NULL);
SELECT idem_machine_attach('row_transition.enums', 'Status', 'transition:order');
SELECT idem_machine_attach('row_transition.domains', 'status', 'transition:order');
INSERT INTO row_transition.enums VALUES (1, 'created');
INSERT INTO row_transition.domains VALUES ('00000000-0000-0000-0000-000000000001', 'created');
SELECT is((SELECT concat_ws('/', outcome, state) FROM idem_transition('row_transition.enums', '{"the id": 1}', 'created', 'paid')),
    'moved/paid', 'enum_column');
SELECT is((SELECT concat_ws('/', outcome, state) FROM idem_transition('row_transition.enums', '{"the id": 1}', NULL, 'nowhere')),
    'not_allowed/paid', 'label_that_the_enum_lacks');
SELECT is((SELECT concat_ws('/', outcome, state) FROM idem_transition('row_transition.domains',
    '{"id": "00000000-0000-0000-0000-000000000001"}', NULL, 'cancelled')), 'moved/cancelled', 'column_of_a_domain');
SELECT idem_machine_attach('row_transition.enum_domains', 'status', 'transition:order');
INSERT INTO row_transition.enum_domains VALUES ('created', 'created'), ('paid', 'created');
SELECT is((SELECT concat_ws('/', outcome, state) FROM idem_transition('row_transition.enum_domains', '{"id": "created"}', NULL, 'paid')),
    'moved/paid', 'column_and_key_of_a_domain_over_an_enum');
SELECT is((SELECT concat_ws('/', outcome, row_data ->> 'status') FROM conditional_update('row_transition.enum_domains', '{"id": "paid"}',
    '{"status": "created"}', '{"status": "cancelled"}')), 'updated/cancelled', 'conditional_update_of_such_a_column');

-- The label is the state, whatever casts the type has, or gets.
CREATE TYPE row_transition.cast AS ENUM ('created', 'paid', 'cancelled', 'shipped');
CREATE TABLE row_transition.casts (id int PRIMARY KEY, status row_transition.cast NOT NULL);
SELECT idem_machine_attach('row_transition.casts', 'status', 'transition:order');
INSERT INTO row_transition.casts SELECT i, 'created' FROM generate_series(1, 3) AS i;
CREATE FUNCTION pg_temp.cast(id int, to_state text, expected text DEFAULT NULL) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT concat_ws('/', outcome, state) FROM idem.idem_transition('row_transition.casts', jsonb_build_object('id', id), expected, to_state)
$$;
SELECT is(pg_temp.cast(1, 'paid'), 'moved/paid', 'enum_without_a_cast');
CREATE FUNCTION row_transition.as_text(row_transition.cast) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'shipped' $$;
CREATE CAST (row_transition.cast AS text) WITH FUNCTION row_transition.as_text(row_transition.cast);
DISCARD PLANS;
SELECT is(pg_temp.cast(1, 'shipped'), 'moved/shipped', 'cast_does_not_say_which_transitions_are_allowed');
SELECT is(pg_temp.cast(2, 'paid', 'created'), 'moved/paid', 'nor_which_state_there_is');
SELECT is(pg_temp.cast(2, 'paid', 'created'), 'already/paid', 'nor_what_was_done_before');

-- Partitions, also for rows that move between them.
CREATE TABLE row_transition.parts (id int, region int, status text NOT NULL, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE row_transition.parts1 PARTITION OF row_transition.parts FOR VALUES IN (1);
CREATE TABLE row_transition.parts2 PARTITION OF row_transition.parts FOR VALUES IN (2);
SELECT idem_machine_attach('row_transition.parts', 'status', 'transition:order');
INSERT INTO row_transition.parts VALUES (1, 1, 'created'), (2, 1, 'created');
SELECT is((SELECT outcome FROM idem_transition('row_transition.parts', '{"id": 1, "region": 1}', NULL, 'paid')), 'moved', 'partitioned_table');
SELECT is((SELECT outcome FROM idem_transition('row_transition.parts1', '{"id": 2, "region": 1}', NULL, 'paid')), 'moved', 'partition');
UPDATE row_transition.parts SET region = 2 WHERE id = 1;
SELECT is((SELECT concat_ws('/', outcome, state) FROM idem_transition('row_transition.parts', '{"id": 1, "region": 2}', 'paid', 'shipped')),
    'moved/shipped', 'row_that_moved_to_another_partition');

-- Redefinition counts at once.
BEGIN;
SELECT pg_temp.go('{"id": 6}', 'shipped') AS before \gset
SELECT idem_machine_define('transition:order',
    '{"initial": ["created"], "transitions": {"created": ["paid", "cancelled", "shipped"], "paid": ["shipped"]}}');
SELECT pg_temp.go('{"id": 6}', 'shipped') AS after \gset
ROLLBACK;
SELECT is(:'before'::text, 'not_allowed/created', 'before_the_redefinition');
SELECT is(:'after'::text, 'moved/shipped', 'after_the_redefinition');
SELECT is(pg_temp.go('{"id": 6}', 'shipped'), 'not_allowed/created', 'after_its_rollback');

-- Errors.
SELECT is(pg_temp.state_of($$ SELECT idem_transition(NULL, '{"id": 1}', NULL, 'paid') $$), '22004', 'null_target');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.orders', NULL, NULL, 'paid') $$), '22004', 'null_key');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.orders', '{"id": null}', NULL, 'paid') $$), '22004', 'null_in_the_key');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.orders', '{"id": 1}', NULL, NULL) $$), '22004', 'null_state');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.orders', '[1]', NULL, 'paid') $$), '22023', 'key_is_no_object');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.orders', '{"note": "x"}', NULL, 'paid') $$), '42P10', 'key_is_not_unique');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.orders', '{"no": 1}', NULL, 'paid') $$), '42703', 'unknown_column');
CREATE TABLE row_transition.free (id int PRIMARY KEY, a text, b text);
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.free', '{"id": 1}', NULL, 'paid') $$), '55000', 'no_machine_attached');
SELECT idem_machine_attach('row_transition.free', 'a', 'transition:order');
SELECT idem_machine_attach('row_transition.free', 'b', 'transition:order');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.free', '{"id": 1}', NULL, 'paid') $$), '42702', 'machines_on_two_columns');
INSERT INTO row_transition.free VALUES (1, 'created', 'created');
SELECT results_eq($$ SELECT * FROM idem_transition('row_transition.free', '{"id": 1}', 'created', 'paid', 'b') $$, $$ VALUES ('moved', 'paid') $$, 'one_of_them_is_named');
SELECT results_eq($$ SELECT * FROM idem_transition('row_transition.free', '{"id": 1}', NULL, 'cancelled', state_column => 'a') $$,
    $$ VALUES ('moved', 'cancelled') $$, 'so_is_the_other');
SELECT results_eq($$ SELECT a, b FROM row_transition.free $$, $$ VALUES ('cancelled', 'paid') $$, 'each_has_its_state');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.free', '{"id": 1}', NULL, 'paid', 'id') $$), '42704', 'column_without_a_machine');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.free', '{"id": 1}', NULL, 'paid', 'c') $$), '42703', 'no_such_column');
ALTER TABLE row_transition.free RENAME b TO c;
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.free', '{"id": 1}', NULL, 'paid', 'b') $$), '42703', 'named_column_was_renamed');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.free', '{"id": 1}', NULL, 'paid', 'a') $$), 'ok', 'the_other_was_not');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.free', '{"id": 1}', NULL, 'paid', 'c') $$), '42704', 'new_name_has_no_machine');
ALTER TABLE row_transition.free RENAME c TO b;
SELECT idem_machine_detach('row_transition.free', 'b');
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.free', '{"id": 1}', NULL, 'paid') $$), 'ok', 'one_of_them_detached');
CREATE VIEW row_transition.seen AS SELECT * FROM row_transition.orders;
SELECT is(pg_temp.state_of($$ SELECT idem_transition('row_transition.seen', '{"id": 1}', NULL, 'paid') $$), '42809', 'view');
BEGIN TRANSACTION READ ONLY;
SELECT pg_temp.state_of($$ SELECT idem_transition('row_transition.orders', '{"id": 7}', NULL, 'paid') $$) AS state \gset
ROLLBACK;
SELECT is(:'state'::text, '25006', 'read_only_transaction');

-- The row is found by its key, though an index on the state looked as good when the table was empty and the statement was planned.
CREATE TABLE row_transition.queue (id int PRIMARY KEY, status text NOT NULL DEFAULT 'created');
CREATE INDEX queue_status ON row_transition.queue (status);
SELECT idem_machine_attach('row_transition.queue', 'status', 'transition:order');
VACUUM ANALYZE row_transition.queue;
SELECT is((SELECT outcome FROM idem_transition('row_transition.queue', '{"id": 1}', 'created', 'paid')), 'not_found', 'empty_queue');
INSERT INTO row_transition.queue SELECT generate_series(1, 1000);
BEGIN;
SELECT pg_stat_get_xact_numscans('row_transition.queue_status'::regclass) AS before \gset
SELECT count(*) FROM generate_series(1, 9) AS i, idem_transition('row_transition.queue', jsonb_build_object('id', i), 'created', 'paid');
SELECT is(pg_stat_get_xact_numscans('row_transition.queue_status'::regclass), :before::bigint, 'the_index_on_the_state_is_left_alone');
ROLLBACK;

-- As the caller.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_mover;
GRANT USAGE ON SCHEMA idem, row_transition TO tap_mover;
CREATE FUNCTION pg_temp.move_as_mover() RETURNS text LANGUAGE sql AS $$
    SELECT pg_temp.state_as('tap_mover', 'SELECT idem.idem_transition(''row_transition.orders'', ''{"id": 8}'', NULL, ''paid'')')
$$;
SELECT pg_temp.move_as_mover() AS ungranted \gset
SELECT idem_grant('tap_mover');
SELECT pg_temp.move_as_mover() AS granted \gset
GRANT SELECT (id, status), UPDATE (status) ON row_transition.orders TO tap_mover;
SELECT pg_temp.move_as_mover() AS privileged \gset
ROLLBACK;
SELECT is(:'ungranted'::text, '42501', 'not_for_everybody');
SELECT is(:'granted'::text, '42501', 'privileges_on_the_table_are_the_callers');
SELECT is(:'privileged'::text, 'ok', 'privileges_on_key_and_state_are_enough');
SELECT pg_advisory_unlock(hashtext('idem pgtap grants'));

SET client_min_messages = warning;
DROP SCHEMA row_transition CASCADE;
SELECT idem_machine_drop('transition:order');
DELETE FROM idem_transition_log WHERE target LIKE 'row\_transition.%';
SELECT * FROM finish();
