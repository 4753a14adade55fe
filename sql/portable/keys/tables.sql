-- Fencing tokens. Each is greater than the one before it of the same key, and than every one that was drawn a microsecond earlier.
CREATE FUNCTION _idem_next_fence(last bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(coalesce(last, 0) + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- Whether a row version that the caller sees was written by the caller's own transaction, in a subtransaction or not: whatever else is in
-- progress is not to be seen.
CREATE FUNCTION _idem_is_own(version xid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next    bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    low     bigint := version::text::bigint;
    current bigint := pg_current_xact_id_if_assigned()::text::bigint;
    epoch   bigint;
BEGIN
    IF current IS NULL OR low < 3 THEN
        RETURN false;
    END IF;
    IF low = current & 4294967295 THEN
        RETURN true;
    END IF;
    -- The subtransactions' numbers come after the transaction's own. `next` may lag behind them.
    epoch := current >> 32;
    IF low < current & 4294967295 THEN
        epoch := epoch + 1;
    END IF;
    IF (epoch << 32 | low) - current > 2147483647 THEN
        RETURN false;
    END IF;
    RETURN coalesce(pg_xact_status((epoch << 32 | low)::text::xid8) = 'in progress', false);
EXCEPTION WHEN invalid_parameter_value THEN -- a number in the future: it is an old one of the epoch before
    RETURN false;
END
$$;

-- Whether the transaction that a row's xmax names is still open. For a row with several lockers, xmax is a number of another kind: the answer is
-- a guess then, so nothing may rest on it but how to wait.
CREATE FUNCTION _idem_is_open(locker xid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next   bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    behind bigint := (next - locker::text::bigint) & 4294967295;
BEGIN
    -- Numbers of open transactions may come after `next`.
    RETURN locker::text::bigint > 2
       AND coalesce(pg_xact_status((next - behind + CASE WHEN behind > 2147483647 THEN 4294967296 ELSE 0 END)::text::xid8) = 'in progress', false);
EXCEPTION WHEN invalid_parameter_value THEN -- a number in the future
    RETURN false;
END
$$;

-- What _idem_note_replaced notes. Only the transaction that wrote a row needs it. The sweep deletes the others.
CREATE TABLE _idem_replaced_keys (LIKE idem_keys INCLUDING INDEXES);

ALTER TABLE _idem_replaced_keys SET UNLOGGED;

COMMENT ON TABLE _idem_replaced_keys IS 'Internal: the rows of keys before claims without a lease, until the ends of their transactions.';
