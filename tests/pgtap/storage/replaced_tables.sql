-- idem's tables are trusted only while they are the plain local tables that it made. All of it is rolled back.
\ir ../include/helpers.psql
SELECT plan(22);
CALL pg_temp.clean('replaced:');
-- Renaming a table waits for every open transaction on it: not at the same time as the file that leaves some open.
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));
SET lock_timeout = '20 s';
SELECT idem_claim('replaced:before');
SELECT idem_hit('replaced:before');
SELECT fence FROM idem_begin('replaced:held', lease => '1 hour') \gset

CREATE TEMP TABLE uses (call text);
INSERT INTO uses SELECT format(call, :fence) FROM unnest(ARRAY[
    'idem_claim(''replaced:k'')', 'idem_claim(''replaced:before'')', 'idem_try_claim(''replaced:k'')',
    'idem_claim_many(''{replaced:k,replaced:l}'')', 'idem_begin(''replaced:k'')', 'idem_begin(''replaced:k'', lease => ''1 s'')',
    'idem_complete(''replaced:held'', fence => %s)', 'idem_renew(''replaced:held'', %s)', 'idem_step(''replaced:held'', %s, ''x'')',
    'idem_release(''replaced:held'', %s)', 'idem_lookup(''replaced:before'')', 'idem_execute(''replaced:k'', ''SELECT 1'')',
    'idem_forget(''replaced:before'')', 'idem_resolve(''replaced:held'', ''released'')']) AS call;
CREATE FUNCTION pg_temp.others() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', call, state), '; ')
      FROM uses, pg_temp.state_of('SELECT * FROM ' || call) AS state
     WHERE state <> '55000'
$$;

-- Replaced by a table of the same shape, made by somebody else.
BEGIN;
ALTER TABLE idem_keys RENAME TO idem_keys_of_old;
CREATE TABLE idem.idem_keys (LIKE idem.idem_keys_of_old INCLUDING ALL);
SELECT is(pg_temp.others(), NULL, 'replaced_key_table');
SELECT is((SELECT count(*) FROM idem.idem_keys), 0::bigint, 'nothing_was_written_to_the_replacement');
ROLLBACK;
SELECT is(idem_claim('replaced:before'), false, 'original_works_after_the_rollback');

-- Replaced by a view.
BEGIN;
ALTER TABLE idem_keys RENAME TO idem_keys_of_old;
CREATE VIEW idem.idem_keys AS SELECT * FROM idem.idem_keys_of_old;
SELECT is(pg_temp.others(), NULL, 'key_table_behind_a_view');
ROLLBACK;

-- Made a partition of a table: rows may belong elsewhere.
BEGIN;
ALTER TABLE idem_keys RENAME TO idem_keys_of_old;
CREATE TABLE idem.idem_keys (LIKE idem.idem_keys_of_old INCLUDING ALL EXCLUDING STORAGE) PARTITION BY HASH (scope);
ALTER TABLE idem.idem_keys ATTACH PARTITION idem.idem_keys_of_old FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT is(pg_temp.others(), NULL, 'partitioned_key_table');
ROLLBACK;

-- Still the table that was made, but no longer a plain one.
BEGIN;
CREATE TABLE idem.parent (LIKE idem.idem_keys INCLUDING ALL EXCLUDING STORAGE) PARTITION BY HASH (scope);
ALTER TABLE idem.parent ATTACH PARTITION idem_keys FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT is(pg_temp.others(), NULL, 'key_table_as_a_partition');
ROLLBACK;
BEGIN;
CREATE TABLE idem.child () INHERITS (idem.idem_keys);
SELECT is(pg_temp.others(), NULL, 'key_table_with_children');
ROLLBACK;
BEGIN;
ALTER TABLE idem_keys DROP CONSTRAINT idem_keys_pkey;
SELECT is(pg_temp.others(), NULL, 'key_table_without_its_primary_key');
ROLLBACK;

BEGIN;
ALTER TABLE idem_keys ALTER expires_at DROP NOT NULL;
SELECT is(pg_temp.others(), NULL, 'key_table_that_takes_nulls');
ROLLBACK;
BEGIN;
DELETE FROM idem_keys WHERE response IS NULL;
ALTER TABLE idem_keys ALTER response SET NOT NULL;
SELECT is(pg_temp.state_of($$ SELECT idem_claim('replaced:k') $$), '55000', 'key_table_that_takes_too_few');
ROLLBACK;

