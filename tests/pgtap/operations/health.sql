-- idem_health: each check says ok, and another level when its cause is there. What needs a server of its own is in tests/recovery/020_health.pl.
\ir ../include/helpers.psql
SELECT plan(43);
CALL pg_temp.clean('health:');
CALL pg_temp.clean('');

CREATE FUNCTION pg_temp.level(what text) RETURNS text LANGUAGE sql AS $$ SELECT level FROM idem_health() WHERE check_name = what $$;
CREATE FUNCTION pg_temp.detail(what text) RETURNS text LANGUAGE sql AS $$ SELECT detail FROM idem_health() WHERE check_name = what $$;

SELECT results_eq(
    $$ SELECT check_name FROM idem_health() ORDER BY check_name COLLATE "C" $$,
    $$ SELECT name FROM unnest('{collation,dead_letters,dead_rows,guards,in_doubt,leases,outbox,preload,prepared_transactions,privileges,rings,schema,scope_owners,statistics,
                                 sweep_lag_of_idem_keys,sweep_lag_of_idem_locks,sweep_lag_of_idem_rates,sweep_lag_of_idem_tokens,tables,version,wraparound}'::text[]) AS name
        WHERE NOT (name = 'collation' AND current_setting('server_version_num')::int < 150000)
          AND NOT (name IN ('preload', 'rings', 'statistics') AND (SELECT edition FROM idem_version()) = 'portable') $$,
    'checks');
SELECT is((SELECT count(*)::int FROM idem_health() WHERE level IS NULL OR detail IS NULL OR detail = ''), 0, 'each_has_a_level_and_a_detail');
SELECT is((SELECT string_agg(check_name || ': ' || detail, E'\n') FROM idem_health() WHERE detail ~ '\((estimated from|in) *\)'), NULL,
    'a_table_that_was_read_as_a_whole_has_no_basis_of_an_estimate');
SELECT is((SELECT string_agg(check_name, ', ') FROM idem_health() WHERE level NOT IN ('ok', 'notice')), NULL, 'all_is_well');

-- Leases and doubt
SELECT outcome FROM idem_begin('health:live', lease => '1 hour');
SELECT outcome FROM idem_begin('health:lapsed', lease => '1 us');
SELECT matches(pg_temp.detail('leases'), '^1 leases are live.*; 1 have run out', 'leases_are_counted');
SELECT is(pg_temp.level('leases'), 'ok', 'a_lease_that_has_just_run_out_is_no_alarm');
UPDATE idem_keys SET lease_until = now() - interval '61 min' WHERE key = 'health:lapsed';
SELECT is(pg_temp.level('leases'), 'warning', 'work_that_nobody_took_over');
SELECT idem_scope_set('health:manual', on_lease_expiry => 'manual');
SELECT outcome FROM idem_begin('health:doubt', lease => '1 us', scope => 'health:manual/1');
SELECT is(pg_temp.level('in_doubt'), 'warning', 'doubt_before_anybody_asked');
SELECT idem_try_claim('health:doubt', scope => 'health:manual/1');
SELECT matches(pg_temp.detail('in_doubt'), '^1 keys', 'doubt_that_was_written_down');
SELECT is(pg_temp.level('in_doubt'), 'warning', 'is_for_an_operator');
SELECT idem_resolve('health:doubt', 'completed', scope => 'health:manual/1');
SELECT is(pg_temp.level('in_doubt'), 'ok', 'until_it_is_resolved');
CALL pg_temp.clean('health:');

