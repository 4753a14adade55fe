-- The statements of the row flows, which each backend keeps. They find the row by the index of its key, whatever the caller has set for the planner: a scan of the table is slow, and under
-- SERIALIZABLE it conflicts with writes of other rows. Objects of ever new shapes leave nothing behind.
\ir ../include/row_flows.psql
SELECT plan(14);
DROP SCHEMA IF EXISTS row_plans CASCADE;
SELECT 'DROP OWNED BY tap_plans; DROP ROLE tap_plans' FROM pg_roles WHERE rolname = 'tap_plans' \gexec
CREATE SCHEMA row_plans;
CREATE TABLE row_plans.item (id int PRIMARY KEY, number int NOT NULL DEFAULT 5, note text, state text NOT NULL DEFAULT 'a', version bigint NOT NULL DEFAULT 1,
    code int);
CREATE UNIQUE INDEX ON row_plans.item (code);
CREATE INDEX ON row_plans.item (note);
INSERT INTO row_plans.item (id, note, code) SELECT n, 'note ' || n, n FROM generate_series(1, 10) n;
CREATE TABLE row_plans.secured (LIKE row_plans.item INCLUDING ALL);
INSERT INTO row_plans.secured SELECT * FROM row_plans.item;
ALTER TABLE row_plans.secured ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY everything ON row_plans.secured USING (id > 0);
CREATE TABLE row_plans.parted (LIKE row_plans.item INCLUDING DEFAULTS, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE row_plans.part_1 PARTITION OF row_plans.parted FOR VALUES FROM (0) TO (5);
CREATE TABLE row_plans.part_2 PARTITION OF row_plans.parted FOR VALUES FROM (5) TO (100);
CREATE INDEX ON row_plans.parted (note);
INSERT INTO row_plans.parted SELECT * FROM row_plans.item;
-- Files that grant take turns: two sessions cannot change one function's privileges at the same time.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
CREATE ROLE tap_plans;
GRANT USAGE ON SCHEMA idem, row_plans TO tap_plans;
SELECT idem_grant('tap_plans');
SELECT idem_machine_define('row plans', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["a"]}}');
SELECT optimistic_enable(name), idem_machine_attach(name, 'state', 'row plans')
  FROM unnest(ARRAY['row_plans.item', 'row_plans.secured', 'row_plans.parted']::regclass[]) AS name;

ALTER TABLE row_plans.secured OWNER TO tap_plans;

CREATE TEMP TABLE flow (n int GENERATED ALWAYS AS IDENTITY, call text, outcome text);
INSERT INTO flow (call, outcome) VALUES
    ('optimistic_update(%L, ''{"id": 1}'', 7, ''{"note": "x"}'')', 'conflict'),
    ('optimistic_update(%L, ''{"id": 1}'', 1, ''{"number": 4}'')', 'updated'),
    ('conditional_update(%L, ''{"id": 2}'', ''{"note": "x"}'', ''{"note": "y"}'')', 'conflict'),
    ('conditional_update(%L, ''{"id": 2}'', ''{"note": "note 2"}'', ''{"number": 3}'')', 'updated'),
    ('conditional_adjust(%L, ''{"id": 3}'', ''number'', -1)', 'adjusted'),
    ('conditional_adjust(%L, ''{"id": 3}'', ''number'', -100)', 'out_of_range'),
    ('pessimistic_lock(%L, ''{"id": 3}'')', 'locked'),
    ('pessimistic_lock(%L, ''{"id": 4}'', ''1 s'')', 'locked'),
    ('pessimistic_lock_many(%L, ARRAY[''{"id": 4}'']::jsonb[])', 'locked'),
    ('unique_insert(%L, ''{"id": 4}'')', 'duplicate'),
    ('unique_insert(%L, ''{"id": 20}'')', 'inserted'),
    ('guarded_insert(%L, ''{"id": 21, "note": "note 9"}'', ''{note}'')', 'duplicate'),
    ('guarded_insert(%L, ''{"id": 21, "note": "new"}'', ''{note}'')', 'inserted'),
    ('idem_transition(%L, ''{"id": 5}'', NULL, ''b'')', 'moved'),
    ('idem_transition(%L, ''{"id": 6}'', ''a'', ''b'')', 'moved');

CREATE FUNCTION pg_temp.scans() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT sum(seq_scan)::bigint FROM pg_stat_xact_all_tables WHERE schemaname = 'row_plans'
$$;
-- The flows that did not return the outcome, or that scanned a table, under these settings; each twice, and undone.
CREATE FUNCTION pg_temp.scanning(tables text[], settings text[], role name DEFAULT current_user) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one record;
    before bigint;
    answer jsonb;
    surprises text[];
