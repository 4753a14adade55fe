-- Fills most of shared_buffers with what a claim of the contender reaches beside its row, as far as there is room: a ring's filter, the index of its
-- open window, and then those of its sealed ones; the other contenders' indexes. `contender`: its name.
WITH
    indexes (contender, index, place) AS (
        SELECT CASE ring WHEN 'full' THEN 'ring' ELSE 'empty_ring' END, index::regclass, place
        FROM idem_rings
        JOIN idem_ring_registry USING (ring),
             LATERAL (VALUES (format('idem_ring_%s_filter', id), 1), (format('idem_ring_%s_%s_pkey', id, "window"), 2)) AS reached (index, place)
        WHERE state = 'open'
        UNION ALL
        SELECT 'ring', format('idem_ring_%s_%s_pkey', id, "window")::regclass, 3 + "window"
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
