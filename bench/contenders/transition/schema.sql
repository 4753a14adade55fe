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
