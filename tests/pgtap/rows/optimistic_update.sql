-- optimistic_update: a change to the row as the caller read it; otherwise the current row, so that the caller can merge.
\set schema row_optimistic_update
\ir ../include/row_flows.psql
SELECT plan(48);

CREATE TABLE row_optimistic_update.items (id int PRIMARY KEY, sku text NOT NULL UNIQUE, price numeric(9,2), note varchar(5),
    double_price numeric GENERATED ALWAYS AS (price * 2) STORED, CHECK (price >= 0));
INSERT INTO row_optimistic_update.items VALUES (1, 'a', 1.50, 'x'), (2, 'b', 2, NULL);
SELECT optimistic_enable('row_optimistic_update.items');
CREATE FUNCTION pg_temp.updated(key jsonb, version bigint, changes jsonb) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answer(format('SELECT * FROM optimistic_update(''row_optimistic_update.items'', %L, %L, %L)', key, version, changes))
$$;

-- Outcomes.
SELECT is(pg_temp.updated('{"id": 1}', 1, '{"price": 3.25, "note": null}'),
    '{"outcome": "updated", "version": 2, "row_data": {"id": 1, "sku": "a", "price": 3.25, "note": null, "double_price": 6.5, '
        '"version": 2}}',
    'row_is_as_the_caller_read_it');
SELECT results_eq('SELECT price, note, version FROM row_optimistic_update.items ORDER BY id',
    $$ VALUES (3.25, NULL::varchar, 2::bigint), (2.00, NULL, 1) $$, 'and_only_this_row_is_changed');
SELECT is(pg_temp.updated('{"id": 1}', 1, '{"price": 4}'),
    '{"outcome": "conflict", "version": 2, "row_data": {"id": 1, "sku": "a", "price": 3.25, "note": null, '
        '"double_price": 6.5, "version": 2}}',
    'row_has_changed_since');
SELECT is((SELECT price FROM row_optimistic_update.items WHERE id = 1), 3.25, 'and_is_not_changed');
SELECT is(pg_temp.updated('{"id": 1}', version, '{"price": 4}') - 'row_data', '{"outcome": "conflict", "version": 2}',
    format('version_%s_is_a_conflict', version))
  FROM unnest('{3,0,-1,9223372036854775807,-9223372036854775808}'::bigint[]) AS version;
SELECT is(pg_temp.updated('{"id": 3}', 1, '{"price": 4}'), '{"outcome": "not_found", "version": null, "row_data": null}',
    'row_is_not_there');
SELECT is(pg_temp.updated('{"id": 1}', 2, '{}'),
    '{"outcome": "updated", "version": 3, "row_data": {"id": 1, "sku": "a", "price": 3.25, "note": null, "double_price": 6.5, '
        '"version": 3}}',
    'no_changes_bump_the_version');
SELECT is(pg_temp.updated('{"sku": "a"}', 3, '{"note": "sku"}') -> 'row_data' ->> 'note', 'sku', 'key_may_be_another_unique_index');
SELECT is(pg_temp.updated('{"id": "1"}', 4, '{"price": "7.5"}') #> '{row_data,price}', '7.5', 'strings_fit_numbers');
SELECT is(pg_temp.updated('{"id": 1}', 5, '{"note": 12}') #> '{row_data,note}', '"12"', 'numbers_fit_strings');
SELECT is(pg_temp.updated('{"id": 2}', 1, '{"id": 20, "sku": "bb"}') #- '{row_data,price}',
    '{"outcome": "updated", "version": 2, "row_data": {"id": 20, "sku": "bb", "note": null, "double_price": 4, "version": 2}}',
        'the_key_itself_can_change');
SELECT is(pg_temp.updated('{"id": 20}', 2, '{"id": 2, "sku": "b"}') ->> 'outcome', 'updated', 'and_change_back');
SELECT is(pg_temp.updated('{"id": 1}', 6, '{"price": 7.5}') ->> 'version', '7', 'same_values_are_an_update_too');
-- A number is cast where jsonb_populate_record would read a string.
SELECT is((SELECT price::text FROM row_optimistic_update.items WHERE id = 1), '7.50', 'numeric_takes_the_columns_scale');

-- Errors: of the arguments, ...
SELECT is(pg_temp.surprises(ARRAY[
    ['optimistic_update(NULL, ''{"id": 1}'', 7, ''{}'')', '22004'],
        ['optimistic_update(''row_optimistic_update.items'', NULL, 7, ''{}'')', '22004'],
    ['optimistic_update(''row_optimistic_update.items'', ''{"id": 1}'', NULL, ''{}'')', '22004'],
    ['optimistic_update(''row_optimistic_update.items'', ''{"id": 1}'', 7, NULL)', '22004'],
    ['optimistic_update(''row_optimistic_update.items'', ''{"id": null}'', 7, ''{}'')', '22004'],
    ['optimistic_update(''row_optimistic_update.items'', ''{"sku": null}'', 7, ''{}'')', '22004']]), NULL, 'nulls');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['[]', '[{"id": 1}]', '1', '"id"', 'null', 'true']) AS value,
            unnest(ARRAY['optimistic_update(''row_optimistic_update.items'', %L, 7, ''{}'')',
                         'optimistic_update(''row_optimistic_update.items'', ''{"id": 1}'', 7, %L)']) AS template,
            format(template, value) AS call, pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '22023'),
    NULL, 'what_is_not_an_object');
