WITH visible AS (
    SELECT msg_id FROM pgmq_queue WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT 100 FOR UPDATE SKIP LOCKED),
taken AS (
    UPDATE pgmq_queue q SET vt = clock_timestamp() + interval '30 s', read_ct = read_ct + 1
      FROM visible WHERE q.msg_id = visible.msg_id
    RETURNING q.msg_id, q.read_ct, q.enqueued_at, q.vt, q.message, q.headers)
SELECT array_agg(msg_id) AS ids, max(read_ct) AS attempt, count(message) FROM taken \gset
DELETE FROM pgmq_queue WHERE msg_id = ANY (:ids::bigint[]) RETURNING msg_id;
