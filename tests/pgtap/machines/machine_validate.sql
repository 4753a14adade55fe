-- idem_machine_attach with validate => false, and idem_machine_validate: old rows may be in any state, new moves may not.
\ir ../include/helpers.psql
SELECT plan(39);
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS validate CASCADE;
DELETE FROM idem_machines WHERE starts_with(name, 'validate:');
CREATE SCHEMA validate;
CREATE ROLE tap_validator;
SELECT idem_grant('tap_validator');
GRANT USAGE ON SCHEMA validate TO tap_validator;
SELECT idem_machine_define('validate:m', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c"]}}');

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
CREATE FUNCTION pg_temp.is_valid(target regclass) RETURNS boolean LANGUAGE sql AS $$
    SELECT is_valid FROM idem.idem_guards g WHERE g.target = $1
$$;

-- Old rows stay as they are; the guard is on.
CREATE TABLE validate.orders (id int PRIMARY KEY, s text, note text);
INSERT INTO validate.orders VALUES (1, 'a'), (2, 'old'), (3, NULL), (4, 'c');
SELECT is(pg_temp.refusal($$ SELECT idem_machine_attach('validate.orders', 's', 'validate:m') $$) ~ '^23514', true, 'attach_looks_at_the_rows');
SELECT lives_ok($$ SELECT idem_machine_attach('validate.orders', 's', 'validate:m', validate => false) $$, 'attach_without_a_look');
SELECT is(pg_temp.is_valid('validate.orders'), false, 'not_valid_yet');
SELECT throws_ok($$ SELECT idem_machine_attach('validate.orders', 's', 'validate:m', validate => false) $$, '42710', NULL, 'attach_again');
SELECT lives_ok($$ UPDATE validate.orders SET note = 'seen' $$, 'old_rows_can_change_otherwise');
SELECT is(pg_temp.refusal($$ UPDATE validate.orders SET s = 'b' WHERE id = 2 $$), 'ID003: State machine "validate:m" has no state "old". The row has the key (id)=(2).',
    'next_move_of_an_unknown_state_names_it');
SELECT is(pg_temp.refusal($$ UPDATE validate.orders SET s = 'a' WHERE id = 3 $$), 'ID003: The row has no state. The row has the key (id)=(3).', 'next_move_of_a_null');
SELECT is(pg_temp.refusal($$ UPDATE validate.orders SET s = 'old' WHERE id = 1 $$), 'ID003: From "a", state machine "validate:m" can reach: "b". The row has the key (id)=(1).',
    'no_row_moves_to_an_unknown_state');
SELECT is(pg_temp.state_of($$ INSERT INTO validate.orders VALUES (5, 'old') $$), 'ID003', 'new_rows_are_guarded');
SELECT is(pg_temp.state_of($$ UPDATE validate.orders SET s = 'b' WHERE id = 1 $$), 'ok', 'legal_moves_pass');
SELECT is((SELECT concat_ws('/', outcome, state) FROM idem_transition('validate.orders', '{"id": 2}', NULL, 'b')), 'not_allowed/old',
    'transition_of_an_unknown_state');
SELECT is((SELECT concat_ws('/', outcome, state) FROM idem_transition('validate.orders', '{"id": 2}', 'old', 'b')), 'not_allowed/old',
    'also_when_it_is_expected');

-- Validation.
SELECT is(pg_temp.refusal($$ SELECT idem_machine_validate('validate.orders', 's') $$), '23514: Column "s" holds: "old", null.', 'validate_names_the_states');
SELECT is(pg_temp.is_valid('validate.orders'), false, 'still_not_valid');
DELETE FROM validate.orders WHERE id IN (2, 3);
SELECT lives_ok($$ SELECT idem_machine_validate('validate.orders', 's') $$, 'validate');
SELECT is(pg_temp.is_valid('validate.orders'), true, 'valid_now');
SELECT lives_ok($$ SELECT idem_machine_validate('validate.orders', 's') $$, 'validate_again');
SELECT matches((SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'validate.orders'::regclass),
    '''validate:m'', ''s'', ''no log'', ''valid''', 'a_dump_says_so');
SELECT is(pg_temp.state_of($$ UPDATE validate.orders SET s = 'a' WHERE id = 1 $$), 'ID003', 'guards_as_before');
BEGIN;
UPDATE validate.orders SET note = 'mine';
SELECT lives_ok($$ SELECT idem_machine_validate('validate.orders', 's') $$, 'validate_after_own_writes');
ROLLBACK;

-- The lock lets writers go on.
CREATE TABLE validate.locked (id int PRIMARY KEY, s text);
SELECT idem_machine_attach('validate.locked', 's', 'validate:m', validate => false);
BEGIN;
SELECT idem_machine_validate('validate.locked', 's');
SELECT is((SELECT string_agg(DISTINCT mode, ' ' ORDER BY mode) FROM pg_locks WHERE relation = 'validate.locked'::regclass AND pid = pg_backend_pid()),
    'ShareUpdateExclusiveLock', 'lock_of_validate');
ROLLBACK;
SELECT is(pg_temp.is_valid('validate.locked'), false, 'rolled_back_validation');

-- Definitions: a guard that is not valid has no say about rows.
INSERT INTO validate.locked VALUES (1, 'a');
UPDATE validate.locked SET s = 'b';
SELECT lives_ok($$ SELECT idem_machine_define('validate:n', '{"initial": ["a"], "transitions": {"a": ["x"]}}') $$, 'another_machine');
CREATE TABLE validate.legacy (id int PRIMARY KEY, s text);
INSERT INTO validate.legacy VALUES (1, 'b');
SELECT idem_machine_attach('validate.legacy', 's', 'validate:n', validate => false);
SELECT lives_ok($$ SELECT idem_machine_define('validate:n', '{"initial": ["a"], "transitions": {"a": ["y"]}}') $$, 'definition_does_not_look_at_its_rows');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_validate('validate.legacy', 's') $$), '23514', 'validation_does');
SELECT lives_ok($$ SELECT idem_machine_define('validate:n', '{"initial": ["a"], "transitions": {"a": ["b"]}}') $$, 'definition_that_knows_the_state');
SELECT lives_ok($$ SELECT idem_machine_validate('validate.legacy', 's') $$, 'then_it_is_valid');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_define('validate:n', '{"initial": ["a"], "transitions": {"a": ["y"]}}') $$), '23514',
    'and_has_a_say');