-- Expired and dead rows, which autovacuum is not to count in between.
ALTER TABLE idem_keys SET (autovacuum_enabled = off);
SELECT count(*) FROM idem_claim_many((SELECT array_agg('health:' || i) FROM generate_series(1, 10001) i), ttl => '1 us');
DELETE FROM idem_sweeps WHERE swept = 'idem_keys'::regclass;
SELECT is(pg_temp.level('sweep_lag_of_idem_keys'), 'warning', 'rows_that_nobody_swept');
INSERT INTO idem_sweeps (swept, slot, pid, started_at, updated_at, complete_from, blocks_total)
SELECT 'idem_keys'::regclass, 0, 0, at, at, at, 0 FROM (SELECT now() - interval '25 hours') AS t (at);
SELECT is(pg_temp.level('sweep_lag_of_idem_keys'), 'warning', 'nor_for_a_day');
UPDATE idem_sweeps SET complete_from = now() - interval '23 hours' WHERE swept = 'idem_keys'::regclass;
SELECT is(pg_temp.level('sweep_lag_of_idem_keys'), 'notice', 'the_next_sweep_comes');
SELECT matches(pg_temp.detail('sweep_lag_of_idem_keys'), '^10001 of 10001 rows have expired.*the first at ', 'are_counted');
DELETE FROM idem_keys WHERE starts_with(key, 'health:');
SELECT pg_temp.flush_statistics();
SELECT is(pg_temp.level('dead_rows'), 'notice', 'dead_rows_that_nobody_vacuumed');
SELECT is(pg_temp.level('sweep_lag_of_idem_keys'), 'ok', 'but_they_are_swept');
ALTER TABLE idem_keys RESET (autovacuum_enabled);
VACUUM idem_keys;
SELECT pg_temp.flush_statistics();
SELECT is(pg_temp.level('dead_rows'), 'ok', 'vacuumed');

-- Guards
CREATE TEMP TABLE "Guarded" (id int PRIMARY KEY, state text DEFAULT 'a');
SELECT optimistic_enable('"Guarded"');
SELECT is(pg_temp.level('guards'), 'ok', 'guard_is_enabled');
ALTER TABLE "Guarded" DISABLE TRIGGER USER;
SELECT is(pg_temp.level('guards'), 'critical', 'guard_is_disabled');
SELECT matches(pg_temp.detail('guards'), 'on (pg_temp[_0-9]*\.)?"Guarded"', 'and_named');
DROP TABLE "Guarded";

