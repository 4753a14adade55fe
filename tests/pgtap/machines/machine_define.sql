-- idem_machine_define, idem_machine_drop, idem_can_transition, idem_check_transition.
\ir ../include/helpers.psql
SELECT plan(56);
DELETE FROM idem_machines WHERE starts_with(name, 'define:');

CREATE FUNCTION pg_temp.define(definition text, name text DEFAULT 'define:bad') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM idem.idem_machine_define(name, definition::jsonb);
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;

CREATE FUNCTION pg_temp.detail_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ' ' || SQLERRM || ': ' || detail;
END $$;

-- Transitions.
SELECT is(pg_temp.define('{"initial": ["created"], "transitions": {"created": ["paid", "cancelled"], "paid": ["shipped", "paid"], "shipped": []}}',
    'define:order'), 'ok', 'machine_is_defined');
SELECT is(
    (SELECT string_agg(f || '>' || t, ' ' ORDER BY f, t)
       FROM unnest('{created,paid,cancelled,shipped,nonsense,"",Paid}'::text[]) f,
            unnest('{created,paid,cancelled,shipped,nonsense,"",Paid}'::text[]) t
      WHERE idem_can_transition('define:order', f, t)),
    'created>cancelled created>paid paid>paid paid>shipped', 'can_transition_is_the_definition');
SELECT is(idem_check_transition('define:order', 'paid', 'paid'), true, 'check_of_a_transition');
SELECT is(pg_temp.detail_of($$ SELECT idem_check_transition('define:order', 'created', 'shipped') $$),
    'ID003 transition from "created" to "shipped" is not allowed: From "created", state machine "define:order" can reach: "paid", "cancelled".',
    'check_lists_what_can_be_reached_in_the_order_of_the_definition');
SELECT is(pg_temp.detail_of($$ SELECT idem_check_transition('define:order', 'shipped', 'paid') $$),
    'ID003 transition from "shipped" to "paid" is not allowed: State machine "define:order" ends in "shipped".', 'check_from_a_terminal_state');
SELECT is(pg_temp.detail_of($$ SELECT idem_check_transition('define:order', 'lost', 'paid') $$),
    'ID003 transition from "lost" to "paid" is not allowed: State machine "define:order" has no state "lost".', 'check_from_what_is_no_state');
SELECT throws_ok($$ SELECT idem_can_transition('define:none', 'a', 'b') $$, '42704', NULL, 'can_transition_of_an_unknown_machine');
SELECT throws_ok($$ SELECT idem_check_transition('define:none', 'a', 'b') $$, '42704', NULL, 'check_transition_of_an_unknown_machine');
SELECT throws_ok($$ SELECT idem_can_transition(NULL, 'a', 'b') $$, '22004', NULL, 'null_machine');
SELECT throws_ok($$ SELECT idem_can_transition('define:order', NULL, 'b') $$, '22004', NULL, 'null_from_state');
SELECT throws_ok($$ SELECT idem_can_transition('define:order', 'a', NULL) $$, '22004', NULL, 'null_to_state');
SELECT throws_ok($$ SELECT idem_check_transition('define:order', NULL, 'b') $$, '22004', NULL, 'null_from_state_of_check');

-- Names.
SELECT throws_ok($$ SELECT idem_machine_define(NULL, '{}') $$, '22004', NULL, 'null_name');
SELECT throws_ok($$ SELECT idem_machine_define('define:bad', NULL) $$, '22004', NULL, 'null_definition');
SELECT throws_ok($$ SELECT idem_machine_define('', '{}') $$, '22023', NULL, 'empty_name');
SELECT throws_ok($$ SELECT idem_machine_define(repeat('x', 256), '{"initial": ["a"], "states": ["a"]}') $$, '22023', NULL, 'name_too_long');
SELECT is(pg_temp.define('{"initial": ["a"], "states": ["a"]}', 'define:' || repeat('é', 124)), 'ok', 'longest_name');

