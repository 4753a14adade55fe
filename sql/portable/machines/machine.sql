-- State machines by name: their definitions as they are stored, and the errors for transitions that a machine lacks.

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

CREATE FUNCTION _idem_quoted_list(states jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg('"' || s.name || '"', ', ' ORDER BY s.n) FROM jsonb_array_elements_text(states) WITH ORDINALITY AS s (name, n)
$$;

-- ID003. NULL stands for a NULL state.
CREATE FUNCTION _idem_raise_not_allowed(machine text, definition jsonb, from_state text, to_state text, in_schema name DEFAULT NULL,
                                        in_table name DEFAULT NULL, in_column name DEFAULT NULL, row_name text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
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
    RAISE SQLSTATE 'ID003' USING MESSAGE = message, DETAIL = reason || row_name, SCHEMA = in_schema, TABLE = in_table, COLUMN = in_column;
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
