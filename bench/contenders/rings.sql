--- schema.sql
-- Keys by the day of their claim: the partitions of the seven days before are full, the newest takes new keys. A unique index across
-- partitions would need the day in it, so each partition has its own.
CREATE TABLE partitioned_keys (LIKE raw_keys INCLUDING DEFAULTS) PARTITION BY RANGE (created_at);
SELECT format('CREATE TABLE partitioned_keys_%s PARTITION OF partitioned_keys FOR VALUES FROM (%L) TO (%L)',
              number, current_date + number - 7, current_date + number - 6 + CASE number WHEN 7 THEN 1 ELSE 0 END)
FROM generate_series(0, 7) AS number \gexec
SELECT format('ALTER TABLE partitioned_keys_%s ADD PRIMARY KEY (scope, key)', number) FROM generate_series(0, 7) AS number \gexec
-- Arrays of keys that were made before the call that is timed.
CREATE TABLE key_batches (keys text[] NOT NULL);
CREATE EXTENSION pg_prewarm;

--- batch_empty_ring.sql
SELECT count(*) FROM key_batches, idem_claim_many(keys, scope => 'e');

--- batch_no_ring.sql
SELECT count(*) FROM key_batches, idem_claim_many(keys);

--- batch_raw_on_conflict.sql
INSERT INTO raw_keys (scope, key, expires_at)
SELECT '', key, now() + interval '24 hours'
FROM key_batches, unnest(keys) AS key
ORDER BY key COLLATE "C"
ON CONFLICT (scope, key) DO NOTHING;

--- batch_raw_partitioned.sql
INSERT INTO partitioned_keys_7 (scope, key, created_at, expires_at)
SELECT '', given.key, now(), now() + interval '8 days'
FROM key_batches, unnest(keys) AS given (key)
WHERE NOT EXISTS (SELECT FROM partitioned_keys AS k WHERE k.scope = '' AND k.key = given.key COLLATE "C")
ORDER BY given.key COLLATE "C"
ON CONFLICT (scope, key) DO NOTHING;

--- batch_ring.sql
SELECT count(*) FROM key_batches, idem_claim_many(keys, scope => 'f');

--- drop.sql
-- A scope leaves its ring first, and a ring with live keys cannot be dropped. `scope` lives in `ring`.
SELECT idem_scope_reset(:'scope', 'ring');
SELECT format('TRUNCATE idem_ring_%s_%s', id, number) FROM idem_rings JOIN idem_ring_registry USING (ring) WHERE ring = :'ring' \gexec
SELECT idem_ring_drop(:'ring');
SELECT idem_scope_drop(:'scope');

--- empty_ring.sql
-- Scope "e" is in a ring that has only the keys of this benchmark's earlier calls, all in its open window.
SELECT idem_claim(md5(:n)::uuid::text, scope => 'e');

--- expire.sql
-- As if the retention of all keys in the oldest window had ended.
SELECT format('UPDATE idem_ring_%1$s SET until = now() WHERE number = (SELECT number FROM idem_ring_%1$s WHERE state = ''sealed'' ORDER BY generation LIMIT 1)',
              id)
FROM idem_ring_registry WHERE ring = 'full' \gexec

--- fill_raw_partitioned.sql
-- The keys numbered from `first` to `last`, into partition `number`: in one statement and sorted, which is the fastest way.
INSERT INTO partitioned_keys (scope, key, created_at, expires_at)
SELECT '', md5(n::text)::uuid::text COLLATE "C" AS key, current_date + :number - 7, current_date + :number + 1
FROM generate_series(:first, :last) AS n
ORDER BY key;

--- fill_ring.sql
-- The keys numbered from `first` to `last`, into the open window.
CREATE PROCEDURE pg_temp.fill(first bigint, last bigint) LANGUAGE plpgsql AS $$
DECLARE
    size bigint;
BEGIN
    SET LOCAL synchronous_commit = off;
    WHILE first <= last LOOP
        size := least(last - first + 1, 100000);
        PERFORM count(*) FROM idem_claim_many(
            (SELECT array_agg(md5(n::text)::uuid::text) FROM generate_series(first, first + size - 1) AS n), scope => 'f');
        COMMIT;
        first := first + size;
    END LOOP;
END
$$;
CALL pg_temp.fill(:first, :last);

--- lookups.sql
-- Look-ups of keys that are nowhere, in one statement: neither round trips nor commits are timed.
SELECT count(found.*)
FROM generate_series(2000000000 + :first, 2000000000 + :first + :lookups - 1) AS n, idem_lookup(md5(n::text)::uuid::text, :'scope') AS found;

--- no_ring.sql
SELECT idem_claim(md5(:n)::uuid::text);

--- raw_on_conflict.sql
INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', md5(:n)::uuid::text, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;

--- raw_partitioned.sql
-- Searches every partition, by its unique index, and inserts into the newest. When the newest changes, two statements of one key can both insert.
INSERT INTO partitioned_keys_7 (scope, key, created_at, expires_at)
SELECT '', md5(:n)::uuid::text, now(), now() + interval '8 days'
WHERE NOT EXISTS (SELECT FROM partitioned_keys WHERE scope = '' AND key = md5(:n)::uuid::text)
ON CONFLICT (scope, key) DO NOTHING;

--- ring.sql
-- Scope "f" is in the full ring.
SELECT idem_claim(md5(:n)::uuid::text, scope => 'f');

--- rotate.sql
-- As if the open window had been open for its whole period: the sweep seals it, opens the next one and fills the filter.
SET client_min_messages = warning;
SELECT format('UPDATE idem_ring_%s SET opened_at = opened_at - interval ''100 days'' WHERE state = ''open''', id)
FROM idem_ring_registry WHERE ring = 'full' \gexec
CALL idem_sweep();

--- warm.sql
-- Fills most of shared_buffers with what a claim of the contender reaches beside its row, as far as there is room: a ring's filter, the index of its
-- open window, and then those of its sealed ones; the other contenders' indexes. `contender`: its name.
WITH
    indexes (contender, index, place) AS (
        SELECT CASE ring WHEN 'full' THEN 'ring' ELSE 'empty_ring' END, index::regclass, place
        FROM idem_rings
        JOIN idem_ring_registry USING (ring),
             LATERAL (VALUES (format('idem_ring_%s_filter', id), 1), (format('idem_ring_%s_%s_pkey', id, number), 2)) AS reached (index, place)
        WHERE state = 'open'
        UNION ALL
        SELECT 'ring', format('idem_ring_%s_%s_pkey', id, number)::regclass, 3 + number
        FROM idem_rings
        JOIN idem_ring_registry USING (ring)
        WHERE ring = 'full' AND state = 'sealed'
        UNION ALL VALUES ('no_ring', 'idem_keys_pkey'::regclass, 1), ('raw_on_conflict', 'raw_keys_pkey', 1)
        UNION ALL
        SELECT 'raw_partitioned', format('partitioned_keys_%s_pkey', number)::regclass, 8 - number FROM generate_series(0, 7) AS number),
    room (pages) AS (SELECT setting::bigint * 8 / 10 FROM pg_settings WHERE name = 'shared_buffers'),
    parts AS (
        SELECT index, pages, sum(pages) OVER (ORDER BY place) - pages AS before
        FROM indexes, LATERAL (SELECT pg_relation_size(index) / current_setting('block_size')::int AS pages) AS size
        WHERE contender = :'contender' AND pages > 0)
SELECT sum(pg_prewarm(index, 'buffer', 'main', 0, (least(parts.pages, room.pages - before) - 1)::bigint))
FROM parts, room
WHERE before < room.pages;
