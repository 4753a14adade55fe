-- The version guard: whatever client updates a guarded table, each row's version counts its changes, one by one.
\set schema row_optimistic
\ir ../include/row_flows.psql
SELECT plan(81);

-- Enabling.
CREATE TABLE row_optimistic.plain (id int PRIMARY KEY, a text);
INSERT INTO row_optimistic.plain VALUES (1, 'one'), (2, 'two');
SELECT relfilenode AS before FROM pg_class WHERE oid = 'row_optimistic.plain'::regclass \gset
SELECT lives_ok($$ SELECT optimistic_enable('row_optimistic.plain') $$, 'enabling');
SELECT is(
    (SELECT (format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid))::text
       FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
      WHERE attrelid = 'row_optimistic.plain'::regclass AND attname = 'version'),
    '(bigint,t,1)', 'missing_column_is_added');
SELECT results_eq('SELECT id, a, version FROM row_optimistic.plain ORDER BY id', $$ VALUES (1, 'one', 1::bigint), (2, 'two', 1) $$,
    'rows_that_are_there_begin_at_1');
SELECT is((SELECT relfilenode::text FROM pg_class WHERE oid = 'row_optimistic.plain'::regclass), :'before', 'table_is_not_rewritten');
SELECT is(
    (SELECT string_agg(concat_ws(',', tgname, tgtype, tgenabled, pronamespace::regnamespace || '.' || proname), ' ')
       FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid WHERE tgrelid = 'row_optimistic.plain'::regclass AND NOT tgisinternal),
    'zz_idem_version_guard,19,O,idem.idem_version_guard', 'guard_is_a_trigger_before_the_update_of_each_row');
SELECT lives_ok($$ SELECT optimistic_enable('row_optimistic.plain') $$, 'enabling_twice');
SELECT lives_ok($$ SELECT optimistic_enable('row_optimistic.plain', NULL) $$, 'null_is_not_given');
SELECT lives_ok($$ SELECT optimistic_enable('row_optimistic.plain', 'version') $$, 'and_by_name');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid = 'row_optimistic.plain'::regclass AND NOT tgisinternal), 1::bigint,
    'makes_one_trigger');
ALTER TABLE row_optimistic.plain ADD other bigint NOT NULL DEFAULT 1;
SELECT is(pg_temp.state_of($$ SELECT optimistic_enable('row_optimistic.plain', 'other') $$), '55000', 'second_version_column_is_refused');
SELECT is(pg_temp.state_of($$ SELECT optimistic_enable('row_optimistic.plain', 'missing') $$), '55000', 'and_is_not_added');
SELECT hasnt_column('row_optimistic', 'plain', 'missing', 'refusal_adds_no_column');
ALTER TABLE row_optimistic.plain DROP other;

-- What an UPDATE may do.
CREATE FUNCTION pg_temp.version(id int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT p.version FROM row_optimistic.plain p WHERE p.id = version.id);
END $$;
UPDATE row_optimistic.plain SET a = 'uno' WHERE id = 1;
SELECT is(pg_temp.version(1), 2::bigint, 'update_that_leaves_the_version_alone_bumps_it');
UPDATE row_optimistic.plain SET a = a WHERE id = 1;
SELECT is(pg_temp.version(1), 3::bigint, 'and_so_does_one_that_changes_nothing');
SELECT is(pg_temp.version(2), 1::bigint, 'other_rows_keep_theirs');
UPDATE row_optimistic.plain SET a = 'eins', version = version + 1 WHERE id = 1;
SELECT is(pg_temp.version(1), 4::bigint, 'version_plus_1_is_fine');
UPDATE row_optimistic.plain SET a = 'un', version = 5 WHERE id = 1 AND version = 4;
SELECT is(pg_temp.version(1), 5::bigint, 'as_is_what_a_mapper_writes');
WITH changed AS (UPDATE row_optimistic.plain SET a = 'en', version = 5 WHERE id = 1 AND version = 4 RETURNING 1)
SELECT is((SELECT count(*) FROM changed), 0::bigint, 'stale_mapper_finds_no_row');
SELECT is(
    (SELECT string_agg(format('%s: %s', version, state), '; ')
       FROM unnest('{3,4,7,1,0,-1,NULL,9223372036854775807,-9223372036854775808,5 + 2,version - 1,version + '
           '2}'::text[]) WITH ORDINALITY AS v (version, n),
            pg_temp.state_of(format('UPDATE row_optimistic.plain SET a = ''x'', version = %s WHERE id = 1', coalesce(version,
                'NULL'))) AS state
      WHERE state <> 'ID004'),
    NULL, 'any_other_version_is_ID004');
