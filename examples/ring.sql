-- A stream of webhook ids through a ring, and what becomes of its windows. Each batch brings 9,000 new ids and 1,000 that came some seconds
-- before. All that comes again is turned away.
--
--   psql -f examples/ring.sql                                  five million ids in some 90 seconds
--   psql -v batches=30 -v retention='3 s' -f examples/ring.sql  270,000 ids
\set QUIET on
\pset pager off
SET client_min_messages = warning;
\if :{?batches}
\else
    \set batches 556
\endif
\if :{?retention}
\else
    \set retention '1 minute'
\endif

SELECT idem_ring_create('webhooks', :'retention') \g /dev/null
SELECT idem_scope_set('webhook stream', ring => 'webhooks') \g /dev/null

-- The ids of one batch: id n comes in batch n / 9000, and one in nine of them again three batches later.
CREATE FUNCTION pg_temp.batch(number int) RETURNS text[] LANGUAGE sql AS $$
    SELECT array_agg('evt_' || md5(n::text))
      FROM (SELECT n FROM generate_series(9000 * number, 9000 * number + 8999) n
            UNION ALL SELECT n FROM generate_series(9000 * (number - 3), 9000 * (number - 3) + 8999, 9) n WHERE number >= 3) ids
$$;
CREATE TEMP TABLE seen (number int, ids int, new int);

-- A relay's work: claim a batch and do the work of the new ones, in one transaction. Beside it, the sweeper. With the background worker,
-- no call of it is needed.
SELECT format('INSERT INTO seen SELECT %1$s, cardinality(ids), (SELECT count(*) FROM idem_claim_many(ids, scope => ''webhook stream'')) FROM pg_temp.batch(%1$s) ids', n),
       format('DO $do$ BEGIN PERFORM pg_sleep(extract(epoch FROM interval %L) / 400); END $do$', :'retention'),
       CASE WHEN n % 10 = 0 THEN 'CALL idem_sweep()' END
  FROM generate_series(0, :batches - 1) n \gexec

\echo 'What came, and what was new:'
SELECT sum(ids) AS ids, sum(new) AS new, 9000 * :batches AS expected FROM seen;
\echo 'The ring:'
SELECT number, state, closed_at::time(0), until::time(0), keys, pg_size_pretty(bytes) AS size, pg_size_pretty(filter_bytes) AS filter, false_positives
  FROM idem_rings WHERE ring = 'webhooks';