-- Partitions, and a guard that is disabled.
CREATE TABLE validate.parts (id int, s text) PARTITION BY RANGE (id);
CREATE TABLE validate.parts1 PARTITION OF validate.parts FOR VALUES FROM (0) TO (10);
CREATE TABLE validate.parts2 PARTITION OF validate.parts FOR VALUES FROM (10) TO (20);
INSERT INTO validate.parts VALUES (1, 'old'), (11, 'b');
SELECT idem_machine_attach('validate.parts', 's', 'validate:m', validate => false);
SELECT is(pg_temp.refusal($$ SELECT idem_machine_validate('validate.parts', 's') $$), '23514: Column "s" holds: "old".', 'rows_of_partitions');
SELECT is(pg_temp.state_of($$ UPDATE validate.parts SET id = 12 WHERE id = 1 $$), 'ok', 'old_row_moves_to_another_partition');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_validate('validate.parts1', 's') $$), '42704', 'partition_is_not_attached_itself');
DELETE FROM validate.parts WHERE s = 'old';
ALTER TABLE validate.parts2 DISABLE TRIGGER USER;
SELECT is(pg_temp.state_of($$ SELECT idem_machine_validate('validate.parts', 's') $$), '55000', 'guard_is_disabled_on_a_partition');
ALTER TABLE validate.parts2 ENABLE TRIGGER USER;
SELECT is(pg_temp.state_of($$ SELECT idem_machine_validate('validate.parts', 's') $$), 'ok', 'valid_partitions');
SELECT is((SELECT count(*)::int FROM idem_guards WHERE target::text LIKE 'validate.parts%' AND is_valid), 1, 'one_guard');

-- Arguments and privileges.
SELECT is(pg_temp.state_of($$ SELECT idem_machine_validate(NULL, 's') $$), '22004', 'null_target');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_validate('validate.orders', NULL) $$), '22004', 'null_column');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_validate('validate.orders', 'none') $$), '42703', 'unknown_column');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_validate('validate.orders', 'note') $$), '42704', 'column_without_a_machine');
SELECT is(pg_temp.state_as('tap_validator', 'SELECT idem.idem_machine_validate(''validate.locked'', ''s'')'), '42501', 'without_the_privilege');

SELECT * FROM finish();
DROP SCHEMA validate CASCADE;
DELETE FROM idem_machines WHERE starts_with(name, 'validate:');
DROP OWNED BY tap_validator;
DROP ROLE tap_validator;