SELECT is(pg_temp.state_of('UPDATE row_optimistic.plain SET version = DEFAULT WHERE id = 1'), 'ID004', 'as_is_the_default');
SELECT results_eq('SELECT a, version FROM row_optimistic.plain WHERE id = 1', $$ VALUES ('un', 5::bigint) $$,
    'refused_updates_change_nothing');
SELECT ok(state = 'ID004' AND message ~ '^[a-z"].*[^.]$' AND detail ~ '^[A-Z"].*\.$' AND detail ~ '\m5\M' AND detail ~ '\m9\M',
    format('error_tells_both_versions: %s | %s', message, detail))
  FROM pg_temp.error_of('UPDATE row_optimistic.plain SET version = 9 WHERE id = 1');
UPDATE row_optimistic.plain SET version = version + 1;
SELECT results_eq('SELECT id, version FROM row_optimistic.plain ORDER BY id', $$ VALUES (1, 6::bigint), (2, 2) $$, 'all_rows_at_once');
SELECT is(pg_temp.state_of('UPDATE row_optimistic.plain SET version = 7'), 'ID004', 'one_stale_row_is_enough');
SELECT results_eq('SELECT id, version FROM row_optimistic.plain ORDER BY id', $$ VALUES (1, 6::bigint), (2, 2) $$,
    'and_nothing_is_updated');
UPDATE row_optimistic.plain SET (id, a, version) = ROW (2, 'dos', 2) WHERE id = 2;
SELECT is(pg_temp.version(2), 3::bigint, 'row_saved_as_a_whole_with_the_version_that_it_has');
SELECT is(pg_temp.state_of('UPDATE row_optimistic.plain SET (id, a, version) = ROW (2, ''dos'', 2) WHERE id = 2'), 'ID004',
    'saved_again_without_reading_the_version_back');
SELECT id FROM row_optimistic.plain WHERE id = 1 FOR UPDATE;
SELECT is(pg_temp.version(1), 6::bigint, 'locking_a_row_is_no_change');
BEGIN;
UPDATE row_optimistic.plain SET a = 'x' WHERE id = 1;
UPDATE row_optimistic.plain SET a = 'y' WHERE id = 1;
SELECT is(pg_temp.version(1), 8::bigint, 'each_update_of_a_transaction_counts');
ROLLBACK;
SELECT is(pg_temp.version(1), 6::bigint, 'and_is_rolled_back');

-- Other ways to update.
INSERT INTO row_optimistic.plain VALUES (1, 'upsert') ON CONFLICT (id) DO UPDATE SET a = excluded.a;
SELECT is(pg_temp.version(1), 7::bigint, 'on_conflict_do_update');
INSERT INTO row_optimistic.plain AS p VALUES (1, 'upsert') ON CONFLICT (id) DO UPDATE SET a = excluded.a, version = p.version + 1;
SELECT is(pg_temp.version(1), 8::bigint, 'on_conflict_do_update_of_the_version');
SELECT is(
    pg_temp.state_of($$ INSERT INTO row_optimistic.plain VALUES (1, 'upsert') ON CONFLICT (id) DO UPDATE SET version = excluded.version $$),
    'ID004', 'on_conflict_do_update_to_the_new_rows_version');
\if :from_15
MERGE INTO row_optimistic.plain p USING (VALUES (1), (3)) AS v (id) ON p.id = v.id
 WHEN MATCHED THEN UPDATE SET a = 'merged' WHEN NOT MATCHED THEN INSERT (id, a) VALUES (v.id, 'merged');
