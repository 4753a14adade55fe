-- Sweeping: the deletion of expired rows, and its progress.

-- No foreign key, and no index other than the primary key: there are few rows, and each belongs to one sweep.
CREATE TABLE idem_sweeps (
    swept         regclass    NOT NULL,
    slot          integer     NOT NULL,
    pid           integer     NOT NULL,
    started_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    complete_from timestamptz,
    next_block    bigint      NOT NULL DEFAULT 0,
    blocks_total  bigint      NOT NULL,
    blocks_done   bigint      NOT NULL DEFAULT 0,
    rows_deleted  bigint      NOT NULL DEFAULT 0,
    rows_redacted bigint      NOT NULL DEFAULT 0,
    rows_held     bigint      NOT NULL DEFAULT 0,
    batches       bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (swept, slot)
) WITH (fillfactor = 20);
COMMENT ON TABLE idem_sweeps IS
'The last sweep of each table, and where to continue if it was interrupted. Sweeps of a table that run at the same time have one slot each. Read the view idem_sweep_progress. Not dumped.';
COMMENT ON COLUMN idem_sweeps.swept IS 'The table.';
COMMENT ON COLUMN idem_sweeps.slot IS '0; higher if several sweeps of the table run at the same time.';
COMMENT ON COLUMN idem_sweeps.pid IS 'The process that sweeps or swept.';
COMMENT ON COLUMN idem_sweeps.started_at IS 'When the sweep of the table began.';
COMMENT ON COLUMN idem_sweeps.updated_at IS 'When the row was last written.';
COMMENT ON COLUMN idem_sweeps.finished_at IS 'When the sweep of the table finished; NULL: it has not.';
COMMENT ON COLUMN idem_sweeps.complete_from IS 'When the last sweep that finished began. Rows that had expired before were swept, except rows in use.';
COMMENT ON COLUMN idem_sweeps.next_block IS 'The block at which the next sweep begins.';
COMMENT ON COLUMN idem_sweeps.blocks_total IS 'Blocks of the table when the sweep began.';
COMMENT ON COLUMN idem_sweeps.blocks_done IS 'Blocks that were examined.';
COMMENT ON COLUMN idem_sweeps.rows_deleted IS 'Rows that were deleted.';
COMMENT ON COLUMN idem_sweeps.rows_redacted IS 'Rows whose response was removed (response_ttl of scopes).';
COMMENT ON COLUMN idem_sweeps.rows_held IS 'Rows that were due, but were left alone because another transaction held them.';
COMMENT ON COLUMN idem_sweeps.batches IS 'Transactions that deleted rows or removed responses.';

-- A sweep holds a lock for each table as long as it works there (extension/src/operations/sweep_progress.hpp). The body is parsed when it is created, so
-- its names refer to this schema, whatever the schema's name. An operator may, too, if pg_catalog does not have it for exactly these types.
CREATE FUNCTION idem_sweep_status(OUT table_name text, OUT state text, OUT pid integer, OUT started_at timestamptz, OUT updated_at timestamptz,
                                  OUT finished_at timestamptz, OUT blocks_total bigint, OUT blocks_done bigint, OUT rows_deleted bigint,
                                  OUT rows_redacted bigint, OUT rows_held bigint, OUT batches bigint, OUT complete_from timestamptz)
RETURNS SETOF record LANGUAGE sql VOLATILE PARALLEL RESTRICTED SECURITY DEFINER ROWS 4
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.relname::text,
           CASE WHEN l.pid IS NOT NULL THEN 'running' WHEN s.finished_at IS NOT NULL THEN 'finished' ELSE 'interrupted' END,
           coalesce(l.pid, s.pid), s.started_at, s.updated_at, s.finished_at, s.blocks_total, s.blocks_done,
           s.rows_deleted, s.rows_redacted, s.rows_held, s.batches, s.complete_from
    FROM ONLY idem_sweeps s
    JOIN pg_class c ON c.oid = s.swept::oid
    LEFT JOIN pg_locks l
      ON l.locktype = 'advisory' AND l.objsubid = 7651 AND l.mode = 'ExclusiveLock' AND l.granted
         AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
         AND l.objid = s.swept::oid AND l.classid = s.slot::oid
    ORDER BY c.relname, s.slot;
END;
COMMENT ON FUNCTION idem_sweep_status() IS 'Internal: the rows of the view idem_sweep_progress. Operators.';

CREATE VIEW idem_sweep_progress AS
    SELECT table_name, state, pid, started_at, updated_at, finished_at, blocks_total, blocks_done, rows_deleted, rows_redacted,
           rows_held, batches, complete_from
      FROM idem_sweep_status();
COMMENT ON VIEW idem_sweep_progress IS
'The sweeps that are running, and the last one of each table, as of its last committed batch. Operators.';
COMMENT ON COLUMN idem_sweep_progress.table_name IS 'The table that is swept.';
COMMENT ON COLUMN idem_sweep_progress.state IS 'running, finished, or interrupted: the next sweep continues where it stopped.';
COMMENT ON COLUMN idem_sweep_progress.pid IS 'The process that sweeps or swept.';
COMMENT ON COLUMN idem_sweep_progress.started_at IS 'When the sweep of the table began.';
COMMENT ON COLUMN idem_sweep_progress.updated_at IS 'When the row was last written.';
COMMENT ON COLUMN idem_sweep_progress.finished_at IS 'When the sweep of the table finished; NULL: it has not.';
COMMENT ON COLUMN idem_sweep_progress.blocks_total IS 'Blocks of the table when the sweep began.';
COMMENT ON COLUMN idem_sweep_progress.blocks_done IS 'Blocks that were examined.';
COMMENT ON COLUMN idem_sweep_progress.rows_deleted IS 'Rows that were deleted.';
COMMENT ON COLUMN idem_sweep_progress.rows_redacted IS 'Rows whose response was removed (response_ttl of scopes).';
COMMENT ON COLUMN idem_sweep_progress.rows_held IS 'Rows that were due, but were left alone because another transaction held them.';
COMMENT ON COLUMN idem_sweep_progress.batches IS 'Transactions that deleted rows or removed responses.';
COMMENT ON COLUMN idem_sweep_progress.complete_from IS 'When the last sweep that finished began. Rows that had expired before were swept, except rows in use.';

CREATE PROCEDURE idem_sweep(batch integer DEFAULT 10000, pause interval DEFAULT '0')
LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON PROCEDURE idem_sweep(integer, interval) IS
'Deletes expired rows: keys, redeemed tokens, counters, locks that have been free for a day, and rates whose bucket is full. Also removes responses that are older than the response_ttl of their scope, and keeps their keys. Works in batches of at most batch rows and about 50 ms; each batch commits by itself, with a pause in between. Never deletes a live lease or a key in doubt. Rows that another transaction holds are left for the next sweep. Can be cancelled at any time: what is committed stays done, and the next sweep continues from there. Several sweeps may run at once. Reports its progress in NOTICEs and in idem_sweep_progress. Sweeps every scope, also those with an owner. Operators.
NULL for an argument: its default.
Errors: 2D000 inside a transaction block, function or exception block; 22023 batch not positive, pause negative; 25006 in a read-only transaction or on a standby.';