-- The outbox: what counts is since when a message can be given out. Ids tell when a message was published.
CREATE FUNCTION pg_temp.published(topic text, age interval, key text, due_at timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO idem_outbox (id, topic, key, payload, due_at)
    VALUES ((extract(epoch FROM now() - age - timestamptz '2024-01-01 00:00:00+00') * 1000)::bigint << 22, topic, key, '1', due_at)
$$;
BEGIN;
SELECT pg_temp.published('health', '3 hours', 'k', now() + interval '1 hour'), pg_temp.published('health', '2 hours', 'k', NULL),
       pg_temp.published('health', '150 min', NULL, now() - interval '50 min'), pg_temp.published('health', '10 min', 'l', NULL);
SELECT is(pg_temp.level('outbox'), 'ok', 'a_delayed_message_is_no_alarm_nor_is_what_waits_behind_it');
SELECT matches(pg_temp.detail('outbox'), '\(topic health\)', 'the_topic_is_named');
SELECT pg_temp.published('health', '61 min', 'l', NULL);
SELECT is(pg_temp.level('outbox'), 'warning', 'a_message_that_nobody_takes');
DELETE FROM idem_outbox WHERE topic = 'health' AND key = 'l';
SELECT is(pg_temp.level('outbox'), 'ok', 'until_it_is_acknowledged');
UPDATE idem_outbox SET due_at = now() - interval '61 min' WHERE topic = 'health' AND key = 'k' AND due_at IS NOT NULL;
SELECT is(pg_temp.level('outbox'), 'warning', 'a_delay_that_has_been_over_for_an_hour');
ROLLBACK;

-- The tables
BEGIN;
ALTER TABLE idem_tokens SET UNLOGGED;
SELECT is(pg_temp.level('tables'), 'critical', 'table_that_was_altered');
SELECT matches(pg_temp.detail('tables'), 'idem_tokens.*not logged', 'and_how');
ROLLBACK;
-- The portable edition reads definitions and secrets in each call.
SELECT edition = 'c' AS has_library FROM idem_version() \gset
BEGIN;
\if :has_library
ALTER TABLE idem_scopes DISABLE TRIGGER idem_definitions_changed;
\endif
SELECT is(pg_temp.level('tables'), 'critical', 'sessions_are_not_told_of_changes');
ROLLBACK;
BEGIN;
\if :has_library
ALTER TABLE idem_webhook_sources DISABLE TRIGGER idem_webhook_sources_changed;
\endif
SELECT matches(pg_temp.detail('tables'), 'idem_webhook_sources_changed on (idem\.)?idem_webhook_sources', 'nor_of_deleted_secrets');
ROLLBACK;

-- The privileges. Files that grant take turns.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_health;
SELECT idem_grant('tap_health', true);
SELECT is(pg_temp.level('privileges'), 'ok', 'grant_of_an_operator_is_no_alarm');
GRANT INSERT, DELETE ON idem_api_keys TO tap_health;
SELECT is(pg_temp.detail('privileges'),
    '1 privileges that neither the installation nor idem_grant gives: INSERT, DELETE on idem.idem_api_keys to tap_health',
    'privilege_on_a_table_is_named');
SELECT is(pg_temp.level('schema'), 'ok', 'usage_of_the_schema_is_no_alarm');
GRANT CREATE ON SCHEMA idem TO tap_health, public;
SELECT is((SELECT concat_ws(' ', level, detail) FROM idem_health() WHERE check_name = 'schema'),
    'critical Roles may create objects in schema idem, which can take the place of idem''s: PUBLIC, tap_health. Run REVOKE CREATE ON SCHEMA idem FROM PUBLIC, tap_health CASCADE.',
    'roles_that_may_create_in_it_are_named');
ROLLBACK;

-- The owners of scopes
BEGIN;
CREATE ROLE tap_leaver;
SELECT idem_scope_set('health:left', owner => 'tap_leaver'), idem_scope_set('health:free', ttl => '1 hour');
SELECT is(pg_temp.level('scope_owners'), 'ok', 'owner_is_there');
DROP ROLE tap_leaver;
SELECT is(pg_temp.level('scope_owners'), 'warning', 'owner_was_dropped');
SELECT matches(pg_temp.detail('scope_owners'), '^1 scopes .*: ''health:left''$', 'and_its_scope_is_named');
ROLLBACK;
SELECT pg_advisory_unlock(hashtext('idem pgtap grants'));

-- The versions of library and SQL, whichever is ahead
BEGIN;
UPDATE pg_extension SET extversion = split_part(extversion, '.', 1) || '.99.0' WHERE extname = 'idem';
SELECT is(pg_temp.level('version'), 'warning', 'other_version');
SELECT is(idem_claim('health:other'), true, 'works_as_long_as_it_has_what_it_needs');
ALTER TABLE idem_keys RENAME TO idem_keys_of_old;
SELECT throws_like($$ SELECT idem_claim('health:less') $$, '%not what this version of the library needs', 'clear_error_where_something_is_missing');
ROLLBACK;

-- Wraparound: a row that is 300 million transactions old.
BEGIN;
UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint + 4294967296 - 300000000) % 4294967296)::text::xid
 WHERE oid = 'idem_locks'::regclass;
SELECT is(pg_temp.level('wraparound'), 'warning', 'old_row_locks');
ROLLBACK;
-- Large responses are in a table of their own, which vacuum freezes apart from the keys'.
BEGIN;
UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint + 4294967296 - 300000000) % 4294967296)::text::xid
 WHERE oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'idem_keys'::regclass);
SELECT is(pg_temp.level('wraparound'), 'warning', 'old_responses');
ROLLBACK;
SELECT is((SELECT string_agg(check_name, ', ') FROM idem_health() WHERE level NOT IN ('ok', 'notice')), NULL, 'all_is_well_again');
CALL pg_temp.clean('health:');
SELECT * FROM finish();