SELECT is(pg_temp.version(1) || ' ' || pg_temp.version(3), '9 1', 'merge');
MERGE INTO row_optimistic.plain p USING (VALUES (1)) AS v (id) ON p.id = v.id WHEN MATCHED THEN UPDATE SET version = p.version + 1;
SELECT is(pg_temp.version(1), 10::bigint, 'merge_of_the_version');
SELECT is(
    pg_temp.state_of($$ MERGE INTO row_optimistic.plain p USING (VALUES (1)) AS v (id) ON p.id = v.id
                         WHEN MATCHED THEN UPDATE SET version = 3 $$),
    'ID004', 'stale_merge');
\else
INSERT INTO row_optimistic.plain VALUES (3, 'merged');
UPDATE row_optimistic.plain SET a = 'merged' WHERE id = 1;
UPDATE row_optimistic.plain SET version = version + 1 WHERE id = 1;
SELECT skip('no MERGE before PostgreSQL 15', 3);
\endif
\copy row_optimistic.plain (id, a, version) from stdin
4	copied	40
5	copied	-5
\.
INSERT INTO row_optimistic.plain VALUES (6, 'inserted', 60), (7, 'inserted', DEFAULT);
SELECT results_eq('SELECT id, version FROM row_optimistic.plain WHERE id > 3 ORDER BY id',
    $$ VALUES (4, 40::bigint), (5, -5), (6, 60), (7, 1) $$, 'insert_and_copy_may_begin_anywhere');
UPDATE row_optimistic.plain SET a = 'x' WHERE id IN (4, 5);
SELECT is(pg_temp.version(4) || ' ' || pg_temp.version(5), '41 -4', 'and_count_from_there');
SELECT is(pg_temp.state_of('INSERT INTO row_optimistic.plain VALUES (8, ''x'', NULL)'), '23502', 'version_is_not_null');
CREATE TABLE row_optimistic.child (id int PRIMARY KEY, plain int REFERENCES row_optimistic.plain ON UPDATE CASCADE ON DELETE SET NULL);
SELECT optimistic_enable('row_optimistic.child');
INSERT INTO row_optimistic.child VALUES (1, 7);
UPDATE row_optimistic.plain SET id = 8 WHERE id = 7;
DELETE FROM row_optimistic.plain WHERE id = 8;
SELECT is((SELECT format('%s %s', coalesce(plain::text, 'none'), version) FROM row_optimistic.child), 'none 3',
    'referential_actions_count');

-- Logical replication's apply and a restore: the versions are those of the origin.
BEGIN;
SET LOCAL session_replication_role = replica;
UPDATE row_optimistic.plain SET version = 100 WHERE id = 4;
UPDATE row_optimistic.plain SET a = 'replicated' WHERE id = 4;
SELECT is(pg_temp.version(4), 100::bigint, 'guard_does_not_fire_for_a_replica');
ROLLBACK;

-- Types.
CREATE TABLE row_optimistic.small (id int PRIMARY KEY, lock_version smallint NOT NULL DEFAULT 0);
CREATE TABLE row_optimistic.medium (id int PRIMARY KEY, lock_version int NOT NULL);
CREATE TABLE row_optimistic.large (id int PRIMARY KEY, lock_version bigint NOT NULL DEFAULT -1);
SELECT lives_ok(format('SELECT optimistic_enable(%L, ''lock_version'')', name), 'version_of_type_of_' || name)
  FROM unnest('{row_optimistic.small,row_optimistic.medium,row_optimistic.large}'::text[]) AS name;
SELECT is(
    (SELECT string_agg(format('%s %s', format_type(atttypid, atttypmod), coalesce(pg_get_expr(adbin, adrelid), 'none')), ', '
        ORDER BY attrelid)
       FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
      WHERE attrelid = ANY ('{row_optimistic.small,row_optimistic.medium,row_optimistic.large}'::regclass[]) AND attname = 'lock_version'),
    'smallint 0, integer none, bigint ''-1''::integer', 'existing_column_is_left_as_it_is');