BEGIN
    FOR one IN SELECT name, setting, format(call, 'row_plans.' || name) AS call, outcome
                 FROM flow, unnest(tables) AS name, unnest(settings) AS setting, generate_series(1, 2) AS time
                ORDER BY setting, name, flow.n, time LOOP
        BEGIN
            PERFORM set_config(split_part(pair, '=', 1), split_part(pair, '=', 2), true) FROM string_to_table(one.setting, ' ') AS pair;
            before := pg_temp.scans();
            answer := pg_temp.answer_as(role, 'SELECT outcome FROM idem.' || one.call);
            IF answer ->> 'outcome' IS DISTINCT FROM one.outcome OR pg_temp.scans() > before THEN
                surprises := surprises || format('%s with %s: %s, %s scans', one.call, one.setting, answer, pg_temp.scans() - before);
            END IF;
            RAISE EXCEPTION 'undo' USING ERRCODE = 'UNDON';
        EXCEPTION WHEN SQLSTATE 'UNDON' THEN
        END;
    END LOOP;
    RETURN array_to_string(surprises, '; ');
END $$;
CREATE TEMP TABLE settings AS SELECT ARRAY['plan_cache_mode=auto', 'plan_cache_mode=force_custom_plan', 'plan_cache_mode=force_generic_plan',
    'enable_indexscan=off', 'enable_indexscan=off enable_bitmapscan=off enable_indexonlyscan=off plan_cache_mode=force_custom_plan',
    'enable_bitmapscan=off', 'search_path=row_plans,pg_catalog', 'search_path=pg_catalog', 'jit=on jit_above_cost=0 plan_cache_mode=force_custom_plan'] AS all;

SELECT is(pg_temp.scanning('{item}', (SELECT s.all FROM settings s)), NULL, 'table_is_never_scanned');
-- Plans that were made under one caller's settings do not serve others.
DISCARD PLANS;
SELECT is(pg_temp.scanning('{parted}', (SELECT s.all FROM settings s)), NULL, 'nor_are_its_partitions');
SELECT is(pg_temp.scanning('{secured}', (SELECT s.all FROM settings s), 'tap_plans'), NULL, 'nor_is_one_with_row_level_security');

-- Nulls that are equal for the index are found by it, too.
CREATE TABLE row_plans.nulls (a int, b int, c int, UNIQUE NULLS NOT DISTINCT (a), UNIQUE NULLS NOT DISTINCT (b, c));
INSERT INTO row_plans.nulls SELECT n, n, n FROM generate_series(10, 1000) n UNION ALL VALUES (NULL, NULL, 1), (1, 1, NULL);
SELECT seq_scan AS scans, idx_tup_fetch AS rows FROM pg_stat_xact_all_tables WHERE relid = 'row_plans.nulls'::regclass \gset
BEGIN;
SELECT is(string_agg(outcome, ' '), 'duplicate duplicate duplicate duplicate', 'nulls_that_are_equal')
  FROM (VALUES ('{}'::jsonb, '{a}'::name[]), ('{"a": 1}', '{a}'), ('{"a": 2, "b": 1}', '{b,c}'), ('{"a": 2, "c": 1}', '{c,b}')) AS v (new_row, key),
       unique_insert('row_plans.nulls', new_row, key);
SELECT ok(seq_scan = :scans AND idx_tup_fetch < :rows + 20, format('are_found_by_the_index: %s scans, %s rows', seq_scan - :scans, idx_tup_fetch - :rows))
  FROM pg_stat_xact_all_tables WHERE relid = 'row_plans.nulls'::regclass;
ROLLBACK;

-- The settings are the caller's again, and a trigger sees its own.
CREATE FUNCTION row_plans.note_settings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.note := concat_ws(' ', current_setting('enable_seqscan'), current_setting('enable_indexscan'), current_setting('jit'));
    PERFORM set_config('row_plans.set', NEW.id::text, false);
    RETURN NEW;
END $$;
CREATE TRIGGER notes BEFORE UPDATE ON row_plans.item FOR EACH ROW EXECUTE FUNCTION row_plans.note_settings();
SET plan_cache_mode = force_custom_plan;
SET enable_indexscan = off;
SET jit = on;
SELECT is(row_data ->> 'note' || ' ' || current_setting('row_plans.set') || ' ' || current_setting('plan_cache_mode'),
    'on off on 7 force_custom_plan', 'settings_of_triggers')
  FROM conditional_update('row_plans.item', '{"id": 7}', '{"number": 5}', '{"number": 6}');
RESET ALL;

-- Memory that outlives a call, other than that of the statements themselves.
CREATE FUNCTION pg_temp.kept(OUT bytes bigint) LANGUAGE sql VOLATILE AS $$
    SELECT sum(used_bytes)::bigint FROM pg_get_backend_memory_contexts()
     WHERE name IN ('TopMemoryContext', 'CacheMemoryContext', 'Record information cache', 'Type information cache')
$$;
SELECT format('CREATE TABLE row_plans.broad (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 1, %s)', string_agg(format('c%s int', n), ', '))
  FROM generate_series(0, 12) n \gexec
