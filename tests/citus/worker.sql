-- pgTAP on a worker: a query of the coordinator's that runs there has assertions in it, and the worker knows neither their plan nor their numbers.
SET citus.enable_ddl_propagation = off;
CREATE OR REPLACE FUNCTION tap.ok(boolean, text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN $1 THEN 'ok' ELSE 'not ok' END || ' - ' || $2
$$;
CREATE OR REPLACE FUNCTION tap.diag(msg text) RETURNS text LANGUAGE sql AS $$
    SELECT '# ' || replace($1, E'\n', E'\n# ')
$$;
