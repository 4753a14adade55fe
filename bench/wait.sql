-- Waits until pgbench has its connections, for ten seconds at most, and then for so long as a run is to last.
SELECT set_config('bench.clients', :'clients', false);
DO $$
BEGIN
    FOR i IN 1..2000 LOOP
        PERFORM pg_stat_clear_snapshot();
        EXIT WHEN (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench') >= current_setting('bench.clients')::int;
        PERFORM pg_sleep(0.005);
    END LOOP;
END
$$;
SELECT pg_sleep(:seconds);