INSERT INTO row_plans.broad (id) VALUES (1);
SELECT optimistic_enable('row_plans.broad');
-- An object that has the columns whose bits are set in i.
CREATE FUNCTION pg_temp.shape(i int, value int) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_object_agg('c' || n, value) FROM generate_series(0, 12) n WHERE i & (1 << n) <> 0
$$;
CREATE FUNCTION pg_temp.call_with_shapes(first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN first .. last LOOP
        PERFORM conditional_update('row_plans.broad', '{"id": 1}', pg_temp.shape(i, 0), pg_temp.shape(i, 1)),
                optimistic_update('row_plans.broad', '{"id": 1}', 0, pg_temp.shape(i, 1)),
                unique_insert('row_plans.broad', pg_temp.shape(i, 1) || '{"id": 1}'),
                guarded_insert('row_plans.broad', pg_temp.shape(i, 1) || '{"id": 1}', '{id}');
    END LOOP;
END $$;
CREATE FUNCTION pg_temp.execute_with_shapes(first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN first .. last LOOP
        PERFORM idem_execute(format('tap shapes %s %s', pg_backend_pid(), i),
            format('SELECT $1::int AS a%1$s, $2 AS b%1$s', i), '["1", "x"]', ttl => '1 ms');
    END LOOP;
END $$;
SELECT pg_temp.call_with_shapes(1, 200);
SELECT bytes AS before FROM pg_temp.kept() \gset
SELECT pg_temp.call_with_shapes(201, 500);
SELECT cmp_ok(bytes - :before, '<', 16384::bigint, 'memory_does_not_grow_with_the_shapes_of_objects') FROM pg_temp.kept();
-- The statements of row flows and of idem_execute take 16 MB together, and PL/pgSQL's take some more.
CREATE FUNCTION pg_temp.megabytes_of_statements() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(total_bytes)::bigint >> 20 FROM pg_get_backend_memory_contexts()
     WHERE name IN ('idem plans', 'SPI Plan', 'CachedPlanSource', 'CachedPlanQuery', 'CachedPlan')
$$;
SELECT ok(megabytes BETWEEN 14 AND 18, format('statements_are_kept_in_bounded_memory: %s MB', megabytes)) FROM pg_temp.megabytes_of_statements() AS megabytes;
SELECT pg_temp.execute_with_shapes(1, 200);
SELECT bytes AS before FROM pg_temp.kept() \gset
SELECT pg_temp.execute_with_shapes(201, 500);
SELECT cmp_ok(bytes - :before, '<', 16384::bigint, 'nor_with_those_of_responses') FROM pg_temp.kept();
SELECT ok(megabytes BETWEEN 14 AND 18, format('which_both_kinds_share: %s MB', megabytes)) FROM pg_temp.megabytes_of_statements() AS megabytes;

-- Calls that fail end their use of a statement, so that it can be freed.
CREATE FUNCTION pg_temp.fail_with_shapes(first int, last int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    failed bigint := 0;
BEGIN
    FOR i IN first .. last LOOP
        BEGIN
            PERFORM conditional_update('row_plans.broad', '{"id": 1}', '{"id": 1}', pg_temp.shape(i, 1) || '{"version": 0}');
        EXCEPTION WHEN SQLSTATE 'ID004' THEN
            failed := failed + 1;
        END;
    END LOOP;
    RETURN failed;
END $$;
SELECT is(pg_temp.fail_with_shapes(501, 1500), 1000::bigint, 'calls_that_fail');
SELECT ok(megabytes BETWEEN 14 AND 18, format('keep_no_more: %s MB', megabytes)) FROM pg_temp.megabytes_of_statements() AS megabytes;

-- A statement stays while it runs, whatever a trigger within it needs memory for.
CREATE TABLE row_plans.outermost (id int PRIMARY KEY, note text, kept bigint);
INSERT INTO row_plans.outermost VALUES (1, 'before');
CREATE FUNCTION row_plans.call_others() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_temp.call_with_shapes(1501, 1800);
    SELECT count(*) INTO NEW.kept FROM pg_get_backend_memory_contexts()
     WHERE name = 'CachedPlanSource' AND ident LIKE 'UPDATE%row_plans.outermost%';
    RETURN NEW;
END $$;
CREATE TRIGGER calls BEFORE UPDATE ON row_plans.outermost FOR EACH ROW EXECUTE FUNCTION row_plans.call_others();
SELECT is(row_data, '{"id": 1, "note": "after", "kept": 1}', 'statement_in_use_is_kept')
  FROM conditional_update('row_plans.outermost', '{"id": 1}', '{"note": "before"}', '{"note": "after"}');
SELECT pg_temp.call_with_shapes(1801, 2100);
SELECT is((SELECT count(*) FROM pg_get_backend_memory_contexts() WHERE name = 'CachedPlanSource' AND ident LIKE 'UPDATE%row_plans.outermost%'),
    0::bigint, 'and_freed_later');

SET client_min_messages = warning;
DROP SCHEMA row_plans CASCADE;
SELECT idem_machine_drop('row plans');
DROP OWNED BY tap_plans;
DROP ROLE tap_plans;
SELECT pg_advisory_unlock(hashtext('idem pgtap grants'));
SELECT * FROM finish();