INSERT INTO row_optimistic.small VALUES (1, DEFAULT), (2, 32766);
INSERT INTO row_optimistic.medium VALUES (1, 0), (2, 2147483646);
INSERT INTO row_optimistic.large VALUES (1, DEFAULT), (2, 9223372036854775806);
SELECT is(
    (SELECT string_agg(format('%s: %s', statement, state), '; ')
       FROM unnest('{small,medium,large}'::text[]) AS name,
            unnest('{UPDATE row_optimistic.%s SET id = id,UPDATE row_optimistic.%s SET lock_version = lock_version + 1 WHERE '
                'id = 1}'::text[]) AS template,
            format(template, name) AS statement, pg_temp.state_of(statement) AS state
      WHERE state <> 'ok'),
    NULL, 'versions_of_all_types_are_bumped');
SELECT results_eq(
    $$ SELECT lock_version::bigint FROM row_optimistic.small UNION ALL SELECT lock_version FROM row_optimistic.medium
       UNION ALL SELECT lock_version FROM row_optimistic.large ORDER BY 1 $$,
    $$ VALUES (1::bigint), (2), (2), (32767), (2147483647), (9223372036854775807) $$, 'up_to_the_types_maximum');
SELECT is(
    (SELECT string_agg(format('%s: %s', name, state), '; ')
       FROM unnest('{small,medium,large}'::text[]) AS name,
            pg_temp.state_of(format('UPDATE row_optimistic.%s SET id = id WHERE id = 2', name)) AS state
      WHERE state <> '22003'),
    NULL, 'at_which_an_update_is_22003');
SELECT is(
    (SELECT string_agg(format('%s: %s', name, state), '; ')
       FROM unnest('{small,medium,large}'::text[]) AS name,
            pg_temp.state_of(format('UPDATE row_optimistic.%s SET lock_version = 1 WHERE id = 2', name)) AS state
      WHERE state NOT IN ('22003', 'ID004')),
    NULL, 'versions_do_not_wrap_around');
ALTER TABLE row_optimistic.small ALTER lock_version TYPE bigint;
UPDATE row_optimistic.small SET id = id WHERE id = 2;
SELECT is((SELECT lock_version FROM row_optimistic.small WHERE id = 2), 32768::bigint, 'guard_follows_a_change_of_type');

-- What cannot be a version.
CREATE DOMAIN row_optimistic.version AS bigint;
CREATE TABLE row_optimistic.unfit (
    id int PRIMARY KEY, words text NOT NULL DEFAULT '', exact numeric NOT NULL DEFAULT 1, moment timestamptz NOT NULL DEFAULT now(),
    dom row_optimistic.version NOT NULL DEFAULT 1, nullable bigint DEFAULT 1,
    generated bigint NOT NULL GENERATED ALWAYS AS (id) STORED, counted bigint GENERATED ALWAYS AS IDENTITY,
    assigned bigint GENERATED BY DEFAULT AS IDENTITY, dropped bigint NOT NULL DEFAULT 1);
