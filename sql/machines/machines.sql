-- State machines: which states a row may go through, for every client.

CREATE TABLE idem_machines (
    name       text COLLATE "C" PRIMARY KEY,
    definition jsonb NOT NULL
);
COMMENT ON TABLE idem_machines IS 'State machines (idem_machine_define). For the extension''s owner to read; change it only by the functions, which check the rows of the attached tables.';
COMMENT ON COLUMN idem_machines.name IS 'The machine''s name; 1 to 255 bytes.';
COMMENT ON COLUMN idem_machines.definition IS 'Its definition, as it was given.';

CREATE TABLE idem_transition_log (
    target       text NOT NULL,
    key          jsonb NOT NULL,
    state_column text NOT NULL,
    from_state   text,
    to_state     text NOT NULL,
    at           timestamptz NOT NULL,
    by           text NOT NULL
);
-- A B-tree would refuse keys over 2,704 bytes, and with them the row's transition.
CREATE INDEX idem_transition_log_key ON idem_transition_log USING hash (key);
COMMENT ON TABLE idem_transition_log IS
'Moves of the rows of tables that were attached with log => true, in the transaction that made them. Nothing deletes from it. User triggers and row-level security on it have no effect on the guard that writes it.';
COMMENT ON COLUMN idem_transition_log.target IS 'The table that the machine is attached to: schema and name, quoted where needed.';
COMMENT ON COLUMN idem_transition_log.key IS 'Which row: {"column": value, ...} of its primary key, or of its first usable unique index.';
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

CREATE FUNCTION idem_machine_define(name text, definition jsonb)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_define(text, jsonb) IS
'Defines a state machine, or replaces it for every session at once: {"initial": ["a"], "transitions": {"a": ["b", "c"]}}, and optionally "states": [...] with all of them. A state may lead to itself. Waits for the writers of the attached tables; looks at all their rows, whatever their privileges and policies, but not at temporary tables of other sessions, foreign partitions and tables whose guard is not valid. Operators.
Errors: 22004 an argument is null; 22023 name empty or over 255 bytes, definition not of that form, no initial state, a state that is empty, unknown, listed twice or cannot be reached, or that the enum of an attached column lacks; 23514 rows of an attached table hold a state that is no longer there; 25006 in a read-only transaction.';

CREATE FUNCTION idem_machine_drop(name text)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_drop(text) IS
'Drops a state machine. Operators. Errors: 2BP01 it is attached to a table; 42704 there is no such machine; 25006 in a read-only transaction.';

CREATE FUNCTION idem_state_guard() RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_state_guard() IS
'The trigger that idem_machine_attach puts on a table. Errors, of the statement that writes the row: ID003 a new row in a state that is not initial, a transition that the machine does not have, or a state that is null; 42703 the state column was renamed; 42704 the machine is gone; 42P10 a log is wanted, and the key is gone.';

CREATE FUNCTION idem_machine_attach(target regclass, state_column name, machine text, log boolean DEFAULT false, validate boolean DEFAULT true)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_attach(regclass, name, text, boolean, boolean) IS
'Lets a state machine guard a column: from now on rows start in an initial state and change it by a transition of the machine, whatever client changes them. log: write each move to idem_transition_log. validate => false: do not look at the rows that are there, which may be in any state until their next move; then idem_machine_validate looks at them. Runs as the caller and needs what CREATE TRIGGER needs. Of the portable edition on Citus: a distributed table gets no trigger; idem_transition alone goes by the machine there.
Errors: 0A000 the column is part of the partition key, or has a nondeterministic collation, or a distributed table is to be logged or is distributed by the column; 22004 target, state_column or machine is null; 22023 the column''s enum lacks a state; 23514 rows hold something else than a state; 42501 the caller may not create triggers on the table; 42703 no such column; 42704 no such machine; 42710 the column has a machine; 42804 the column is not text, varchar or an enum; 42809 not a table, or a partition; 42P01 no such table; 42P10 a log is wanted, and the table has no key; 25006 in a read-only transaction.';

CREATE FUNCTION idem_machine_validate(target regclass, state_column name)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_validate(regclass, name) IS
'Looks at all rows of a table whose machine was attached with validate => false, and records that their states are states of the machine (idem_guards.is_valid). Writers go on meanwhile; other definitions and attachments of machines wait. Again: no-op. Runs as the caller and needs the privilege TRIGGER.
Errors: 22004 an argument is null; 22023 the column''s enum lacks a state; 23514 rows hold something else than a state; 42501 the caller may not create triggers on the table; 42703 no such column; 42704 the column has no machine; 42809 not a table; 42P01 no such table; 55000 the guard is disabled; 25006 in a read-only transaction.';

CREATE FUNCTION idem_machine_detach(target regclass, state_column name)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_detach(regclass, name) IS
'Takes the guard off a column; its log stays. For a column that was renamed, give the old name. Runs as the caller, who has to own the table.
Errors: 22004 an argument is null; 42501 the caller does not own the table; 42703 no such column; 42704 the column has no machine; 42809 not a table; 42P01 no such table; 25006 in a read-only transaction.';

CREATE FUNCTION idem_can_transition(machine text, from_state text, to_state text)
RETURNS boolean LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_can_transition(text, text, text) IS
'Whether the machine has this transition; false also for what is no state of it. From a state to itself: only if the machine says so. Errors: 22004 an argument is null; 42704 no such machine.';

CREATE FUNCTION idem_check_transition(machine text, from_state text, to_state text)
RETURNS boolean LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_check_transition(text, text, text) IS
'True if the machine has this transition, otherwise error ID003, whose detail lists the states that can be reached. Also raised: 22004 an argument is null; 42704 no such machine.';

CREATE FUNCTION idem_machine_dot(name text) RETURNS text LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_dot(text) IS
'The machine as a graph for Graphviz. Errors: 22004 name is null; 42704 no such machine.';

CREATE FUNCTION idem_machine_mermaid(name text) RETURNS text LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_mermaid(text) IS
'The machine as a Mermaid state diagram, for Markdown. Errors: 22004 name is null; 42704 no such machine.';

CREATE FUNCTION idem_transition(target regclass, key jsonb, from_state text, to_state text, OUT outcome text, OUT state text)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_transition(regclass, jsonb, text, text) IS
'Moves the row with this key from one state to another, as the machine attached to its table allows. from_state null: whatever state it is in. outcome moved; already: it is in to_state; conflict: it is not in from_state; not_allowed: the machine has no such transition; not_found. state: the row''s state, after the move or as it was found.
Errors: as optimistic_update, of which those about versions do not apply; 42702 machines are attached to several columns; 55000 to none.';
