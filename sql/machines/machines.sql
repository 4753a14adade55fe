-- State machines: the states that a row may go through, enforced for every client.

CREATE TABLE idem_machines (
    name       text COLLATE "C" PRIMARY KEY,
    definition jsonb NOT NULL
);
COMMENT ON TABLE idem_machines IS 'State machines (idem_machine_define). The extension''s owner may read it; change it only by the functions, which check the rows of the attached tables.';
COMMENT ON COLUMN idem_machines.name IS 'The machine''s name; 1 to 255 bytes.';
COMMENT ON COLUMN idem_machines.definition IS 'The definition, as it was given.';

CREATE TABLE idem_transition_log (
    target       text NOT NULL,
    key          jsonb NOT NULL,
    state_column text NOT NULL,
    from_state   text,
    to_state     text NOT NULL,
    at           timestamptz NOT NULL,
    by           text NOT NULL
);
-- A B-tree would reject keys over 2,704 bytes, and the row's transition would fail.
CREATE INDEX idem_transition_log_key ON idem_transition_log USING hash (key);
COMMENT ON TABLE idem_transition_log IS
'Moves of the rows of tables that were attached with log => true, written in the transaction that makes the move. No function deletes from it. User triggers and row-level security on it have no effect on the guard that writes it.';
COMMENT ON COLUMN idem_transition_log.target IS 'The table that the machine is attached to: schema and name, quoted where needed.';
COMMENT ON COLUMN idem_transition_log.key IS 'The row: {"column": value, ...} of its primary key, or of its first usable unique index.';
COMMENT ON COLUMN idem_transition_log.state_column IS 'The state column.';
COMMENT ON COLUMN idem_transition_log.from_state IS 'The state before; NULL: the row was inserted.';
COMMENT ON COLUMN idem_transition_log.to_state IS 'The state after.';
COMMENT ON COLUMN idem_transition_log.at IS 'When the guard saw the move (database time, not the transaction''s start).';
COMMENT ON COLUMN idem_transition_log.by IS 'The current user.';
COMMENT ON INDEX idem_transition_log_key IS 'Finds a row''s history: WHERE key = ''{"id": 1}''.';

SELECT pg_catalog.pg_extension_config_dump('idem_machines', '');
SELECT pg_catalog.pg_extension_config_dump('idem_transition_log', '');

CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON idem_machines
    FOR EACH ROW EXECUTE FUNCTION idem_definitions_changed();
CREATE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON idem_machines
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_machines ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated;
COMMENT ON TRIGGER idem_definitions_changed ON idem_machines IS 'Makes every session read the table again.';
COMMENT ON TRIGGER idem_definitions_truncated ON idem_machines IS 'Makes every session read the table again.';

CREATE FUNCTION idem_machine_define(machine text, definition jsonb)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_define(text, jsonb) IS
'Defines a state machine, or replaces it for every session at once. definition: {"initial": ["a"], "transitions": {"a": ["b", "c"]}}, and optionally "states": [...] with all of them. A state may lead to itself. Waits for the writers of the attached tables. Checks all their rows, whatever their privileges and policies, but not temporary tables of other sessions, foreign partitions and tables whose guard is not valid. Operators.
Errors: 22004 an argument is null; 22023 machine empty or over 255 bytes, definition not of that form, no initial state, a state that is empty, unknown, listed twice, unreachable, or missing in the enum of an attached column; 23514 rows of an attached table hold a state that the new definition lacks; 25006 in a read-only transaction.';

CREATE FUNCTION idem_machine_drop(machine text)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_drop(text) IS
'Drops a state machine. Operators. Errors: 2BP01 it is attached to a table; 42704 there is no such machine; 25006 in a read-only transaction.';

CREATE FUNCTION idem_state_guard() RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_state_guard() IS
'Trigger that idem_machine_attach creates on a table. Errors, of the statement that writes the row: ID003 a new row in a state that is not initial, a transition that the machine does not have, or a state that is null; 42703 the state column was renamed; 42704 the machine no longer exists; 42P10 the table no longer has the key that its log needs.';