ALTER TABLE row_optimistic.unfit DROP dropped;
SELECT is(pg_temp.surprises(ARRAY[
    ['optimistic_enable(''row_optimistic.unfit'', ''words'')', '42804'],
        ['optimistic_enable(''row_optimistic.unfit'', ''exact'')', '42804'],
    ['optimistic_enable(''row_optimistic.unfit'', ''moment'')', '42804'],
    ['optimistic_enable(''row_optimistic.unfit'', ''nullable'')', '55000'],
        ['optimistic_enable(''row_optimistic.unfit'', ''generated'')', '428C9'],
    ['optimistic_enable(''row_optimistic.unfit'', ''counted'')', '428C9'],
        ['optimistic_enable(''row_optimistic.unfit'', ''xmin'')', '42701|42703|42804|0A000'],
    ['optimistic_enable(''row_optimistic.unfit'', '''')', '42601|42602|42703|22023'],
    ['optimistic_enable(NULL)', '22004'], ['optimistic_enable(NULL, ''version'')', '22004'],
    ['optimistic_disable(NULL)', '22004'],
    ['optimistic_disable(''row_optimistic.unfit'')', '55000']]), NULL, 'columns_that_cannot_be_a_version');
SELECT ok(state = '55000' AND hint ~ 'SET NOT NULL', format('nullable_version_has_a_hint: %s', hint))
  FROM pg_temp.error_of($$ SELECT optimistic_enable('row_optimistic.unfit', 'nullable') $$);
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid = 'row_optimistic.unfit'::regclass), 0::bigint, 'refused_columns_get_no_trigger');
BEGIN;
-- The guard would set what the domain's constraint has not seen.
SELECT is(pg_temp.state_of($$ SELECT optimistic_enable('row_optimistic.unfit', 'dom') $$), '42804', 'domain_cannot_be_a_version');
ROLLBACK;
SELECT lives_ok($$ SELECT optimistic_enable('row_optimistic.unfit', 'dropped') $$, 'dropped_column_of_that_name_is_added_anew');

-- Disabling.
SELECT lives_ok($$ SELECT optimistic_disable('row_optimistic.plain') $$, 'disabling');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid = 'row_optimistic.plain'::regclass AND tgname ~ 'idem'), 0::bigint,
    'drops_the_trigger');
UPDATE row_optimistic.plain SET a = 'free' WHERE id = 4;
UPDATE row_optimistic.plain SET version = 1 WHERE id = 5;
SELECT is(pg_temp.version(4) || ' ' || pg_temp.version(5), '41 1', 'and_leaves_the_column_to_its_users');
SELECT is(pg_temp.state_of($$ SELECT optimistic_disable('row_optimistic.plain') $$), '55000', 'disabling_twice');
BEGIN;
SELECT optimistic_enable('row_optimistic.plain', 'later');
UPDATE row_optimistic.plain SET a = 'x' WHERE id = 4;
SELECT results_eq('SELECT version, later FROM row_optimistic.plain WHERE id = 4', 'VALUES (41::bigint, 2::bigint)',
    'another_column_afterwards');
ROLLBACK;
SELECT hasnt_column('row_optimistic', 'plain', 'later', 'enabling_is_transactional');
SELECT lives_ok($$ SELECT optimistic_enable('row_optimistic.plain') $$, 'enabling_again');
UPDATE row_optimistic.plain SET a = 'x' WHERE id = 4;
SELECT is(pg_temp.version(4), 42::bigint, 'counts_on');

-- Other triggers. The guard fires last, and what counts is what they made of the row.
CREATE TABLE row_optimistic.triggered (id int PRIMARY KEY, a text);
INSERT INTO row_optimistic.triggered VALUES (1, 'keep'), (2, 'back'), (3, 'none');
SELECT optimistic_enable('row_optimistic.triggered');
CREATE FUNCTION row_optimistic.meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE OLD.a WHEN 'back' THEN NEW.version := 77; WHEN 'none' THEN RETURN NULL; ELSE NEW.version := OLD.version; END CASE;
    RETURN NEW;
END $$;
CREATE TRIGGER zz BEFORE UPDATE ON row_optimistic.triggered FOR EACH ROW EXECUTE FUNCTION row_optimistic.meddle();
SELECT is(pg_temp.state_of('UPDATE row_optimistic.triggered SET a = a WHERE id = 2'), 'ID004', 'version_that_a_trigger_made_is_judged');
SELECT is(pg_temp.state_of('UPDATE row_optimistic.triggered SET a = ''x'' WHERE id = 3'), 'ok', 'update_that_a_trigger_suppresses');
UPDATE row_optimistic.triggered SET a = a WHERE id = 1;
SELECT is((SELECT version FROM row_optimistic.triggered WHERE id = 1), 2::bigint, 'version_that_a_trigger_put_back_is_bumped');

-- Partitioned tables.
CREATE TABLE row_optimistic.parted (id int, region text, a text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE row_optimistic.parted_eu PARTITION OF row_optimistic.parted FOR VALUES IN ('eu') PARTITION BY RANGE (id);
CREATE TABLE row_optimistic.parted_eu_1 PARTITION OF row_optimistic.parted_eu FOR VALUES FROM (0) TO (100);
CREATE TABLE row_optimistic.parted_us (id int NOT NULL, junk int, region text NOT NULL, a text);
ALTER TABLE row_optimistic.parted_us DROP junk;
ALTER TABLE row_optimistic.parted ATTACH PARTITION row_optimistic.parted_us FOR VALUES IN ('us');
SELECT optimistic_enable('row_optimistic.parted');
CREATE TABLE row_optimistic.parted_as PARTITION OF row_optimistic.parted FOR VALUES IN ('as');
INSERT INTO row_optimistic.parted VALUES (1, 'eu', 'x'), (2, 'us', 'x'), (3, 'as', 'x');
UPDATE row_optimistic.parted SET a = 'y';
UPDATE row_optimistic.parted_us SET a = 'y';
UPDATE row_optimistic.parted SET region = 'us', version = version + 1 WHERE id = 1;
UPDATE row_optimistic.parted SET region = 'eu' WHERE id = 3;
SELECT results_eq('SELECT id, region, version, tableoid::regclass::text FROM row_optimistic.parted ORDER BY id',
    $$ VALUES (1, 'us', 3::bigint, 'row_optimistic.parted_us'), (2, 'us', 3, 'row_optimistic.parted_us'),
        (3, 'eu', 3, 'row_optimistic.parted_eu_1') $$,
    'partitions_old_and_new_are_guarded_and_rows_move_with_their_version');
SELECT is(pg_temp.state_of($$ UPDATE row_optimistic.parted SET region = 'as', version = 9 WHERE id = 1 $$)
          || ' ' || pg_temp.state_of('UPDATE row_optimistic.parted_eu_1 SET version = 1'), 'ID004 ID004',
              'stale_version_of_a_partitions_row');
SELECT optimistic_disable('row_optimistic.parted');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgfoid = 'idem_version_guard'::regproc AND tgrelid::regclass::text ~ 'parted'), 0::bigint,
    'disabling_frees_all_partitions');
SELECT optimistic_enable('row_optimistic.parted_us');
UPDATE row_optimistic.parted SET a = 'z';
SELECT results_eq('SELECT id, version FROM row_optimistic.parted ORDER BY id', 'VALUES (1, 4::bigint), (2, 4), (3, 3)',
    'one_partition_alone');

-- Inheritance: the parent's own rows.
CREATE TABLE row_optimistic.parent (id int PRIMARY KEY, a text);
CREATE TABLE row_optimistic.heir (b text) INHERITS (row_optimistic.parent);
INSERT INTO row_optimistic.parent VALUES (1, 'x');
INSERT INTO row_optimistic.heir VALUES (2, 'x');
SELECT optimistic_enable('row_optimistic.parent');
UPDATE row_optimistic.parent SET a = 'y';
SELECT results_eq('SELECT id, version FROM row_optimistic.parent ORDER BY id', 'VALUES (1, 2::bigint), (2, 1)',
    'heirs_are_tables_of_their_own');

-- The guard's function outside of the trigger that optimistic_enable makes.
SELECT is(pg_temp.state_of('SELECT idem_version_guard()'), '39P01', 'guard_is_no_function_to_call');
CREATE TABLE row_optimistic.misused (id int PRIMARY KEY, a text, version bigint NOT NULL DEFAULT 1);
INSERT INTO row_optimistic.misused VALUES (1, 'x');
CREATE FUNCTION pg_temp.misuse(definition text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TRIGGER misused ' || replace(definition, '%', 'ON row_optimistic.misused');
    INSERT INTO row_optimistic.misused VALUES (2, 'y') ON CONFLICT (id) DO UPDATE SET a = 'y';
    UPDATE row_optimistic.misused SET a = 'z';
    DELETE FROM row_optimistic.misused;
    RAISE EXCEPTION 'undo' USING ERRCODE = 'UNDON';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
SELECT is(
    (SELECT string_agg(format('%s: %s', definition, state), '; ')
       FROM unnest(ARRAY['BEFORE UPDATE % FOR EACH ROW EXECUTE FUNCTION idem_version_guard()',
                         'BEFORE UPDATE % FOR EACH ROW EXECUTE FUNCTION idem_version_guard(''no_such_column'')',
                         'BEFORE UPDATE % FOR EACH ROW EXECUTE FUNCTION idem_version_guard(''a'')',
                         'BEFORE UPDATE % FOR EACH ROW EXECUTE FUNCTION idem_version_guard('''')',
                         'BEFORE UPDATE % FOR EACH ROW EXECUTE FUNCTION idem_version_guard(''xmin'')',
                         'BEFORE UPDATE % FOR EACH STATEMENT EXECUTE FUNCTION idem_version_guard(''version'')',
                         'BEFORE INSERT % FOR EACH ROW EXECUTE FUNCTION idem_version_guard(''version'')',
                         'BEFORE DELETE % FOR EACH ROW EXECUTE FUNCTION idem_version_guard(''version'')',
                         'AFTER UPDATE % FOR EACH ROW EXECUTE FUNCTION idem_version_guard(''version'')']) AS definition,
            pg_temp.misuse(definition) AS state
      WHERE state = 'UNDON' OR state LIKE 'XX%'),
    NULL, 'triggers_made_wrongly_raise');