SELECT is(
    (SELECT string_agg(format('%s: %s', key, state), '; ')
       FROM unnest(ARRAY['{}', '{"price": 1}', '{"note": "x"}', '{"id": 1, "sku": "a"}', '{"id": 1, "price": 7.5}',
           '{"version": 7}', '{"id": 1, "version": 7}']) AS key,
            pg_temp.updated(key::jsonb, 7, '{}') AS state
      WHERE state <> '"42P10"'),
    NULL, 'keys_that_are_not_exactly_a_unique_index');
SELECT ok(state = '42P10' AND hint ~ '\mid\M' AND hint ~ '\msku\M' AND hint !~ '\mnote\M', format('hint_names_the_usable_ones: %s', hint))
  FROM pg_temp.error_of($$ SELECT optimistic_update('row_optimistic_update.items', '{"note": "x"}', 7, '{}') $$);
SELECT is(
    (SELECT string_agg(format('%s %s: %s', key, changes, state), '; ')
       FROM (VALUES ('{"ID": 1}', '{}'), ('{"missing": 1}', '{}'), ('{"": 1}', '{}'), ('{"ctid": "(0,1)"}', '{}'),
           ('{"id": 1}', '{"missing": 1}'), ('{"id": 1}', '{"Price": 1}'),
                    ('{"id": 1}', '{"": 1}'), ('{"id": 1}', '{"price ": 1}'), ('{"id": 1}', '{"price": 1, "price\" = 0, \"note": 1}'),
                    ('{"id": 1}', '{"xmin": 1}'), ('{"id": 1}', '{"ctid": "(0,1)"}'),
                        ('{"id": 1}', '{"tableoid": 1}')) AS bad (key, changes),
            pg_temp.updated(key::jsonb, 7, changes::jsonb) AS state
      WHERE state <> '"42703"'),
    NULL, 'unknown_columns');
SELECT is(
    (SELECT string_agg(format('%s: %s', changes, state), '; ')
       FROM unnest(ARRAY['{"version": 8}', '{"version": 7}', '{"version": null}', '{"price": 1, "version": 8}']) AS changes,
            pg_temp.updated('{"id": 1}', 7, changes::jsonb) AS state
      WHERE state <> '"22023"'),
    NULL, 'version_is_not_the_callers_to_change');
SELECT is(pg_temp.updated('{"id": 1}', 7, '{"double_price": 1}'), '"428C9"', 'generated_column');
-- ... of the values, ...
SELECT is(
    (SELECT string_agg(format('%s %s: %s', key, changes, state), '; ')
       FROM (VALUES ('{"id": 1.5}', '{}', '22P02'), ('{"id": 1.0}', '{}', '22P02'), ('{"id": "x"}', '{}', '22P02'),
           ('{"id": ""}', '{}', '22P02'), ('{"id": 3000000000}', '{}', '22003'), ('{"id": true}', '{}', '22P02'),
                    ('{"id": 1}', '{"note": "sixsix"}', '22001'), ('{"id": 1}', '{"price": "x"}', '22P02'),
                    ('{"id": 1}', '{"price": 12345678}', '22003'), ('{"id": 1}', '{"price": -1}', '23514'),
                    ('{"id": 1}', '{"sku": null}', '23502'), ('{"id": 1}', '{"sku": "b"}', '23505'), ('{"id": 1}', '{"id": 2}',
                        '23505')) AS bad (key, changes, code),
            pg_temp.updated(key::jsonb, 7, changes::jsonb) AS state
      WHERE state <> to_jsonb(code)),
    NULL, 'bad_values');
