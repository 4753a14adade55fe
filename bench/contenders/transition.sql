--- schema.sql
CREATE TABLE plain_jobs (
    id bigint PRIMARY KEY,
    status text NOT NULL DEFAULT 'idle',
    attempts int NOT NULL DEFAULT 0,
    payload text NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE guarded_jobs (LIKE plain_jobs INCLUDING ALL) WITH (fillfactor = 80);
CREATE TABLE logged_jobs (LIKE plain_jobs INCLUDING ALL) WITH (fillfactor = 80);

SELECT idem_machine_define('job', '{"initial": ["idle"], "transitions": {"idle": ["running"], "running": ["idle", "done"]}}');
SELECT idem_machine_attach('guarded_jobs', 'status', 'job');
SELECT idem_machine_attach('logged_jobs', 'status', 'job', log => true);

--- hand_written.sql
-- On the plain table: nobody knows which moves are allowed but the author of the statement.
UPDATE plain_jobs SET status = ('{idle,running}'::text[])[1 + :version % 2]
WHERE id = :id AND status = ('{running,idle}'::text[])[1 + :version % 2]
RETURNING status;

--- idem_transition.sql
-- The version that bench/keys/row.sql counts says in which state the row is.
SELECT outcome, state
FROM idem_transition('guarded_jobs', jsonb_build_object('id', :id::bigint),
    ('{running,idle}'::text[])[1 + :version % 2], ('{idle,running}'::text[])[1 + :version % 2]);

--- move_guarded.sql
UPDATE guarded_jobs SET status = CASE status WHEN 'idle' THEN 'running' ELSE 'idle' END WHERE id = :id RETURNING status;

--- move_logged.sql
UPDATE logged_jobs SET status = CASE status WHEN 'idle' THEN 'running' ELSE 'idle' END WHERE id = :id RETURNING status;

--- move_plain.sql
UPDATE plain_jobs SET status = CASE status WHEN 'idle' THEN 'running' ELSE 'idle' END WHERE id = :id RETURNING status;

--- touch_guarded.sql
UPDATE guarded_jobs SET attempts = attempts + 1 WHERE id = :id RETURNING attempts;

--- touch_plain.sql
UPDATE plain_jobs SET attempts = attempts + 1 WHERE id = :id RETURNING attempts;
