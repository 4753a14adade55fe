-- monitoring/queries.yaml: every query runs, as a role that has what docs/monitoring.md says it needs, and gives the columns that its
-- metrics name.
\ir ../include/helpers.psql
SELECT plan(15);
CALL pg_temp.clean('exporter:');
\set yaml `cat monitoring/queries.yaml`

CREATE TEMP TABLE queries AS
    SELECT part[1] AS name, part[2] AS query,
           (SELECT array_agg(metric[1] ORDER BY n) FROM regexp_matches(part[3], '^    - (\w+):$', 'gn') WITH ORDINALITY AS m (metric, n)) AS metrics,
           (SELECT array_agg(metric[1] ORDER BY n) FROM regexp_matches(part[3], '^    - (\w+):\n        usage: "LABEL"$', 'gn')
                WITH ORDINALITY AS m (metric, n)) AS labels
      FROM regexp_matches(:'yaml' || E'\n', '^(\w+):\n  query: \|\n((?:    .*\n)+)(?:  cache_seconds: \d+\n)?  metrics:\n((?:    .*\n)+)', 'gn') AS part;
SELECT is((SELECT count(*) FROM queries), (SELECT count(*) FROM regexp_matches(:'yaml', '^\w+:', 'gn')), 'every_query_was_found');

SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_exporter;
GRANT USAGE ON SCHEMA idem TO tap_exporter;
GRANT EXECUTE ON FUNCTION idem_stats_counters(), idem_in_flight(), idem_sweep_status(), idem_outbox_backlog(), idem_health() TO tap_exporter;
GRANT SELECT ON idem_stats, idem_sweep_progress, queries TO tap_exporter;
SELECT outcome FROM idem_begin('exporter:live', lease => '1 hour');

CREATE FUNCTION pg_temp.result_of(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    result jsonb;
BEGIN
    SET LOCAL ROLE tap_exporter;
    EXECUTE format('SELECT jsonb_agg(r) FROM (%s) r', query) INTO result;
    RESET ROLE;
    RETURN result;
END $$;
CREATE FUNCTION pg_temp.columns_of(query text) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TEMP VIEW tap_columns AS ' || query;
    RETURN (SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'pg_temp.tap_columns'::regclass AND attnum > 0);
END $$;

SELECT lives_ok(format('SELECT pg_temp.result_of(%L)', query), name || '_runs') FROM queries ORDER BY name;
CREATE TEMP TABLE columns (name text, found text[]);
DO $$
DECLARE
    q record;
BEGIN
    FOR q IN SELECT name, query FROM queries LOOP
        INSERT INTO columns VALUES (q.name, pg_temp.columns_of(q.query));
        DROP VIEW tap_columns;
    END LOOP;
END $$;
SELECT is(found, metrics, name || '_gives_what_its_metrics_name') FROM queries JOIN columns USING (name) ORDER BY name;
SELECT is((SELECT string_agg(name, ', ') FROM queries,
            LATERAL (SELECT count(*), count(DISTINCT (SELECT jsonb_object_agg(l, row -> l) FROM unnest(labels) l)) AS distinct
                       FROM jsonb_array_elements(coalesce(pg_temp.result_of(query), '[]')) AS row) rows
           WHERE rows.count <> rows.distinct), NULL, 'no_two_rows_have_the_same_labels');
SELECT is((SELECT row ->> 'keys' FROM queries, jsonb_array_elements(pg_temp.result_of(query)) AS row
            WHERE name = 'idem_in_flight' AND row ->> 'mode' = 'leased'), '1', 'a_lease_is_counted');
SELECT ok((SELECT bool_and(row ->> 'level' IN ('0', '1', '2', '3')) FROM queries, jsonb_array_elements(pg_temp.result_of(query)) AS row
            WHERE name = 'idem_health'), 'levels_are_numbers');
-- What a sweep is deleting looks like a transaction that has held the key since its claim. This session takes the place of a sweep.
SELECT idem_claim('exporter:held');
CREATE FUNCTION pg_temp.transactional() RETURNS text LANGUAGE sql AS $$
    SELECT row ->> 'keys' FROM queries, jsonb_array_elements(pg_temp.result_of(query)) AS row WHERE name = 'idem_in_flight' AND row ->> 'mode' = 'transactional'
$$;
SELECT is(pg_temp.transactional(), '1', 'a_transaction_is_counted');
CREATE OR REPLACE VIEW idem_sweep_progress AS
    SELECT table_name, 'running'::text AS state, pg_backend_pid() AS pid, started_at, updated_at, finished_at, blocks_total, blocks_done, rows_deleted, rows_redacted,
           rows_held, batches, complete_from FROM (SELECT) one LEFT JOIN idem_sweep_status() ON false;
SELECT is(pg_temp.transactional(), '0', 'a_sweep_is_not');
ROLLBACK;
SELECT ok(NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tap_exporter'), 'role_is_gone');
CALL pg_temp.clean('exporter:');
SELECT * FROM finish();
