-- State machines. On tables whose rows Citus keeps on workers there is no guard: what is attached is recorded (storage/distribution.sql), for idem_transition.
-- Elsewhere the guard is the same trigger as in the C edition, with the same arguments: dumps and idem_guards fit both. The guard has the rights of
-- its owner, because a writer of the row may lack the right to read idem_machines. The guard never calls code of the table's owner. It reads states and
-- keys by the output functions of their types (concat): a cast can be anybody's.

CREATE FUNCTION _idem_check_machine(machine text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _idem_check_name(machine, 'machine', 'name of a state machine', 'name', 255);
END
$$;

CREATE FUNCTION _idem_raise_no_machine(machine text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE undefined_object USING MESSAGE = format('state machine "%s" does not exist', machine), HINT = 'Define it with idem_machine_define.';
END
$$;

-- Definitions.

-- A name in a message. A long one is cut.
CREATE FUNCTION _idem_quoted_state(state text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    shown text := left(state, 80);
BEGIN
    WHILE octet_length(shown) > 80 LOOP
        shown := left(shown, -1);
    END LOOP;
    RETURN '"' || shown || CASE WHEN shown = state THEN '"' ELSE '..."' END;
END
$$;

CREATE FUNCTION _idem_quoted_list(states jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg('"' || s.name || '"', ', ' ORDER BY s.n) FROM jsonb_array_elements_text(states) WITH ORDINALITY AS s (name, n)
$$;

CREATE FUNCTION _idem_first_duplicate(names text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT d.name FROM (SELECT u.name, u.n, row_number() OVER (PARTITION BY u.name ORDER BY u.n) AS nth FROM unnest(names) WITH ORDINALITY AS u (name, n)) d
     WHERE d.nth = 2 ORDER BY d.n LIMIT 1
$$;

CREATE FUNCTION _idem_refuse_definition(subject text, requirement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _idem_invalid(format('%s must be %s', subject, requirement),
        hint => 'A definition looks like {"initial": ["a"], "transitions": {"a": ["b", "c"]}}.');
END
$$;

CREATE FUNCTION _idem_check_state_list(list jsonb, subject text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF jsonb_typeof(list) <> 'array' THEN
        PERFORM _idem_refuse_definition(subject, 'an array of states');
    ELSIF EXISTS (SELECT FROM jsonb_array_elements(list) AS e (element) WHERE jsonb_typeof(e.element) <> 'string') THEN
        PERFORM _idem_refuse_definition('each state in ' || subject, 'a string');
    END IF;
END
$$;

CREATE FUNCTION _idem_check_definition(definition jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    member record;
    source record;
BEGIN
    IF jsonb_typeof(definition) <> 'object' THEN
        PERFORM _idem_refuse_definition('definition', 'a JSON object');
    END IF;
    FOR member IN SELECT e.key, e.value FROM jsonb_each(definition) AS e LOOP
        IF member.key IN ('initial', 'states') THEN
            PERFORM _idem_check_state_list(member.value, '"' || member.key || '"');
        ELSIF member.key <> 'transitions' THEN
            PERFORM _idem_invalid(format('definition has an unknown member "%s"', member.key),
                hint => 'Its members are "initial", "transitions" and, if you like, "states".');
        ELSIF jsonb_typeof(member.value) <> 'object' THEN
            PERFORM _idem_refuse_definition('"transitions"', 'an object');
        ELSE
            FOR source IN SELECT e.key, e.value FROM jsonb_each(member.value) AS e LOOP
                PERFORM _idem_check_state_list(source.value, format('"transitions" of "%s"', source.key));
            END LOOP;
        END IF;
    END LOOP;
END
$$;

-- The states of a definition, breadth first from the initial ones. 22023 when the definition is wrong. REQUIRES: its form was checked.
CREATE FUNCTION _idem_states(definition jsonb) RETURNS text[] LANGUAGE plpgsql STRICT AS $$
DECLARE
    initial CONSTANT text[] := ARRAY(SELECT jsonb_array_elements_text(definition -> 'initial'));
    sources CONSTANT text[] := ARRAY(SELECT jsonb_object_keys(definition -> 'transitions'));
    listed  CONSTANT text[] := ARRAY(SELECT jsonb_array_elements_text(definition -> 'states'));
    targets text[];
    named   text[];
    culprit text;
    source  text;
    walk    text[] := initial;
    i       integer := 1;
BEGIN
    targets := ARRAY(SELECT t.name FROM unnest(sources) WITH ORDINALITY AS s (name, n),
                            jsonb_array_elements_text(definition -> 'transitions' -> s.name) WITH ORDINALITY AS t (name, n) ORDER BY s.n, t.n);
    named := initial || sources || targets || listed;
    IF '' = ANY (named) THEN
        PERFORM _idem_invalid('state must not be empty');
    ELSIF initial = '{}' THEN
        PERFORM _idem_invalid('machine has no initial state');
    END IF;
    culprit := _idem_first_duplicate(initial);
    IF culprit IS NOT NULL THEN
        PERFORM _idem_invalid(format('initial state %s is listed twice', _idem_quoted_state(culprit)));
    END IF;
    SELECT u.name INTO culprit FROM unnest(initial) WITH ORDINALITY AS u (name, n) WHERE u.name <> ALL (sources || targets) ORDER BY u.n LIMIT 1;
    IF culprit IS NOT NULL AND definition -> 'states' IS NULL THEN
        PERFORM _idem_invalid(format('unknown initial state %s: neither "transitions" nor "states" has it', _idem_quoted_state(culprit)));
    END IF;
    FOREACH source IN ARRAY sources LOOP
        culprit := _idem_first_duplicate(ARRAY(SELECT jsonb_array_elements_text(definition -> 'transitions' -> source)));
        IF culprit IS NOT NULL THEN
            PERFORM _idem_invalid(format('transition from %s to %s is listed twice', _idem_quoted_state(source), _idem_quoted_state(culprit)));
        END IF;
    END LOOP;
    culprit := _idem_first_duplicate(listed);
    IF culprit IS NOT NULL THEN
        PERFORM _idem_invalid(format('state %s is listed twice in "states"', _idem_quoted_state(culprit)));
    END IF;
    SELECT u.name INTO culprit FROM unnest(named) WITH ORDINALITY AS u (name, n) WHERE u.name <> ALL (listed) ORDER BY u.n LIMIT 1;
    IF culprit IS NOT NULL AND definition -> 'states' IS NOT NULL THEN
        PERFORM _idem_invalid(format('state %s is not in "states"', _idem_quoted_state(culprit)));
    END IF;
    WHILE i <= cardinality(walk) LOOP
        walk := walk || ARRAY(SELECT t.name FROM jsonb_array_elements_text(definition -> 'transitions' -> walk[i]) WITH ORDINALITY AS t (name, n)
                               WHERE t.name <> ALL (walk) ORDER BY t.n);
        i := i + 1;
    END LOOP;
    SELECT u.name INTO culprit FROM unnest(named) WITH ORDINALITY AS u (name, n) WHERE u.name <> ALL (walk) ORDER BY u.n LIMIT 1;
    IF culprit IS NOT NULL THEN
        PERFORM _idem_invalid(format('state %s cannot be reached from an initial state', _idem_quoted_state(culprit)));
    END IF;
    RETURN walk;
END
$$;

-- What is stored: the definition as the snapshot has it. 42704 when there is none.
CREATE FUNCTION _idem_definition(machine text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    definition jsonb;
BEGIN
    SELECT m.definition INTO definition FROM ONLY idem_machines m WHERE m.name = machine;
    IF NOT FOUND THEN
        PERFORM _idem_raise_no_machine(machine);
    END IF;
    RETURN definition;
END
$$;

-- The definition for a guard. 40001 when the snapshot is older than the definition, as for a foreign key.
CREATE FUNCTION _idem_latest_definition(machine text) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    definition jsonb;
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') AND NOT current_setting('transaction_read_only')::boolean THEN
        SELECT m.definition INTO definition FROM ONLY idem_machines m WHERE m.name = machine FOR SHARE;
    ELSE
        SELECT m.definition INTO definition FROM ONLY idem_machines m WHERE m.name = machine;
    END IF;
    IF NOT FOUND THEN
        PERFORM _idem_raise_no_machine(machine);
    END IF;
    RETURN definition;
END
$$;

-- Keeps definitions and attachments as they are until the transaction ends, and returns the machine's definition; NULL: there is none. Every function
-- that changes either calls it before it locks a table.
CREATE FUNCTION _idem_lock_machines(machine text) RETURNS jsonb LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    LOCK TABLE ONLY idem_machines IN SHARE ROW EXCLUSIVE MODE;
    RETURN (SELECT m.definition FROM ONLY idem_machines m WHERE m.name = machine);
END
$$;

-- ID003. NULL stands for a NULL state.
CREATE FUNCTION _idem_raise_not_allowed(machine text, definition jsonb, from_state text, to_state text, in_schema name DEFAULT NULL,
                                        in_table name DEFAULT NULL, in_column name DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    message CONSTANT text := format('transition from %s to %s is not allowed', coalesce('"' || from_state || '"', 'null'),
                                    coalesce('"' || to_state || '"', 'null'));
    next    CONSTANT text := _idem_quoted_list(definition -> 'transitions' -> from_state);
    reason  text;
BEGIN
    reason := CASE
        WHEN from_state IS NULL THEN 'The row has no state.'
        WHEN next IS NOT NULL THEN format('From "%s", state machine "%s" can reach: %s.', from_state, machine, next)
        WHEN definition -> 'initial' ? from_state OR definition -> 'states' ? from_state OR definition -> 'transitions' ? from_state
             OR EXISTS (SELECT FROM jsonb_each(definition -> 'transitions') AS e WHERE e.value ? from_state)
        THEN format('State machine "%s" ends in "%s".', machine, from_state)
        ELSE format('State machine "%s" has no state "%s".', machine, from_state) END;
    IF in_table IS NULL THEN
        RAISE SQLSTATE 'ID003' USING MESSAGE = message, DETAIL = reason;
    END IF;
    RAISE SQLSTATE 'ID003' USING MESSAGE = message, DETAIL = reason, SCHEMA = in_schema, TABLE = in_table, COLUMN = in_column;
END
$$;

CREATE FUNCTION idem_can_transition LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM _idem_check_machine(machine);
    IF from_state IS NULL THEN
        PERFORM _idem_null('from_state');
    ELSIF to_state IS NULL THEN
        PERFORM _idem_null('to_state');
    END IF;
    RETURN coalesce(_idem_definition(machine) -> 'transitions' -> from_state ? to_state, false);
END
$$;

CREATE FUNCTION idem_check_transition LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NOT idem_can_transition(machine, from_state, to_state) THEN
        PERFORM _idem_raise_not_allowed(machine, _idem_definition(machine), from_state, to_state);
    END IF;
    RETURN true;
END
$$;

-- Drawings. Nodes are s0, s1, and so on; a state's name appears as a label only.

-- The states by number, in the order of _idem_states, and their transitions; state_to is NULL for a state that has none.
CREATE FUNCTION _idem_graph(definition jsonb, OUT state_from integer, OUT state text, OUT nth bigint, OUT state_to integer)
RETURNS SETOF record LANGUAGE sql VOLATILE AS $$
    WITH walk AS (SELECT _idem_states(definition) AS states)
    SELECT s.n::integer - 1, s.name, t.n, array_position(w.states, t.name) - 1
      FROM walk w CROSS JOIN unnest(w.states) WITH ORDINALITY AS s (name, n)
           LEFT JOIN jsonb_array_elements_text(definition -> 'transitions' -> s.name) WITH ORDINALITY AS t (name, n) ON true
     ORDER BY s.n, t.n
$$;

-- A double-quoted string of the DOT language. In a label, a backslash starts an escape and an ampersand an HTML entity.
CREATE FUNCTION _idem_dot_string(label text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '"' || replace(replace(translate(replace(replace(label, '\', '\\'), '"', '\"'), E'\r\t', '  '), '&', '&amp;'), E'\n', '\n') || '"'
$$;

-- Mermaid's quoted strings have no escapes, only numbered entities. Every character that could be syntax becomes an entity.
CREATE FUNCTION _idem_mermaid_string(label text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '"' || coalesce(string_agg(CASE WHEN c.c = E'\n' THEN '<br>' WHEN c.c ~ '^[A-Za-z0-9 _.-]$' OR ascii(c.c) > 127 THEN c.c
                                           ELSE '#' || ascii(c.c) || ';' END, '' ORDER BY c.n), '') || '"'
      FROM regexp_split_to_table(label, '') WITH ORDINALITY AS c (c, n)
$$;

CREATE FUNCTION idem_machine_dot LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM _idem_check_machine($1);
    RETURN (
        SELECT format(E'digraph %s {\n', _idem_dot_string($1))
            || E'    rankdir=LR;\n'
               '    node [shape=box, style="rounded,filled", fillcolor="#eef3fa", color="#44546a", fontname="Helvetica"];\n'
               '    edge [color="#44546a"];\n'
               '    start [shape=point, width=0.12, fillcolor="#44546a"];\n'
            || string_agg(format(E'    s%s [label=%s%s];\n', g.state_from, _idem_dot_string(g.state), CASE WHEN g.state_to IS NULL THEN ', peripheries=2' END), ''
                          ORDER BY g.state_from) FILTER (WHERE coalesce(g.nth, 1) = 1)
            || string_agg(format(E'    start -> s%s;\n', g.state_from), '' ORDER BY g.state_from)
               FILTER (WHERE coalesce(g.nth, 1) = 1 AND d.definition -> 'initial' ? g.state)
            || coalesce(string_agg(format(E'    s%s -> s%s;\n', g.state_from, g.state_to), '' ORDER BY g.state_from, g.nth) FILTER (WHERE g.nth IS NOT NULL), '')
            || E'}\n'
          FROM (SELECT _idem_definition($1)) AS d (definition), _idem_graph(d.definition) AS g);
END
$$;

CREATE FUNCTION idem_machine_mermaid LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM _idem_check_machine($1);
    RETURN (
        SELECT E'stateDiagram-v2\n'
            || string_agg(format(E'    state %s as s%s\n', _idem_mermaid_string(g.state), g.state_from), '' ORDER BY g.state_from)
               FILTER (WHERE coalesce(g.nth, 1) = 1)
            || string_agg(format(E'    [*] --> s%s\n', g.state_from), '' ORDER BY g.state_from)
               FILTER (WHERE coalesce(g.nth, 1) = 1 AND d.definition -> 'initial' ? g.state)
            || string_agg(format(E'    s%s --> %s\n', g.state_from, coalesce('s' || g.state_to, '[*]')), '' ORDER BY g.state_from, g.nth)
          FROM (SELECT _idem_definition($1)) AS d (definition), _idem_graph(d.definition) AS g);
END
$$;

-- The guard.

-- Rows that an UPDATE moves to another partition. The server deletes such a row and inserts it, and fires the triggers of both one right after the
-- other. The guard notes the state of a row that it sees deleted, and takes the note when it sees the row inserted. Each note of a transaction at one depth
-- of triggers is written over the one before; a setting of the installation has its place. Whatever place somebody else sets: only a note that the same command has written
-- can be taken.
CREATE TABLE _idem_departures (
    root         oid NOT NULL, -- of the partitioned table; 0: the note was taken
    part         oid NOT NULL,
    state_column name NOT NULL,
    command      cid,          -- that deleted the row; NULL: unknown, as this transaction had written the row
    state        text
);
ALTER TABLE _idem_departures SET UNLOGGED;
COMMENT ON TABLE _idem_departures IS 'Internal: the states of rows that are on their way to another partition. Rows are reused.';

CREATE FUNCTION _idem_note_departure(from_part oid, of_column name, writer xid, deleted_by cid, from_state text) RETURNS void LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    setting CONSTANT text := 'idem_portable.departure_' || _idem_seed(pg_trigger_depth());
    own_age CONSTANT integer := age(pg_current_xact_id()::xid); -- subtransactions are younger
    place   tid := nullif(current_setting(setting, true), '')::tid;
    note    _idem_departures;
BEGIN
    note := ROW(coalesce(pg_partition_root(from_part), 0), from_part, of_column, CASE WHEN age(writer) > own_age THEN deleted_by END, from_state);
    -- Notes that other transactions have left are used again.
    IF place IS NULL AND current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        place := (SELECT d.ctid FROM ONLY _idem_departures d WHERE age(d.xmin) > own_age LIMIT 1 FOR UPDATE SKIP LOCKED);
    END IF;
    IF place IS NOT NULL THEN
        UPDATE ONLY _idem_departures d SET root = note.root, part = note.part, state_column = note.state_column, command = note.command, state = note.state
         WHERE d.ctid = place RETURNING d.ctid INTO place;
    END IF;
    IF place IS NULL THEN
        INSERT INTO _idem_departures AS d SELECT note.* RETURNING d.ctid INTO place;
    END IF;
    PERFORM set_config(setting, place::text, true);
END
$$;

-- Whether the row was moved, and the state that it had. Its insertion and the note have to be of one command: the note was written after the row. A row
-- moves to another partition only. inserted_by: NULL if it is unknown.
CREATE FUNCTION _idem_take_departure(to_part oid, of_column name, writer xid, inserted_by cid, OUT is_moved boolean, OUT from_state text)
LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    setting CONSTANT text := 'idem_portable.departure_' || _idem_seed(pg_trigger_depth());
    place   tid := nullif(current_setting(setting, true), '')::tid;
BEGIN
    UPDATE ONLY _idem_departures d SET root = 0
     WHERE d.ctid = place AND d.xmin = writer AND d.root = pg_partition_root(to_part) AND d.part <> to_part AND d.state_column = of_column
       AND d.cmin::text::bigint > inserted_by::text::bigint AND (d.command IS NULL OR d.command = inserted_by)
    RETURNING d.ctid, d.state INTO place, from_state;
    is_moved := FOUND;
    IF is_moved THEN
        PERFORM set_config(setting, place::text, true);
    END IF;
END
$$;

-- A row that this transaction has written was changed, in a trigger: _idem_inserted_by.
CREATE FUNCTION _idem_note_change(writer xid) RETURNS void LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    IF age(writer) <= age(pg_current_xact_id()::xid) THEN
        PERFORM set_config('idem_portable.changed', 'yes', true);
    END IF;
END
$$;

-- The command that inserted a row of this transaction. A lock on it, as a foreign key to the table itself takes, leaves the command where it is. A change
-- hides it, and cannot be told from a lock: after one in a trigger, the command of a row that is locked is unknown.
CREATE FUNCTION _idem_inserted_by(creator cid, locker xid) RETURNS cid LANGUAGE sql STABLE INNER AS $$
    SELECT CASE WHEN locker::text = '0' OR current_setting('idem_portable.changed', true) IS DISTINCT FROM 'yes' THEN creator END
$$;

-- Whether the column exists and holds states: 42703, 42804. A writer of the table may have made its types, and the guard has the rights of idem's owner:
-- in place of a column that does not exist, the server would call a function of its name, with code of those types.
CREATE FUNCTION _idem_check_guarded_column(target oid, state_column text) RETURNS void LANGUAGE plpgsql STABLE INNER AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                WHERE a.attrelid = target AND a.attname = state_column AND a.attnum > 0 AND NOT a.attisdropped
                  AND (t.typtype = 'e' OR t.oid IN ('text'::regtype, 'varchar'::regtype))) THEN
        RETURN;
    ELSIF _idem_row_column(target, state_column) IS NULL THEN
        PERFORM _idem_raise_renamed(target, state_column);
    END IF;
    PERFORM _idem_state_column(target, state_column); -- a domain can
END
$$;

-- The states before and after, of any column. REQUIRES: _idem_check_guarded_column.
CREATE FUNCTION _idem_states_of_row(operation text, older record, newer record, of_column name, OUT before text, OUT after text)
LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    CASE operation
    WHEN 'UPDATE' THEN
        EXECUTE format('SELECT CASE WHEN ($1).%1$I IS NOT NULL THEN concat(($1).%1$I) END, CASE WHEN ($2).%1$I IS NOT NULL THEN concat(($2).%1$I) END', of_column)
           INTO before, after USING older, newer;
    WHEN 'INSERT' THEN
        EXECUTE format('SELECT CASE WHEN ($1).%1$I IS NOT NULL THEN concat(($1).%1$I) END', of_column) INTO after USING newer;
    ELSE
        EXECUTE format('SELECT CASE WHEN ($1).%1$I IS NOT NULL THEN concat(($1).%1$I) END', of_column) INTO before USING older;
    END CASE;
END
$$;

CREATE FUNCTION _idem_raise_renamed(target oid, state_column name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE undefined_column USING
        MESSAGE = format('state column "%s" of table "%s" is no longer there', state_column, (SELECT c.relname FROM pg_class c WHERE c.oid = target)),
        HINT = 'If it was renamed, use idem_machine_detach with the old name and idem_machine_attach with the new.';
END
$$;

-- The columns of the primary key, or else of the oldest unique index that can serve as one; NULL: there is none.
CREATE FUNCTION _idem_log_key(target oid) RETURNS smallint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT k.columns FROM _idem_row_keys(target, false) AS k ORDER BY k.is_primary DESC, k.index LIMIT 1);
END
$$;

-- Writes a move to the log. Values whose type somebody has made are logged as text: to_jsonb would call casts of theirs.
CREATE FUNCTION _idem_log_move(in_table oid, by_trigger name, moved record, of_column name, from_state text, to_state text)
RETURNS void LANGUAGE plpgsql VOLATILE INNER SET quote_all_identifiers = off AS $$
DECLARE
    attached oid := in_table;
    columns  smallint[];
    key      jsonb;
BEGIN
    PERFORM _idem_require_writable('a logged transition');
    IF pg_partition_root(in_table) IS NOT NULL THEN -- a partition's trigger is a copy of the attached table's
        WITH RECURSIVE copy AS (
            SELECT t.tgrelid, t.tgparentid FROM pg_trigger t WHERE t.tgrelid = in_table AND t.tgname = by_trigger
            UNION ALL
            SELECT t.tgrelid, t.tgparentid FROM copy c JOIN pg_trigger t ON t.oid = c.tgparentid)
        SELECT c.tgrelid INTO attached FROM copy c WHERE c.tgparentid = 0;
    END IF;
    columns := _idem_log_key(attached);
    IF columns IS NULL THEN
        RAISE invalid_column_reference USING
            MESSAGE = format('table "%s" no longer has a key to log transitions by', (SELECT c.relname FROM pg_class c WHERE c.oid = attached)),
            HINT = 'Add a primary key, or attach the state machine again without a log.';
    END IF;
    EXECUTE (SELECT format('SELECT jsonb_build_object(%s)',
                           string_agg(format(CASE WHEN (_idem_base_type(a.atttypid)).type < 16384 THEN '%L, ($1).%I' ELSE '%L, concat(($1).%I)' END,
                                             a.attname, a.attname), ', '))
               FROM pg_attribute k JOIN pg_attribute a ON a.attrelid = in_table AND a.attname = k.attname AND NOT a.attisdropped
              WHERE k.attrelid = attached AND k.attnum = ANY (columns)) INTO key USING moved;
    INSERT INTO idem_transition_log (target, key, state_column, from_state, to_state, at, by)
    SELECT format('%I.%I', n.nspname, c.relname), key, of_column, from_state, to_state, clock_timestamp(), _idem_caller()
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = attached;
END
$$;

-- Columns of the usual names are read by expressions that the session has prepared, ten times faster than others.
CREATE FUNCTION idem_state_guard LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    before     text;
    after      text;
    is_new     boolean := TG_OP = 'INSERT';
    definition jsonb;
BEGIN
    IF TG_WHEN <> 'AFTER' OR TG_LEVEL <> 'ROW' OR TG_NARGS <> 4 THEN
        RAISE SQLSTATE '39P01' USING MESSAGE = 'function "idem_state_guard" is the trigger that idem_machine_attach makes';
    END IF;
    PERFORM _idem_check_guarded_column(TG_RELID, TG_ARGV[1]);
    BEGIN
        IF TG_ARGV[1] = 'state' THEN
            IF TG_OP <> 'INSERT' THEN
                before := CASE WHEN OLD.state IS NOT NULL THEN concat(OLD.state) END;
            END IF;
            IF TG_OP <> 'DELETE' THEN
                after := CASE WHEN NEW.state IS NOT NULL THEN concat(NEW.state) END;
            END IF;
        ELSIF TG_ARGV[1] = 'status' THEN
            IF TG_OP <> 'INSERT' THEN
                before := CASE WHEN OLD.status IS NOT NULL THEN concat(OLD.status) END;
            END IF;
            IF TG_OP <> 'DELETE' THEN
                after := CASE WHEN NEW.status IS NOT NULL THEN concat(NEW.status) END;
            END IF;
        ELSE
            SELECT r.before, r.after INTO before, after FROM _idem_states_of_row(TG_OP, OLD, NEW, TG_ARGV[1]) AS r;
        END IF;
    EXCEPTION WHEN datatype_mismatch THEN -- its type was altered since this session prepared
        SELECT r.before, r.after INTO before, after FROM _idem_states_of_row(TG_OP, OLD, NEW, TG_ARGV[1]) AS r;
    END;
    IF NOT is_new AND pg_trigger_depth() > 1 THEN
        PERFORM _idem_note_change(OLD.xmin);
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM _idem_note_departure(TG_RELID, TG_ARGV[1], OLD.xmin, OLD.cmax, before);
        RETURN NULL;
    ELSIF is_new AND current_setting('idem_portable.departure_' || _idem_seed(pg_trigger_depth()), true) <> '' THEN
        SELECT NOT d.is_moved, d.from_state INTO is_new, before
          FROM _idem_take_departure(TG_RELID, TG_ARGV[1], NEW.xmin, _idem_inserted_by(NEW.cmin, NEW.xmax)) AS d;
    END IF;
    IF NOT is_new AND before IS NOT DISTINCT FROM after THEN
        RETURN NULL;
    END IF;
    definition := _idem_latest_definition(TG_ARGV[0]);
    IF NOT is_new THEN
        IF (definition -> 'transitions' -> before ? after) IS NOT TRUE THEN
            PERFORM _idem_raise_not_allowed(TG_ARGV[0], definition, before, after, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[1]);
        END IF;
    ELSIF (definition -> 'initial' ? after) IS NOT TRUE THEN
        RAISE SQLSTATE 'ID003' USING
            MESSAGE = CASE WHEN after IS NULL THEN 'state of a new row must not be null' ELSE format('state "%s" is not an initial state', after) END,
            DETAIL = format('State machine "%s" starts in: %s.', TG_ARGV[0], _idem_quoted_list(definition -> 'initial')),
            SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = TG_ARGV[1];
    END IF;
    IF TG_ARGV[2] = 'log' THEN
        PERFORM _idem_log_move(TG_RELID, TG_NAME, NEW, TG_ARGV[1], before, after);
    END IF;
    RETURN NULL;
END
$$;

-- Tables that machines are attached to.

-- Argument n of a guard: its machine, column, 'log' or 'no log', 'valid' or 'not valid'.
CREATE FUNCTION _idem_guard_argument(arguments bytea, n integer) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT convert_from(decode((string_to_array(regexp_replace(encode(arguments, 'hex'), '(..)', '\1 ', 'g'), '00 '))[n], 'hex'), getdatabaseencoding())
$$;

-- The table, and the partitions of a partitioned one at all levels. Tables that inherit otherwise have guards of their own.
CREATE FUNCTION _idem_parts(target oid, OUT part oid, OUT kind "char") RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = target OR c.oid IN (SELECT p.relid FROM pg_partition_tree(target) p)
$$;

-- The guards of states: the triggers, as the view idem_guards has them, and those that are recorded. trigger: NULL for these. Anybody can make a trigger
-- with the guard's function; on a view it is no guard.
CREATE FUNCTION _idem_state_guards(OUT relation oid, OUT column_name text, OUT of_machine text, OUT valid boolean, OUT trigger oid)
RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT t.tgrelid, _idem_guard_argument(t.tgargs, 2), _idem_guard_argument(t.tgargs, 1), _idem_guard_argument(t.tgargs, 4) = 'valid', t.oid
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid AND c.relkind IN ('r', 'p')
     WHERE t.tgfoid = 'idem_state_guard'::regproc AND t.tgnargs = 4 AND t.tgparentid = 0 AND t.tgtype & 87 = 21 AND t.tgqual IS NULL AND t.tgattr = ''
    UNION ALL
    SELECT g.target, g.column_name, g.machine, g.is_valid, NULL
      FROM ONLY _idem_citus_guards g WHERE g.machine IS NOT NULL AND _idem_is_on_workers(g.target)
$$;

-- Locks a table, with its partitions. False: there is no such table any more.
CREATE FUNCTION _idem_lock_table(target regclass, mode text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    recurses CONSTANT boolean := (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = target);
    name     text;
BEGIN
    LOOP
        name := target::text;
        IF recurses IS NULL OR name = target::oid::text THEN
            RETURN false;
        END IF;
        BEGIN
            EXECUTE format('LOCK TABLE %s%s IN %s MODE', CASE WHEN NOT recurses THEN 'ONLY ' END, name, mode);
            IF to_regclass(name) = target THEN
                RETURN true;
            END IF;
        EXCEPTION WHEN undefined_table OR invalid_schema_name THEN -- dropped or renamed while this call waited
        END;
    END LOOP;
END
$$;

-- A column that holds states: 42703, 42804.
CREATE FUNCTION _idem_state_column(target oid, state_column name, OUT number smallint, OUT type oid, OUT is_enum boolean) LANGUAGE plpgsql STABLE AS $$
DECLARE
    declared  oid;
    collation oid;
    named     name := (SELECT c.relname FROM pg_class c WHERE c.oid = target);
BEGIN
    SELECT a.attnum, a.atttypid INTO number, declared FROM pg_attribute a
     WHERE a.attrelid = target AND a.attname = state_column AND a.attnum > 0 AND NOT a.attisdropped;
    IF NOT FOUND THEN
        PERFORM _idem_row_no_column(state_column, named);
    END IF;
    type := (_idem_base_type(declared)).type;
    is_enum := (SELECT t.typtype = 'e' FROM pg_type t WHERE t.oid = type);
    IF NOT is_enum AND type NOT IN ('text'::regtype, 'varchar'::regtype) THEN
        RAISE datatype_mismatch USING MESSAGE = format('column "%s" of table "%s" cannot hold states', state_column, named),
            DETAIL = format('It is of type %s.', format_type(declared, NULL)), HINT = 'Use text, varchar, an enum, or a domain over one of them.',
            TABLE = named, COLUMN = state_column;
    END IF;
END
$$;

-- 0A000 when a guard could not guarantee the states: different values are equal, or the column is part of a partition key.
CREATE FUNCTION _idem_check_state_column(target oid, state_column name) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    named name;
BEGIN
    IF EXISTS (SELECT FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation
                WHERE a.attrelid = target AND a.attname = state_column AND NOT l.collisdeterministic) THEN
        named := (SELECT c.relname FROM pg_class c WHERE c.oid = target);
        RAISE feature_not_supported USING MESSAGE = format('column "%s" of table "%s" has a nondeterministic collation', state_column, named),
            DETAIL = 'Different states would be equal.', TABLE = named, COLUMN = state_column;
    END IF;
    -- The columns of a partition key depend on the table, also those in its expressions.
    SELECT c.relname INTO named
      FROM _idem_parts(target) AS p JOIN pg_class c ON c.oid = p.part JOIN pg_attribute a ON a.attrelid = p.part AND a.attname = state_column
           JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = p.part AND d.objsubid = a.attnum
                               AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p.part AND d.refobjsubid = 0 AND d.deptype = 'i'
     WHERE p.kind = 'p' LIMIT 1;
    IF FOUND THEN
        RAISE feature_not_supported USING MESSAGE = format('column "%s" is part of the partition key of table "%s"', state_column, named),
            DETAIL = 'Every transition would move the row to another partition.', TABLE = named;
    END IF;
END
$$;

-- 22023 when the column's enum lacks a state.
CREATE FUNCTION _idem_check_labels(target oid, state_column name, machine text, states text[]) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_column CONSTANT record := _idem_state_column(target, state_column);
    lacking   text;
BEGIN
    IF of_column.is_enum THEN
        SELECT s.name INTO lacking FROM unnest(states) WITH ORDINALITY AS s (name, n)
         WHERE NOT EXISTS (SELECT FROM pg_enum e WHERE e.enumtypid = of_column.type AND e.enumlabel::text = s.name) ORDER BY s.n LIMIT 1;
        IF FOUND THEN
            PERFORM _idem_invalid(format('type %s lacks the state "%s" of state machine "%s"', format_type(of_column.type, NULL), lacking, machine),
                hint => 'Add it with ALTER TYPE ... ADD VALUE.');
        END IF;
    END IF;
END
$$;

-- 0A000 where rows that others have committed meanwhile cannot be seen.
CREATE FUNCTION _idem_require_fresh_snapshots(function text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE feature_not_supported USING
            MESSAGE = format('%s cannot look at rows in a transaction with isolation level %s', function, upper(current_setting('transaction_isolation'))),
            DETAIL = 'It would not see rows that were committed after the transaction''s snapshot.', HINT = 'Use READ COMMITTED.';
    END IF;
END
$$;

-- 23514 when a row holds NULL or a value that is no state. The caller needs the privilege SELECT. Foreign partitions are not read.
-- REQUIRES: row_security is off, so that policies that would hide rows are an error.
CREATE FUNCTION _idem_check_rows(target oid, state_column name, machine text, states text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    has_foreign CONSTANT boolean := EXISTS (SELECT FROM _idem_parts(target) AS p WHERE p.kind = 'f');
    part    record;
    odd     record;
    unknown text[] := '{}';
BEGIN
    FOR part IN SELECT p.part, p.kind FROM _idem_parts(target) AS p
                 WHERE CASE WHEN has_foreign THEN p.kind = 'r' ELSE p.part = target AND p.kind IN ('r', 'p') END LOOP
        FOR odd IN EXECUTE format('SELECT CASE WHEN t.%1$I IS NOT NULL THEN concat(t.%1$I) END AS state FROM %2$s%3$s AS t'
                                  ' WHERE t.%1$I IS NULL OR concat(t.%1$I) <> ALL ($1)',
                                  state_column, CASE part.kind WHEN 'r' THEN 'ONLY ' END, part.part::regclass) USING states LOOP
            IF array_position(unknown, odd.state) IS NULL THEN
                unknown := unknown || odd.state;
            END IF;
            EXIT WHEN cardinality(unknown) > 10;
        END LOOP;
    END LOOP;
    IF unknown <> '{}' THEN
        RAISE check_violation USING
            MESSAGE = format('table "%s" has rows whose state is not in state machine "%s"', (SELECT c.relname FROM pg_class c WHERE c.oid = target), machine),
            DETAIL = format('Column "%s" holds: %s%s.', state_column,
                            (SELECT string_agg(coalesce('"' || u.state || '"', 'null'), ', ' ORDER BY u.n)
                               FROM unnest(unknown) WITH ORDINALITY AS u (state, n) WHERE u.n <= 10),
                            CASE WHEN cardinality(unknown) > 10 THEN ' and others' END),
            TABLE = (SELECT c.relname FROM pg_class c WHERE c.oid = target), COLUMN = state_column;
    END IF;
END
$$;

-- 42501 for a relation that CREATE TRIGGER would refuse to the caller. Nothing is said of one that does not exist.
CREATE FUNCTION _idem_check_may_attach(target oid) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF target IS NULL THEN
        PERFORM _idem_null('target');
    ELSIF NOT has_table_privilege(target, 'TRIGGER') THEN
        PERFORM _idem_deny(target, 'permission denied for');
    END IF;
END
$$;

CREATE FUNCTION _idem_deny(target oid, what text) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE insufficient_privilege USING MESSAGE = (
        SELECT format('%s %s %s', what, CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
                                                       WHEN 'S' THEN 'sequence' WHEN 'i' THEN 'index' ELSE 'table' END, c.relname)
          FROM pg_class c WHERE c.oid = target);
END
$$;

-- All checks of an attachment but that of the rows. `guards`: how many the column may have by now.
CREATE FUNCTION _idem_check_attachable(target oid, state_column name, machine text, log boolean, states text[], guards integer)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    twice text;
BEGIN
    -- With two guards on one column, each would take a row that moved for a new one, as the other has taken the note of its state.
    SELECT c.relname INTO twice
      FROM _idem_parts(target) AS p JOIN pg_class c ON c.oid = p.part JOIN _idem_state_guards() AS g ON g.relation = p.part AND g.column_name = state_column
     GROUP BY c.oid, c.relname HAVING count(*) > CASE WHEN c.oid = target THEN guards ELSE 0 END LIMIT 1;
    IF FOUND THEN
        RAISE duplicate_object USING MESSAGE = format('column "%s" of table "%s" already has a state machine', state_column, twice),
            HINT = 'Detach it first with idem_machine_detach.';
    END IF;
    PERFORM _idem_check_state_column(target, state_column);
    PERFORM _idem_refuse_foreign(target);
    PERFORM _idem_check_citus_state(target, state_column, log);
    IF log AND _idem_log_key(target) IS NULL THEN
        RAISE invalid_column_reference USING
            MESSAGE = format('table "%s" has no key to log transitions by', (SELECT c.relname FROM pg_class c WHERE c.oid = target)),
            HINT = 'Add a primary key, or attach the state machine without a log.';
    END IF;
    IF states IS NULL THEN
        PERFORM _idem_raise_no_machine(machine);
    END IF;
    PERFORM _idem_check_labels(target, state_column, machine, states);
END
$$;

-- 0A000 for what needs a trigger, and for a column that Citus does not update.
CREATE FUNCTION _idem_check_citus_state(target oid, state_column name, log boolean) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    named     name := (SELECT c.relname FROM pg_class c WHERE c.oid = target);
    spread_by text;
BEGIN
    IF NOT _idem_is_on_workers(target) THEN
        RETURN;
    END IF;
    EXECUTE 'SELECT pg_catalog.column_to_column_name(logicalrelid, partkey) FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1' INTO spread_by USING target;
    IF spread_by = state_column THEN
        RAISE feature_not_supported USING MESSAGE = format('column "%s" is the distribution column of table "%s"', state_column, named),
            DETAIL = 'Citus changes it in no row.', TABLE = named, COLUMN = state_column;
    ELSIF log THEN
        RAISE feature_not_supported USING MESSAGE = format('transitions of distributed table "%s" cannot be logged', named),
            DETAIL = 'Citus takes no triggers there: the log would lack every move that is made without idem_transition.',
            HINT = 'Attach the state machine without a log, and insert what idem_transition returns into a table of yours, in the same transaction.', TABLE = named;
    END IF;
END
$$;

CREATE FUNCTION _idem_refuse_foreign(target oid) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    away name;
BEGIN
    SELECT c.relname INTO away FROM _idem_parts(target) AS p JOIN pg_class c ON c.oid = p.part WHERE p.kind = 'f' LIMIT 1;
    IF FOUND THEN
        RAISE feature_not_supported USING
            MESSAGE = format('table "%s" has a foreign partition, "%s"', (SELECT c.relname FROM pg_class c WHERE c.oid = target), away),
            DETAIL = 'The rows of another server can change without the locks of this one.';
    END IF;
END
$$;

-- The trigger has no WHEN clause: the view idem_guards knows it by that.
CREATE FUNCTION _idem_guard_statement(verb text, guard name, target oid, arguments text[]) RETURNS text LANGUAGE sql STABLE AS $$
    -- The server moves a row to another partition by a deletion and an insertion.
    SELECT format('%s TRIGGER %I AFTER INSERT OR UPDATE%s ON %I.%I FOR EACH ROW EXECUTE FUNCTION %s.idem_state_guard(%L, %L, %L, %L)', verb, guard,
                  CASE c.relkind WHEN 'p' THEN ' OR DELETE' END, n.nspname, c.relname,
                  (SELECT p.pronamespace::regnamespace FROM pg_proc p WHERE p.oid = 'idem_state_guard'::regproc),
                  arguments[1], arguments[2], arguments[3], arguments[4])
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target
$$;

-- Column names may be as long as trigger names, so two of them can be cut to the same trigger name.
CREATE FUNCTION _idem_free_guard_name(target oid, state_column name) RETURNS name LANGUAGE plpgsql STABLE AS $$
DECLARE
    stem   text := ('idem_state_' || state_column)::name;
    guard  name := stem;
    number integer := 0;
BEGIN
    WHILE EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = target AND t.tgname = guard) LOOP
        number := number + 1;
        WHILE octet_length(stem || '_' || number) > 63 LOOP
            stem := left(stem, -1);
        END LOOP;
        guard := stem || '_' || number;
    END LOOP;
    RETURN guard;
END
$$;

CREATE FUNCTION _idem_machine_attach_statement(target regclass, state_column name, machine text, log boolean, validate boolean)
RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_logged CONSTANT boolean := coalesce(log, false);
    is_valid  CONSTANT boolean := coalesce(validate, true);
    t         record;
    known     jsonb;
BEGIN
    PERFORM _idem_check_may_attach(target);
    PERFORM _idem_check_machine(machine);
    PERFORM _idem_require_writable('idem_machine_attach()');
    known := _idem_lock_machines(machine);
    t := _idem_row_table(target);
    IF (SELECT c.relispartition FROM pg_class c WHERE c.oid = target) THEN
        RAISE wrong_object_type USING MESSAGE = format('table "%s" is a partition', t.relation), HINT = 'Attach the state machine to the partitioned table.';
    ELSIF state_column IS NULL THEN
        PERFORM _idem_null('state_column');
    END IF;
    PERFORM _idem_state_column(target, state_column);
    PERFORM _idem_check_attachable(target, state_column, machine, is_logged, _idem_states(known), 0);
    IF is_valid THEN
        PERFORM _idem_require_fresh_snapshots('idem_machine_attach()');
    END IF;
    IF t.kind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = target) THEN
        RAISE WARNING 'rows of the tables that inherit from "%" are not guarded', t.relation
            USING HINT = 'Call idem_machine_attach for each of those tables, too.';
    END IF;
    IF _idem_is_on_workers(target) THEN
        RAISE WARNING 'state machine "%" guards table "%" in idem_transition alone', machine, t.relation
            USING DETAIL = 'Citus takes no triggers on a distributed table: INSERT and UPDATE write any state.',
                  HINT = 'Change the column by idem_transition only.';
        RETURN _idem_citus_guard_statement(target, state_column, machine, is_valid);
    END IF;
    RETURN _idem_guard_statement('CREATE', _idem_free_guard_name(target, state_column), target,
        ARRAY[machine, state_column, CASE WHEN is_logged THEN 'log' ELSE 'no log' END, CASE WHEN is_valid THEN 'valid' ELSE 'not valid' END]);
END
$$;

CREATE FUNCTION _idem_machine_attach_check(target regclass, state_column name, machine text, log boolean, validate boolean)
RETURNS void LANGUAGE plpgsql VOLATILE SET row_security = off AS $$
DECLARE
    states CONSTANT text[] := _idem_states(_idem_lock_machines(machine));
BEGIN
    PERFORM _idem_check_attachable(target, state_column, machine, coalesce(log, false), states, 1);
    IF coalesce(validate, true) THEN
        PERFORM _idem_check_rows(target, state_column, machine, states);
    END IF;
END
$$;

-- CREATE TRIGGER takes the lock that keeps writers away. LOCK TABLE would need other privileges.
CREATE FUNCTION idem_machine_attach LANGUAGE plpgsql UNPINNED AS $$
BEGIN
    EXECUTE @extschema@._idem_machine_attach_statement(target, state_column, machine, log, validate);
    PERFORM @extschema@._idem_machine_attach_check(target, state_column, machine, log, validate);
END
$$;

CREATE FUNCTION _idem_raise_not_attached(target oid, state_column name) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t       CONSTANT record := _idem_row_table(target);
    message CONSTANT text := format('column "%s" of table "%s" has no state machine', state_column, t.relation);
BEGIN
    IF _idem_row_column(target, state_column) IS NULL THEN
        PERFORM _idem_row_no_column(state_column, t.relation);
    ELSIF (SELECT c.relispartition FROM pg_class c WHERE c.oid = target) THEN
        RAISE undefined_object USING MESSAGE = message, HINT = 'The state machine is attached to the partitioned table.';
    END IF;
    RAISE undefined_object USING MESSAGE = message;
END
$$;

CREATE FUNCTION _idem_machine_detach_statements(target regclass, state_column name) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t          record;
    statements text[];
BEGIN
    IF state_column IS NULL THEN
        PERFORM _idem_null('state_column');
    END IF;
    PERFORM _idem_require_writable('idem_machine_detach()');
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = target AND NOT pg_has_role(c.relowner, 'USAGE')) THEN
        PERFORM _idem_deny(target, 'must be owner of');
    END IF;
    t := _idem_row_table(target);
    statements := ARRAY(SELECT format('DROP TRIGGER %I ON %s', g.tgname, t.name) FROM pg_trigger g
                         WHERE g.tgrelid = target AND g.tgfoid = 'idem_state_guard'::regproc AND g.tgnargs = 4 AND g.tgparentid = 0
                           AND _idem_guard_argument(g.tgargs, 2) = state_column);
    statements := statements || ARRAY(SELECT _idem_citus_guard_statement(target, g.column_name, g.machine, NULL) FROM _idem_citus_guards_of(target) AS g
                                       WHERE g.column_name = state_column AND g.machine IS NOT NULL);
    IF statements = '{}' THEN
        PERFORM _idem_raise_not_attached(target, state_column);
    END IF;
    RETURN statements;
END
$$;

CREATE FUNCTION idem_machine_detach LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    statement pg_catalog.text;
BEGIN
    FOREACH statement IN ARRAY @extschema@._idem_machine_detach_statements(target, state_column) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- Looks at the rows while writers go on: the guard watches them. Returns the statements that record that the guard is valid; they wait for the writers,
-- as a trigger cannot be changed otherwise.
CREATE FUNCTION _idem_machine_validate_statements(target regclass, state_column name)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET row_security = off AS $$
DECLARE
    t        record;
    guard    record;
    disabled record;
    states   text[];
    changed  text;
BEGIN
    PERFORM _idem_check_may_attach(target);
    IF state_column IS NULL THEN
        PERFORM _idem_null('state_column');
    END IF;
    PERFORM _idem_require_writable('idem_machine_validate()');
    PERFORM _idem_lock_machines('');
    t := _idem_row_table(target);
    PERFORM _idem_lock_table(target, 'SHARE UPDATE EXCLUSIVE');
    t := _idem_row_table(target);
    SELECT g.tgname, g.tgargs, g.tgenabled, s.of_machine AS machine, s.valid AS is_valid INTO guard
      FROM _idem_state_guards() AS s LEFT JOIN pg_trigger g ON g.oid = s.trigger
     WHERE s.relation = target AND s.column_name = state_column ORDER BY g.tgname LIMIT 1;
    IF NOT FOUND THEN
        PERFORM _idem_raise_not_attached(target, state_column);
    ELSIF guard.is_valid THEN
        RETURN '{}';
    END IF;
    -- Rows could change past a guard that does not fire.
    SELECT g.tgname, c.relname, n.nspname INTO disabled
      FROM _idem_parts(target) AS p JOIN pg_trigger g ON g.tgrelid = p.part JOIN pg_class c ON c.oid = p.part JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE g.tgfoid = 'idem_state_guard'::regproc AND g.tgnargs = 4 AND g.tgenabled NOT IN ('O', 'A')
       AND _idem_guard_argument(g.tgargs, 2) = state_column LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the guard of column "%s" of table "%s" is disabled', state_column, disabled.relname),
            HINT = format('Run ALTER TABLE %I.%I ENABLE TRIGGER %I.', disabled.nspname, disabled.relname, disabled.tgname);
    END IF;
    IF _idem_row_column(target, state_column) IS NULL THEN
        PERFORM _idem_raise_renamed(target, state_column);
    END IF;
    states := _idem_states(_idem_lock_machines(guard.machine));
    IF states IS NULL THEN
        PERFORM _idem_raise_no_machine(guard.machine);
    END IF;
    PERFORM _idem_check_labels(target, state_column, guard.machine, states);
    PERFORM _idem_require_fresh_snapshots('idem_machine_validate()');
    PERFORM _idem_check_rows(target, state_column, guard.machine, states);
    IF guard.tgname IS NULL THEN
        RETURN ARRAY[_idem_citus_guard_statement(target, state_column, guard.machine, true)];
    END IF;
    changed := _idem_guard_statement(CASE WHEN current_setting('server_version_num')::integer >= 140000 THEN 'CREATE OR REPLACE' ELSE 'CREATE' END,
        guard.tgname, target, ARRAY[guard.machine, state_column, _idem_guard_argument(guard.tgargs, 3), 'valid']);
    RETURN CASE WHEN changed LIKE 'CREATE TRIGGER%' THEN ARRAY[format('DROP TRIGGER %I ON %s', guard.tgname, t.name)] END
        || changed || CASE guard.tgenabled WHEN 'A' THEN ARRAY[format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.name, guard.tgname)] END;
END
$$;

CREATE FUNCTION idem_machine_validate LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    statement pg_catalog.text;
BEGIN
    FOREACH statement IN ARRAY @extschema@._idem_machine_validate_statements(target, state_column) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- Changes of machines.

-- A function of another role that the server would call to plan a query on the table: an index, a constraint or statistics can make it do so. NULL: none.
CREATE FUNCTION _idem_code_of_others(target oid) RETURNS regprocedure LANGUAGE sql STABLE AS $$
    WITH parts AS (SELECT p.part FROM _idem_parts(target) AS p),
    planned AS (
        SELECT 'pg_class'::regclass AS classid, part AS objid FROM parts
        UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM parts JOIN pg_index i ON i.indrelid = part
        UNION ALL SELECT 'pg_constraint'::regclass, c.oid FROM parts JOIN pg_constraint c ON c.conrelid = part
        UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM parts JOIN pg_statistic_ext s ON s.stxrelid = part)
    SELECT p.oid::regprocedure
      FROM planned JOIN pg_depend d USING (classid, objid)
           LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
           JOIN pg_proc p ON p.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
           JOIN pg_roles r ON r.oid = p.proowner
     WHERE NOT r.rolsuper AND r.rolname <> current_user LIMIT 1
$$;

-- Whose code the caller would run who reads rows of the table, other than roles that the caller trusts: superusers, and roles whose privileges the caller has.
-- The owner of the table, of a partition or of their schemas can put another relation in the place of the name. NULL: nobody's.
CREATE FUNCTION _idem_untrusted_owner(target oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT format('%s "%s" belongs to role "%s".', o.kind, o.name, r.rolname)
      FROM _idem_parts(target) AS p JOIN pg_class c ON c.oid = p.part JOIN pg_namespace n ON n.oid = c.relnamespace
           CROSS JOIN LATERAL (VALUES ('Table', c.relname, c.relowner), ('Schema', n.nspname, n.nspowner)) AS o (kind, name, owner)
           JOIN pg_roles r ON r.oid = CASE WHEN o.owner = 'pg_database_owner'::regrole THEN (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
                                           ELSE o.owner END
     WHERE NOT r.rolsuper AND r.rolname <> current_user
       AND NOT (pg_has_role(r.oid, 'USAGE') AND NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = current_user)) LIMIT 1
$$;

-- Whether the table has rows in states that the new definition lacks. Runs as the caller, who needs privileges on the table if the machine loses states.
CREATE FUNCTION _idem_check_attached(target regclass, of_column name, is_valid boolean, machine text, states text[], loses_states boolean)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    looks CONSTANT boolean := is_valid AND loses_states;
    entry pg_class;
    owner text;
    code  regprocedure;
BEGIN
    SELECT * INTO entry FROM pg_class c WHERE c.oid = target;
    -- Nobody can read a temporary table of another session. Its guard refuses the moves that the new definition lacks.
    IF NOT FOUND OR entry.relkind NOT IN ('r', 'p') OR pg_is_other_temp_schema(entry.relnamespace) THEN
        RETURN;
    ELSIF has_schema_privilege(entry.relnamespace, 'USAGE') AND has_table_privilege(target, 'UPDATE, DELETE, TRUNCATE') THEN
        IF NOT _idem_lock_table(target, 'SHARE ROW EXCLUSIVE') THEN
            RETURN;
        END IF;
    ELSIF looks THEN
        RAISE insufficient_privilege USING MESSAGE = format('permission denied for table %s', entry.relname),
            DETAIL = format('State machine "%s" is attached to column "%s" and loses states; writers of the table have to wait meanwhile.', machine, of_column),
            HINT = 'Call the function as the owner of the table, or as a role with the privileges SELECT and UPDATE on it.';
    END IF;
    -- While this call waited for the lock, the machine may have been detached. The guard of a column that was renamed, or cannot hold states, refuses
    -- every write.
    IF NOT EXISTS (SELECT FROM _idem_state_guards() AS g WHERE g.relation = target AND g.of_machine = machine AND g.column_name = of_column)
       OR NOT EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = (_idem_base_type(a.atttypid)).type
                       WHERE a.attrelid = target AND a.attname = of_column AND a.attnum > 0 AND NOT a.attisdropped
                         AND (t.typtype = 'e' OR t.oid IN ('text'::regtype, 'varchar'::regtype))) THEN
        RETURN;
    END IF;
    PERFORM _idem_check_labels(target, of_column, machine, states);
    IF looks THEN
        PERFORM _idem_require_fresh_snapshots('idem_machine_define()');
        IF NOT has_column_privilege(target, of_column::text, 'SELECT') THEN
            RAISE insufficient_privilege USING MESSAGE = format('permission denied for table %s', entry.relname),
                DETAIL = format('State machine "%s" is attached to column "%s" and loses states; its rows have to be read.', machine, of_column),
                HINT = 'Call the function as the owner of the table, or as a role with the privileges SELECT and UPDATE on it.';
        END IF;
        owner := _idem_untrusted_owner(target);
        IF owner IS NOT NULL THEN
            RAISE insufficient_privilege USING MESSAGE = format('cannot look at the rows of table "%s" as role "%s"', entry.relname, current_user),
                DETAIL = owner || ' Code of this role could run.',
                HINT = 'Call idem_machine_define as a role that has the privileges of that role and is no superuser, or let the owner of the table detach the state machine first.';
        END IF;
        code := _idem_code_of_others(target);
        IF code IS NOT NULL THEN
            RAISE insufficient_privilege USING MESSAGE = format('cannot look at the rows of table "%s" as role "%s"', entry.relname, current_user),
                DETAIL = format('An index, a constraint or statistics of the table can call function %s of another role.', code),
                HINT = 'Call idem_machine_define as the owner of that function, or detach the state machine first with idem_machine_detach.';
        END IF;
        PERFORM _idem_check_rows(target, of_column, machine, states);
    END IF;
END
$$;

-- For idem_machine_define, which has looked at the rows as its caller.
CREATE FUNCTION _idem_machine_store(name text, definition jsonb) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
BEGIN
    PERFORM _idem_check_machine($1), _idem_check_definition($2), _idem_states($2);
    INSERT INTO idem_machines AS m (name, definition) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET definition = excluded.definition;
END
$$;

CREATE FUNCTION idem_machine_define LANGUAGE plpgsql SET row_security = off AS $$
#variable_conflict use_column
DECLARE
    states text[];
    known  jsonb;
    loses  boolean := true;
    guard  record;
BEGIN
    PERFORM _idem_check_machine($1);
    IF $2 IS NULL THEN
        PERFORM _idem_null('definition');
    END IF;
    PERFORM _idem_check_definition($2);
    states := _idem_states($2);
    PERFORM _idem_require_writable('idem_machine_define()');
    known := _idem_lock_machines($1);
    BEGIN
        loses := (_idem_states(known) <@ states) IS NOT TRUE;
    EXCEPTION WHEN invalid_parameter_value THEN -- somebody has stored it by SQL
    END;
    FOR guard IN SELECT g.relation, g.column_name, bool_or(g.valid) AS is_valid FROM _idem_state_guards() AS g WHERE g.of_machine = $1
                  GROUP BY 1, 2 ORDER BY 1, 2 LOOP
        PERFORM _idem_check_attached(guard.relation, guard.column_name, guard.is_valid, $1, states, loses);
    END LOOP;
    PERFORM _idem_machine_store($1, $2);
END
$$;

CREATE FUNCTION idem_machine_drop LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    attached text;
BEGIN
    PERFORM _idem_check_machine($1);
    PERFORM _idem_require_writable('idem_machine_drop()');
    IF _idem_lock_machines($1) IS NULL THEN
        PERFORM _idem_raise_no_machine($1);
    END IF;
    SELECT string_agg(format('column "%s" of table "%s"', a.column_name, coalesce(c.relname, '?')), ', ' ORDER BY a.relation, a.column_name) INTO attached
      FROM (SELECT DISTINCT g.relation, g.column_name FROM _idem_state_guards() AS g WHERE g.of_machine = $1) a LEFT JOIN pg_class c ON c.oid = a.relation;
    IF attached IS NOT NULL THEN
        RAISE dependent_objects_still_exist USING MESSAGE = format('cannot drop state machine "%s" because tables depend on it', $1),
            DETAIL = format('It is attached to %s.', attached), HINT = 'Detach it first with idem_machine_detach.';
    END IF;
    DELETE FROM ONLY idem_machines m WHERE m.name = $1;
    IF NOT FOUND THEN
        RAISE serialization_failure USING MESSAGE = format('could not serialize access due to a concurrent definition of state machine "%s"', $1);
    END IF;
END
$$;

-- Moving a row.

-- The condition that the state column has the state $2. Citus takes no STABLE function of a column in an UPDATE, such as concat and the output functions of
-- enums: text is compared as it is, an enum with its labels. Citus deparses a CASE that names its operand once wrongly.
CREATE FUNCTION _idem_transition_expected(target oid, state_column name) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted    CONSTANT text := '($2 OPERATOR(pg_catalog.#>>) ''{}'')';
    of_column CONSTANT record := _idem_state_column(target, state_column);
    type      CONSTANT text := _idem_type_name(of_column.type, -1);
BEGIN
    RETURN format('t.%I::%s OPERATOR(pg_catalog.=) ', state_column, type)
           || CASE WHEN NOT of_column.is_enum THEN wanted
                   ELSE (SELECT format('CASE %s END', string_agg(format('WHEN %1$s OPERATOR(pg_catalog.=) %2$L THEN %2$L::%3$s', wanted, e.enumlabel, type), ' '))
                           FROM pg_enum e WHERE e.enumtypid = of_column.type) END;
END
$$;

-- statements: those of _idem_row_change; $2 is the state that the row is expected to be in. lock: to be analyzed, which locks the table as they do, and
-- not run.
CREATE FUNCTION _idem_transition_plan(target regclass, key jsonb, to_state text, OUT machine text, OUT lock text, OUT statements text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t            CONSTANT record := _idem_row_table(target);
    is_away      CONSTANT boolean := _idem_is_on_workers(target);
    state_column text;
    guard        record;
BEGIN
    PERFORM _idem_row_object(key, 'key');
    IF to_state IS NULL THEN
        PERFORM _idem_null('to_state');
    END IF;
    FOR guard IN SELECT _idem_guard_argument(g.tgargs, 1) AS machine, _idem_guard_argument(g.tgargs, 2) AS of_column, g.tgname FROM pg_trigger g
                  WHERE g.tgrelid = target AND g.tgfoid = 'idem_state_guard'::regproc AND g.tgnargs = 4
                 UNION ALL
                 SELECT g.machine, g.column_name, g.column_name FROM _idem_citus_guards_of(target) AS g WHERE is_away AND g.machine IS NOT NULL
                 ORDER BY 3 LOOP
        IF state_column <> guard.of_column THEN
            RAISE ambiguous_column USING MESSAGE = format('table "%s" has several state columns', t.relation),
                DETAIL = format('State machines are attached to "%s" and "%s".', state_column, guard.of_column);
        END IF;
        machine := guard.machine;
        state_column := guard.of_column;
    END LOOP;
    IF state_column IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" has no state machine attached', t.relation),
            HINT = 'Attach one with idem_machine_attach.';
    ELSIF _idem_row_column(target, state_column) IS NULL THEN
        PERFORM _idem_raise_renamed(target, state_column);
    END IF;
    PERFORM _idem_state_column(target, state_column);
    PERFORM _idem_row_members(target, t.relation, key);
    lock := format('UPDATE %s SET %I = DEFAULT WHERE false RETURNING true', t.item, state_column);
    statements := _idem_row_change_plan(target, t.item,
        format('pg_catalog.to_jsonb(CASE WHEN t.%1$I IS NOT NULL THEN pg_catalog.concat(t.%1$I) END)', state_column),
        format('%I = %L', state_column, to_state), _idem_row_by_key(target, t.relation, key),
        CASE WHEN _idem_citus_group(target) IS NOT NULL THEN _idem_transition_expected(target, state_column)
             ELSE format('pg_catalog.concat(t.%I) OPERATOR(pg_catalog.=) ($2 OPERATOR(pg_catalog.#>>) ''{}'')', state_column) END, 'NULL::pg_catalog.numeric', '');
    -- A move that was committed by 2PC is acknowledged before its worker shows it, if the connection broke meanwhile. The row's lock waits for it.
    IF is_away THEN
        statements[2] := statements[2] || ' FOR UPDATE';
    END IF;
END
$$;

-- The outcome for a row in the state that was found. NULL: it can be moved.
CREATE FUNCTION _idem_transition_outcome(machine text, from_state text, to_state text, is_found boolean, found_state jsonb, OUT outcome text, OUT state text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    state := found_state #>> '{}';
    outcome := CASE
        WHEN is_found IS NOT TRUE THEN 'not_found'
        WHEN state = to_state THEN 'already'
        WHEN from_state IS NOT NULL AND state IS DISTINCT FROM from_state THEN 'conflict'
        WHEN state IS NULL OR NOT idem_can_transition(machine, state, to_state) THEN 'not_allowed' END;
END
$$;

-- If the caller expects a state that can be moved from, the UPDATE comes first. Otherwise the row's state is read first. The machine does not change
-- during the call: idem_machine_define waits for the lock that the call has on the table.
CREATE FUNCTION idem_transition LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    plan     pg_catalog.record;
    done     pg_catalog.record;
    verdict  pg_catalog.record;
    expected pg_catalog.jsonb;
    locked   pg_catalog.refcursor;
BEGIN
    plan := @extschema@._idem_transition_plan(target, key, to_state);
    OPEN locked FOR EXECUTE plan.lock;
    CLOSE locked;
    IF from_state IS NOT NULL AND from_state OPERATOR(pg_catalog.<>) to_state AND @extschema@.idem_can_transition(plan.machine, from_state, to_state) THEN
        expected := pg_catalog.to_jsonb(from_state);
    ELSE
        done := @extschema@._idem_row_run(plan.statements[2], key, NULL, NULL);
        verdict := @extschema@._idem_transition_outcome(plan.machine, from_state, to_state, done.is_found, done.row_data);
        outcome := verdict.outcome;
        state := verdict.state;
        expected := done.row_data;
    END IF;
    WHILE outcome IS NULL LOOP
        done := @extschema@._idem_row_change(target, plan.statements, key, expected, NULL);
        IF done.is_changed THEN
            outcome := 'moved';
            state := done.row_data OPERATOR(pg_catalog.#>>) '{}';
        ELSE -- it is not there, or another transaction moved it first
            verdict := @extschema@._idem_transition_outcome(plan.machine, from_state, to_state, done.is_changed IS NOT NULL, done.row_data);
            outcome := verdict.outcome;
            state := verdict.state;
            expected := done.row_data;
            plan := @extschema@._idem_transition_plan(target, key, to_state); -- an enum may have got labels
        END IF;
    END LOOP;
END
$$;