-- Counters and scopes.
BEGIN;
ALTER TABLE idem_counters RENAME TO idem_counters_of_old;
CREATE TABLE idem.idem_counters (LIKE idem.idem_counters_of_old INCLUDING ALL);
SELECT is(pg_temp.state_of($$ SELECT idem_hit('replaced:before') $$), '55000', 'replaced_counters');
ROLLBACK;
SELECT is(idem_hit('replaced:before'), 2::bigint, 'original_counters_work_after_the_rollback');
BEGIN;
ALTER TABLE idem_scopes RENAME TO idem_scopes_of_old;
CREATE TABLE idem.idem_scopes (LIKE idem.idem_scopes_of_old INCLUDING ALL);
SELECT is(pg_temp.state_of($$ SELECT idem_scope_set('replaced:s', ttl => '1 hour') $$) || ' '
          || pg_temp.state_of($$ SELECT idem_claim('replaced:k', scope => 'replaced:s') $$), '55000 55000', 'replaced_scopes');
ROLLBACK;
SELECT lives_ok($$ SELECT idem_scope_set('replaced:s', ttl => '1 hour') $$, 'original_scopes_work_after_the_rollback');

-- User triggers and row-level security on idem's own tables do not fire.
BEGIN;
CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'fired'; END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON idem_keys FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
ALTER TABLE idem_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idem_keys FORCE ROW LEVEL SECURITY;
SELECT is(idem_claim('replaced:trigger'), true, 'triggers_and_row_level_security_do_not_fire');
ROLLBACK;
BEGIN;
CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'fired'; END $$;
SELECT format('CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON %1$s FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();'
              'ALTER TABLE %1$s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name)
  FROM unnest('{idem_outbox,idem_outbox_leases,idem_outbox_parked,idem_transition_log}'::text[]) AS name \gexec
SET LOCAL idem.outbox_max_attempts = 1;
CREATE FUNCTION pg_temp.settle(verb text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    settled int;
BEGIN
    EXECUTE format('SELECT idem_outbox_%s(array_agg(id), max(fence)) FROM idem_outbox_take(''replaced:t'')', verb) INTO settled;
    RETURN settled;
END $$;
SELECT idem_publish('replaced:t', '1') AS id \gset
SELECT is(pg_temp.settle('nack'), 1, 'nor_on_the_outbox');
SELECT is(idem_outbox_retry(ARRAY[:id]), 1, 'nor_on_dead_letters');
SELECT is(pg_temp.settle('ack'), 1, 'nor_on_leases');
SELECT idem_machine_define('replaced:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
CREATE TEMP TABLE moved (id int PRIMARY KEY, s text);
SELECT idem_machine_attach('moved', 's', 'replaced:m', true);
INSERT INTO moved VALUES (1, 'a');
UPDATE moved SET s = 'b';
SELECT is((SELECT string_agg(to_state, ' ' ORDER BY at) FROM idem_transition_log WHERE target LIKE 'pg\_temp%.moved'), 'a b', 'nor_on_the_transition_log');
ROLLBACK;

-- An index or a column of the user's own must not be left behind.
BEGIN;
CREATE INDEX idem_keys_of_the_users ON idem_keys (key);
SELECT pg_temp.state_of($$ SELECT idem_claim('replaced:index') $$) AS state \gset
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SELECT ok(:'state' = '55000' OR :'state' = 'ok' AND EXISTS (SELECT FROM idem_keys WHERE key = 'replaced:index'),
    format('index_of_the_users_is_kept_or_refused: %s', :'state'));
ROLLBACK;
BEGIN;
ALTER TABLE idem_keys ADD added int NOT NULL DEFAULT 7;
SELECT pg_temp.state_of($$ SELECT idem_claim('replaced:column') $$) AS state \gset
SELECT ok(:'state' = '55000' OR :'state' = 'ok' AND (SELECT to_jsonb(k) ->> 'added' FROM idem_keys k WHERE key = 'replaced:column') = '7',
    format('column_of_the_users_has_its_default_or_is_refused: %s', :'state'));
ROLLBACK;
SELECT is(idem_claim('replaced:after'), true, 'everything_works_after_the_rollbacks');

CALL pg_temp.clean('replaced:');
SELECT * FROM finish();
