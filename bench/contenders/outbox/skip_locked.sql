WITH taken AS (
    UPDATE raw_queue SET lease_until = clock_timestamp() + interval '30 s', attempt = attempt + 1
     WHERE id IN (SELECT id FROM raw_queue WHERE topic = 'orders' AND (lease_until IS NULL OR lease_until < clock_timestamp())
                   ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)
    RETURNING id, payload, attempt)
SELECT array_agg(id) AS ids, max(attempt) AS attempt, count(payload) FROM taken \gset
DELETE FROM raw_queue WHERE id = ANY (:ids::bigint[]);
