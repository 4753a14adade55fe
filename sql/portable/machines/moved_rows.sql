-- Rows that an UPDATE moves to another partition. The server deletes such a row and inserts it, and fires the triggers of both one right after the
-- other. The guard notes the state of a row that it sees deleted, and takes the note when it sees the row inserted. Each note of a transaction on one column at
-- one depth of triggers is written over the one before; a setting of the installation has its place. Whatever place somebody else sets: only a note that the same command has written
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

CREATE FUNCTION _idem_departure_setting(of_column name) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT format('idem_portable.departure_%s_%s', _idem_seed(pg_trigger_depth()), to_hex(hashtext(of_column)))
$$;

CREATE FUNCTION _idem_note_departure(from_part oid, of_column name, writer xid, deleted_by cid, from_state text) RETURNS void LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    setting CONSTANT text := _idem_departure_setting(of_column);
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
    setting CONSTANT text := _idem_departure_setting(of_column);
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