BEGIN;
SELECT is(pg_temp.state_of('DROP EXTENSION idem'), '2BP01', 'extension_is_not_dropped_from_under_its_guards');
ROLLBACK;

-- DDL on the version column: the guard follows or raises, it never looks away.
CREATE TABLE row_optimistic.altered (id int PRIMARY KEY, a text);
INSERT INTO row_optimistic.altered VALUES (1, 'x');
SELECT optimistic_enable('row_optimistic.altered');
CREATE FUNCTION pg_temp.after(ddl text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    version bigint;
BEGIN
    EXECUTE ddl;
    UPDATE row_optimistic.altered SET a = 'y';
    SELECT coalesce(to_jsonb(t) ->> 'version', to_jsonb(t) ->> 'ver') INTO version FROM row_optimistic.altered t;
    RAISE EXCEPTION 'undo' USING ERRCODE = format('V000%s', version);
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
SELECT is(pg_temp.after('ALTER TABLE row_optimistic.altered ADD b int, DROP a, ADD a text'), 'V0002', 'other_columns_come_and_go');
SELECT matches(pg_temp.after('ALTER TABLE row_optimistic.altered RENAME version TO ver'), '^(V0002|42703|55000)$', 'renamed_version');
SELECT is(pg_temp.after('ALTER TABLE row_optimistic.altered RENAME version TO ver; '
    'SELECT optimistic_disable(''row_optimistic.altered''); SELECT optimistic_enable(''row_optimistic.altered'', ''ver'')'), 'V0002',
    'version_that_is_guarded_again_under_its_new_name');
SELECT matches(pg_temp.after('ALTER TABLE row_optimistic.altered DROP version'), '^(42703|55000|2BP01)$', 'dropped_version');
SELECT matches(pg_temp.after('ALTER TABLE row_optimistic.altered ALTER version TYPE numeric'), '^(V0002|42804|55000)$',
    'version_of_another_type');
SELECT matches(pg_temp.after('ALTER TABLE row_optimistic.altered ALTER version DROP NOT NULL'), '^V0002$',
    'nullable_version_that_is_not_null');
SELECT is(pg_temp.after('ALTER TABLE row_optimistic.altered RENAME TO renamed; '
    'CREATE VIEW row_optimistic.altered AS SELECT * FROM row_optimistic.renamed'),
    'V0002', 'renamed_table_behind_a_view');

DROP SCHEMA row_optimistic CASCADE;
SELECT * FROM finish();
