-- idem_next_id, idem_id_parts, idem_uuid_v7: what one session can see of them. Its high-water mark: ids_high_water.sql; crashes and clocks: tests/recovery/011_ids.pl.
\ir ../include/helpers.psql
SELECT plan(24);

CREATE FUNCTION pg_temp.nodes(ids bigint[]) RETURNS int[] LANGUAGE sql AS $$
    SELECT array_agg(DISTINCT (idem_id_parts(i)).node) FROM unnest(ids) AS i
$$;
CREATE FUNCTION pg_temp.grows(ids bigint[]) RETURNS boolean LANGUAGE sql AS $$
    SELECT bool_and(i > before) FROM (SELECT i, lag(i) OVER (ORDER BY n) AS before FROM unnest(ids) WITH ORDINALITY AS u(i, n)) g
     WHERE before IS NOT NULL
$$;

-- What is in an id.
SELECT idem_next_id() AS first \gset
SELECT is((SELECT node FROM idem_id_parts(:first)), 0, 'node_is_0_by_default');
SELECT ok(pg_temp.seconds_from_now((SELECT at FROM idem_id_parts(:first))) BETWEEN -10 AND 10, 'made_about_now');
SELECT ok(:first > 0, 'id_is_positive');
SELECT is((SELECT (at, node, seq)::text FROM idem_id_parts(0)), $$("2024-01-01 00:00:00+00",0,0)$$, 'counts_from_2024')
  FROM set_config('TimeZone', 'UTC', false);
SELECT is((SELECT (at, node, seq)::text FROM idem_id_parts((123456::bigint << 22) + (7 << 12) + 99)),
          $$("2024-01-01 00:02:03.456+00",7,99)$$, 'parts_of_an_id');
SELECT is((SELECT (at, node, seq)::text FROM idem_id_parts(9223372036854775807)),
          $$("2093-09-06 15:47:35.551+00",1023,4095)$$, 'parts_of_the_last_id');
SELECT is(pg_temp.state_of('SELECT idem_id_parts(NULL)'), '22004', 'parts_of_null');
SELECT is(pg_temp.state_of('SELECT idem_id_parts(-1)'), '22023', 'parts_of_a_negative_number');

-- Growth: more in one statement than the sequence of a few milliseconds holds.
SELECT array_agg(idem_next_id()) AS many FROM generate_series(1, 50000) \gset
SELECT ok(pg_temp.grows(:'many'), 'grows_within_a_statement');
SELECT is(pg_temp.nodes(:'many'), '{0}', 'sequence_never_runs_over_into_the_node');
SELECT ok((:'many'::bigint[])[1] > :first, 'grows_from_statement_to_statement');

BEGIN;
SELECT idem_next_id() AS undone \gset
SAVEPOINT s;
SELECT idem_next_id() AS undone_too \gset
ROLLBACK TO s;
SELECT idem_next_id() AS kept \gset
ROLLBACK;
SELECT idem_next_id() AS after \gset
SELECT ok(pg_temp.grows(ARRAY[:undone, :undone_too, :kept, :after]), 'rollbacks_give_nothing_back');

-- Nodes.
SET idem.node_id = 700;
SELECT array_agg(idem_next_id()) AS high FROM generate_series(1, 10000) \gset
SET idem.node_id = 3;
SELECT array_agg(idem_next_id()) AS low FROM generate_series(1, 10000) \gset
SET idem.node_id = 1023;
SELECT array_agg(idem_next_id()) AS highest FROM generate_series(1, 10000) \gset
RESET idem.node_id;
SELECT is(pg_temp.nodes(:'high') || pg_temp.nodes(:'low') || pg_temp.nodes(:'highest'), '{700,3,1023}', 'nodes_are_in_the_ids');
SELECT ok(pg_temp.grows(:'high'::bigint[] || :'low'::bigint[] || :'highest'::bigint[]), 'grows_whatever_the_nodes');
SELECT is(pg_temp.state_of('SET idem.node_id = 1024'), '22023', 'node_of_11_bits');
SELECT is(pg_temp.state_of('SET idem.node_id = -1'), '22023', 'negative_node');

-- Who, and where.
BEGIN;
CREATE ROLE tap_ids;
GRANT USAGE ON SCHEMA idem TO tap_ids;
SELECT is(pg_temp.state_as('tap_ids', 'SELECT idem.idem_next_id(), idem.idem_id_parts(1), idem.idem_uuid_v7()'), 'ok',
          'everybody_may_draw');
SELECT is(pg_temp.state_as('tap_ids', 'SET idem.node_id = 5'), '42501', 'node_is_the_superusers');
ROLLBACK;
BEGIN READ ONLY;
SELECT is(pg_temp.state_of('SELECT idem_next_id()'), '25006', 'next_id_in_a_read_only_transaction');
SELECT is(pg_temp.state_of('SELECT idem_id_parts(1), idem_uuid_v7()'), 'ok', 'the_others_in_a_read_only_transaction');
ROLLBACK;
-- UUIDs.
SELECT array_agg(idem_uuid_v7()) AS uuids FROM generate_series(1, 10000) \gset
SELECT ok((SELECT bool_and(u::text ~ '^.{14}7.{4}[89ab]') FROM unnest(:'uuids'::uuid[]) AS u), 'version_and_variant');
SELECT ok((SELECT bool_and(u > before) FROM (SELECT u, lag(u) OVER (ORDER BY n) AS before
             FROM unnest(:'uuids'::uuid[]) WITH ORDINALITY AS list(u, n)) g WHERE before IS NOT NULL), 'uuids_of_a_session_grow');
SELECT is((SELECT count(DISTINCT right(u::text, 16)) FROM unnest(:'uuids'::uuid[]) AS u), 10000::bigint, 'random_bits_differ');
SELECT ok(abs(('x0000' || left(replace(idem_uuid_v7()::text, '-', ''), 12))::bit(64)::bigint / 1000.0
              - extract(epoch FROM clock_timestamp())) < 10, 'uuid_has_the_time');
SELECT * FROM finish();