-- ... also where they would have changed nothing.
SELECT is(pg_temp.updated('{"id": 3}', 1, '{"price": "x"}'), '"22P02"', 'bad_values_for_a_row_that_is_not_there');
SELECT is(pg_temp.updated('{"id": 1}', 1, '{"missing": 1}'), '"42703"', 'unknown_columns_beside_a_stale_version');
SELECT results_eq('SELECT id, sku, price, note, version FROM row_optimistic_update.items ORDER BY id',
    $$ VALUES (1, 'a', 7.50, '12'::varchar, 7::bigint), (2, 'b', 2.00, NULL, 3) $$, 'errors_change_nothing');

-- Tables without a guard.
CREATE TABLE row_optimistic_update.unguarded (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 1);
INSERT INTO row_optimistic_update.unguarded VALUES (1);
SELECT ok(state = '55000' AND hint ~ 'optimistic_enable', format('unguarded_table_has_a_hint: %s', hint))
  FROM pg_temp.error_of($$ SELECT optimistic_update('row_optimistic_update.unguarded', '{"id": 1}', 1, '{}') $$);
SELECT optimistic_enable('row_optimistic_update.unguarded');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.unguarded', '{"id": 1}', 1, '{}') $$),
    '{"outcome": "updated", "version": 2, "row_data": {"id": 1, "version": 2}}', 'table_enabled_later');
SELECT optimistic_disable('row_optimistic_update.unguarded');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.unguarded', '{"id": 1}', 2, '{}') $$),
    '"55000"', 'table_disabled_again');

-- A guard that does not fire: an update is counted all the same, or refused.
SELECT optimistic_enable('row_optimistic_update.unguarded');
BEGIN;
SET LOCAL session_replication_role = replica;
SELECT ok(answer = '"55000"' OR answer = '{"outcome": "updated", "version": 3, "row_data": {"id": 1, "version": 3}}',
    format('in_a_replicas_session: %s', answer))
  FROM pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.unguarded', '{"id": 1}', 2, '{}') $$) AS answer;
ROLLBACK;
BEGIN;
ALTER TABLE row_optimistic_update.unguarded DISABLE TRIGGER zz_idem_version_guard;
SELECT ok(answer = '"55000"' OR answer = '{"outcome": "updated", "version": 3, "row_data": {"id": 1, "version": 3}}',
    format('with_a_disabled_trigger: %s', answer))
  FROM pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.unguarded', '{"id": 1}', 2, '{}') $$) AS answer;
ROLLBACK;

-- Version types: an expected version that the column cannot hold is a conflict.
CREATE TABLE row_optimistic_update.small (id int PRIMARY KEY, v smallint NOT NULL DEFAULT 32766);
INSERT INTO row_optimistic_update.small VALUES (1);
SELECT optimistic_enable('row_optimistic_update.small', 'v');
CREATE FUNCTION pg_temp.small(version bigint) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.answer(format('SELECT * FROM optimistic_update(''row_optimistic_update.small'', ''{"id": 1}'', %s, ''{}'')', version))
$$;
SELECT is(pg_temp.small(98302), '{"outcome": "conflict", "version": 32766, "row_data": {"id": 1, "v": 32766}}',
    'version_larger_than_its_type');
SELECT is(pg_temp.small(32766), '{"outcome": "updated", "version": 32767, "row_data": {"id": 1, "v": 32767}}', 'smallint_version');
SELECT is(pg_temp.small(32767), '"22003"', 'version_at_its_maximum');