CREATE FUNCTION idem_machine_attach(target regclass, state_column name, machine text, log boolean DEFAULT false, validate boolean DEFAULT true)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_attach(regclass, name, text, boolean, boolean) IS
'Attaches a state machine to a column: from now on, rows start in an initial state and change it by a transition of the machine, whatever client changes them. log: write each move to idem_transition_log. validate => false: do not check existing rows, which may be in any state until their next move; idem_machine_validate checks them later. Runs as the caller, with the privileges that CREATE TRIGGER needs. In the portable edition on Citus, a distributed table gets no trigger: there, only idem_transition enforces the machine.
Errors: 0A000 the column is part of the partition key, or has a nondeterministic collation, or the table has foreign partitions, or a distributed table is to be logged or is distributed by the column; 22004 target, state_column or machine is null; 22023 the column''s enum lacks a state; 23514 rows hold a value that is not a state of the machine; 42501 the caller may not create triggers on the table; 42703 no such column; 42704 no such machine; 42710 the column has a machine; 42804 the column is not text, varchar or an enum; 42809 not a table, or a partition; 42P01 no such table; 42P10 a log is requested, and the table has no key; 25006 in a read-only transaction.';

CREATE FUNCTION idem_machine_validate(target regclass, state_column name)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_validate(regclass, name) IS
'Checks all rows of a table whose machine was attached with validate => false, and records that their states are states of the machine (idem_guards.is_valid). Writers continue meanwhile; other definitions and attachments of machines wait. Calling it again is a no-op. Runs as the caller and needs the privilege TRIGGER.
Errors: 22004 an argument is null; 22023 the column''s enum lacks a state; 23514 rows hold a value that is not a state of the machine; 42501 the caller may not create triggers on the table; 42703 no such column; 42704 the column has no machine; 42809 not a table; 42P01 no such table; 55000 the guard is disabled; 25006 in a read-only transaction.';

CREATE FUNCTION idem_machine_detach(target regclass, state_column name)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_detach(regclass, name) IS
'Removes the guard from a column; its log stays. For a column that was renamed, give the old name. Runs as the caller, who must own the table.
Errors: 22004 an argument is null; 42501 the caller does not own the table; 42703 no such column; 42704 the column has no machine; 42809 not a table; 42P01 no such table; 25006 in a read-only transaction.';

CREATE FUNCTION idem_can_transition(machine text, from_state text, to_state text)
RETURNS boolean LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_can_transition(text, text, text) IS
'Returns whether the machine has this transition; false also for a state that the machine does not have. A transition from a state to itself must be defined like any other. Errors: 22004 an argument is null; 42704 no such machine.';

CREATE FUNCTION idem_check_transition(machine text, from_state text, to_state text)
RETURNS boolean LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_check_transition(text, text, text) IS
'Returns true if the machine has this transition, and raises ID003 otherwise. The error''s detail lists the states that can be reached. Also raised: 22004 an argument is null; 42704 no such machine.';

CREATE FUNCTION idem_machine_dot(machine text) RETURNS text LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_dot(text) IS
'Returns the machine as a graph for Graphviz. Errors: 22004 machine is null; 42704 no such machine.';

CREATE FUNCTION idem_machine_mermaid(machine text) RETURNS text LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_mermaid(text) IS
'Returns the machine as a Mermaid state diagram, for Markdown. Errors: 22004 machine is null; 42704 no such machine.';

CREATE FUNCTION idem_transition(target regclass, key jsonb, from_state text, to_state text, state_column name DEFAULT NULL, OUT outcome text,
                                OUT state text)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_transition(regclass, jsonb, text, text, name) IS
'Moves the row with this key from one state to another, as the machine attached to its table allows. from_state null: any state. state_column: which one, if machines are attached to several. outcome moved; already: the row is in to_state; conflict: it is not in from_state; not_allowed: the machine has no such transition; not_found. state: the row''s state, after the move or as it was found.
Errors: as optimistic_update, without those about versions; 42702 machines are attached to several columns, and state_column names none; 42704 no machine is attached to state_column; 55000 none is attached.';