-- Definitions that are refused, and what is said of them.
SELECT is(pg_temp.define(definition), '22023 ' || message, message)
  FROM (VALUES
    ('[]', 'definition must be a JSON object'),
    ('1', 'definition must be a JSON object'),
    ('null', 'definition must be a JSON object'),
    ('{}', 'machine has no initial state'),
    ('{"initial": []}', 'machine has no initial state'),
    ('{"transitions": {"a": ["b"]}}', 'machine has no initial state'),
    ('{"initial": "a"}', '"initial" must be an array of states'),
    ('{"initial": {"a": 1}}', '"initial" must be an array of states'),
    ('{"initial": [1]}', 'each state in "initial" must be a string'),
    ('{"initial": [["a"]]}', 'each state in "initial" must be a string'),
    ('{"initial": ["a"], "transitions": []}', '"transitions" must be an object'),
    ('{"initial": ["a"], "transitions": {"a": "b"}}', '"transitions" of "a" must be an array of states'),
    ('{"initial": ["a"], "transitions": {"a": [null]}}', 'each state in "transitions" of "a" must be a string'),
    ('{"initial": ["a"], "states": "a"}', '"states" must be an array of states'),
    ('{"initial": ["a"], "state": ["a"]}', 'definition has an unknown member "state"'),
    ('{"initial": ["a", "a"], "transitions": {"a": []}}', 'initial state "a" is listed twice'),
    ('{"initial": ["a"], "transitions": {"a": ["b", "b"]}}', 'transition from "a" to "b" is listed twice'),
    ('{"initial": ["a"], "states": ["a", "a"]}', 'state "a" is listed twice in "states"'),
    ('{"initial": ["x"], "transitions": {"a": ["b"]}}', 'unknown initial state "x": neither "transitions" nor "states" has it'),
    ('{"initial": ["a"], "states": ["a"], "transitions": {"a": ["b"]}}', 'state "b" is not in "states"'),
    ('{"initial": ["a"], "states": ["a", "b"], "transitions": {"a": []}}', 'state "b" cannot be reached from an initial state'),
    ('{"initial": ["a"], "transitions": {"a": ["b"], "c": ["b"]}}', 'state "c" cannot be reached from an initial state'),
    ('{"initial": [""], "transitions": {"": ["b"]}}', 'state must not be empty')) AS bad (definition, message);
SELECT is((SELECT count(*)::int FROM idem_machines WHERE name = 'define:bad'), 0, 'refused_definitions_leave_nothing');

-- Replacing: at once, within the transaction, and not beyond its rollback.
SELECT idem_machine_define('define:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
SELECT is(idem_can_transition('define:m', 'a', 'b'), true, 'defined');
SELECT idem_machine_define('define:m', '{"initial": ["a"], "transitions": {"a": ["c"]}}');
SELECT is(ARRAY[idem_can_transition('define:m', 'a', 'b'), idem_can_transition('define:m', 'a', 'c')], '{f,t}', 'replaced');
BEGIN;
SELECT idem_machine_define('define:m', '{"initial": ["a"], "transitions": {"a": ["d"]}}');
SELECT is(ARRAY[idem_can_transition('define:m', 'a', 'c'), idem_can_transition('define:m', 'a', 'd')], '{f,t}', 'replaced_within_the_transaction');
SAVEPOINT s;
SELECT idem_machine_define('define:m', '{"initial": ["a"], "transitions": {"a": ["e"]}}');
SELECT is(idem_can_transition('define:m', 'a', 'e'), true, 'replaced_within_the_savepoint');
ROLLBACK TO s;
SELECT is(ARRAY[idem_can_transition('define:m', 'a', 'e'), idem_can_transition('define:m', 'a', 'd')], '{f,t}', 'savepoint_rolled_back');
ROLLBACK;
SELECT is(ARRAY[idem_can_transition('define:m', 'a', 'd'), idem_can_transition('define:m', 'a', 'c')], '{f,t}', 'transaction_rolled_back');
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT is(idem_can_transition('define:m', 'a', 'c'), true, 'readable_in_a_read_only_transaction');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_define('define:m', '{"initial": ["a"], "states": ["a"]}') $$), '25006', 'not_definable_in_a_read_only_transaction');
SELECT is(pg_temp.state_of($$ SELECT idem_machine_drop('define:m') $$), '25006', 'not_droppable_in_a_read_only_transaction');
COMMIT;

-- A parallel worker sees what its leader's transaction has defined.
BEGIN;
SELECT idem_machine_define('define:m', '{"initial": ["a"], "transitions": {"a": ["p"]}}');
SELECT set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT idem_can_transition('define:m', 'a', 'p') AND NOT idem_can_transition('define:m', 'a', 'c') AS in_worker \gset
SELECT set_config(name, 'off', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT ok(:'in_worker', 'parallel_worker');
ROLLBACK;

-- A change by SQL counts too: that is how a restore makes it.
UPDATE idem_machines SET definition = '{"initial": ["a"], "transitions": {"a": ["z"]}}' WHERE name = 'define:m';
SELECT is(idem_can_transition('define:m', 'a', 'z'), true, 'changed_by_sql');

-- Dropping.
SELECT lives_ok($$ SELECT idem_machine_drop('define:m') $$, 'drop');
SELECT throws_ok($$ SELECT idem_can_transition('define:m', 'a', 'z') $$, '42704', NULL, 'dropped_machine_is_unknown');
SELECT throws_ok($$ SELECT idem_machine_drop('define:m') $$, '42704', NULL, 'unknown_machine_cannot_be_dropped');
SELECT throws_ok($$ SELECT idem_machine_drop(NULL) $$, '22004', NULL, 'null_cannot_be_dropped');

DELETE FROM idem_machines WHERE starts_with(name, 'define:');
SELECT * FROM finish();
