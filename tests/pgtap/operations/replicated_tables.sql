-- Which tables and sequences go to another server, by logical replication and by a dump. A table that is new has to be in one of
-- these lists.
\ir ../include/helpers.psql
\ir ../include/members.psql
SELECT plan(5);

CREATE TEMP VIEW stored AS
    SELECT c.oid, c.relname::text AS name, c.relkind AS kind, c.oid = ANY (e.extconfig) IS NOT FALSE AS is_dumped -- without an extension, all
      FROM relations c LEFT JOIN pg_extension e ON e.extname = 'idem'
     WHERE c.relkind NOT IN ('v', 'i', 'c') AND c.relname NOT LIKE '\_idem\_%'; -- scratch of the portable edition

SELECT set_eq($$ SELECT name FROM stored WHERE NOT is_dumped $$,
    $$ VALUES ('idem_api_keys'), ('idem_webhook_sources'), ('idem_token_secrets'), ('idem_sweeps'), ('idem_outbox_leases') $$,
    'all_but_secrets_progress_and_leases_is_dumped');

SELECT set_eq($$ SELECT name FROM stored WHERE oid NOT IN (SELECT relation FROM idem_replicated_tables) $$,
    $$ VALUES ('idem_api_keys'), ('idem_webhook_sources'), ('idem_token_secrets'), ('idem_sweeps') $$,
    'all_but_secrets_and_progress_is_replicated');

SELECT set_eq($$ SELECT relation::oid, kind FROM idem_replicated_tables $$,
    $$ SELECT oid, CASE kind WHEN 'r' THEN 'table' WHEN 'S' THEN 'sequence' END FROM stored
        WHERE is_dumped OR name = 'idem_outbox_leases' $$,
    'what_is_dumped_is_replicated_and_leases_too');

SELECT set_eq($$ SELECT relation::text, action FROM idem_replicated_tables WHERE action <> 'publish' $$,
    $$ VALUES ('idem_transition_log', 'publish inserts'), ('idem_fence_high_water', 'carry over'), ('idem_id_high_water', 'carry over') $$,
    'sequences_are_carried_over_and_a_table_without_key_gets_insertions');

SELECT is((SELECT string_agg(DISTINCT step || ' ' || kind, ', ' ORDER BY step || ' ' || kind) FROM idem_replicated_tables),
    '1 table, 2 sequence', 'sequences_come_last');

SELECT * FROM finish();