-- Triggers: the answer is the row as they left it.
CREATE TABLE row_optimistic_update.triggered (id int PRIMARY KEY, a text, changed_by text);
INSERT INTO row_optimistic_update.triggered VALUES (1, 'x'), (2, 'none');
SELECT optimistic_enable('row_optimistic_update.triggered');
CREATE FUNCTION row_optimistic_update.stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.a = 'none' THEN RETURN NULL; END IF;
    NEW.changed_by := 'trigger after ' || OLD.version;
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE UPDATE ON row_optimistic_update.triggered FOR EACH ROW EXECUTE FUNCTION row_optimistic_update.stamp();
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.triggered', '{"id": 1}', 1, '{"a": "y"}') $$),
    '{"outcome": "updated", "version": 2, "row_data": {"id": 1, "a": "y", "changed_by": "trigger after 1", "version": 2}}',
        'row_as_a_trigger_left_it');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.triggered', '{"id": 2}', 1,
    '{"a": "y"}') $$), '"09000"', 'update_that_a_trigger_suppresses');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.triggered', '{"id": 2}', 5,
    '{"a": "y"}') $$) ->> 'outcome', 'conflict',
    'stale_version_before_a_trigger_that_suppresses');

-- Partitioned tables.
CREATE TABLE row_optimistic_update.parted (id int, region text, a text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE row_optimistic_update.parted_eu PARTITION OF row_optimistic_update.parted FOR VALUES IN ('eu');
CREATE TABLE row_optimistic_update.parted_us (a text, gone int, region text NOT NULL, id int NOT NULL);
ALTER TABLE row_optimistic_update.parted_us DROP gone;
ALTER TABLE row_optimistic_update.parted ATTACH PARTITION row_optimistic_update.parted_us FOR VALUES IN ('us');
INSERT INTO row_optimistic_update.parted VALUES (1, 'eu', 'x');
SELECT optimistic_enable('row_optimistic_update.parted');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.parted', '{"id": 1, "region": "eu"}', 1,
    '{"region": "us", "a": "y"}') $$),
    '{"outcome": "updated", "version": 2, "row_data": {"id": 1, "region": "us", "a": "y", "version": 2}}',
        'row_moves_to_another_partition');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.parted', '{"id": 1, "region": "eu"}', 2,
    '{}') $$) ->> 'outcome', 'not_found', 'and_is_not_where_it_was');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.parted', '{"region": "us", "id": 1}', 1, '{}') $$),
    '{"outcome": "conflict", "version": 2, "row_data": {"id": 1, "region": "us", "a": "y", "version": 2}}', 'conflict_in_a_partition');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.parted_us', '{"region": "us", "id": 1}', 2,
    '{"a": "z"}') $$),
    '{"outcome": "updated", "version": 3, "row_data": {"id": 1, "region": "us", "a": "z", "version": 3}}', 'partition_itself');
SELECT is(pg_temp.answer($$ SELECT * FROM optimistic_update('row_optimistic_update.parted', '{"region": "us", "id": 1}', 3,
    '{"region": "asia"}') $$), '"23514"', 'no_partition_for_it');

-- Large values that are not changed are in the answer, and long keys are found.
CREATE TABLE row_optimistic_update.large (id text PRIMARY KEY, a text, doc jsonb);
ALTER TABLE row_optimistic_update.large ALTER a SET STORAGE EXTERNAL;
INSERT INTO row_optimistic_update.large VALUES (repeat('ż', 500), repeat('x', 100000), '{"a": 1}');
SELECT optimistic_enable('row_optimistic_update.large');
SELECT is(row_data - 'id' - 'a' || jsonb_build_object('a', length(row_data ->> 'a'), 'id', length(row_data ->> 'id')),
    '{"id": 500, "a": 100000, "doc": {"b": [1, null]}, "version": 2}', 'toasted_values_are_in_the_answer')
  FROM optimistic_update('row_optimistic_update.large', jsonb_build_object('id', repeat('ż', 500)), 1, '{"doc": {"b": [1, null]}}');
SELECT is(length(row_data ->> 'a'), 1000000, 'megabyte_of_changes')
  FROM optimistic_update('row_optimistic_update.large', jsonb_build_object('id', repeat('ż', 500)), 2, jsonb_build_object('a',
      repeat('y', 1000000)));

-- The whole retry loop: read, change, try again after a conflict.
SELECT outcome, version, row_data FROM optimistic_update('row_optimistic_update.items', '{"id": 2}', 1, '{"price": 9}') \gset read_
SELECT is(:'read_outcome' || ' ' || (SELECT outcome FROM optimistic_update('row_optimistic_update.items', '{"id": 2}',
    :read_version, '{"price": 9}')),
    'conflict updated', 'conflicts_version_is_good_for_the_next_attempt');

DROP SCHEMA row_optimistic_update CASCADE;
SELECT * FROM finish();
