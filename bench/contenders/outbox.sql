--- schema.sql
-- What an application keeps without idem: the columns of idem_outbox, and a queue with the lease in the row.
CREATE TABLE raw_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY,
    due_at timestamptz,
    returned_by bigint,
    failures int NOT NULL DEFAULT 0,
    topic text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    payload jsonb NOT NULL,
    headers jsonb,
    PRIMARY KEY (topic, id)
);
CREATE TABLE raw_queue (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lease_until timestamptz,
    attempt int NOT NULL DEFAULT 0,
    topic text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    payload jsonb NOT NULL,
    headers jsonb
);
-- A queue of pgmq's: a table for each topic, and a time until which a message is invisible.
CREATE TABLE pgmq_queue (
    msg_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    read_ct int NOT NULL DEFAULT 0,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    vt timestamptz NOT NULL,
    message jsonb,
    headers jsonb
);
CREATE INDEX ON pgmq_queue (vt);

--- idem_outbox_take.sql
SELECT array_agg(id) AS ids, coalesce(max(fence), 0) AS fence, count(payload) FROM idem_outbox_take('orders', 100) \gset
SELECT idem_outbox_ack(:ids, :fence);

--- idem_publish.sql
\set k random(1, 1000000)
SELECT idem_publish('orders', '{"order": 17, "state": "paid"}', 'order ' || :k);

--- insert.sql
\set k random(1, 1000000)
INSERT INTO raw_outbox (topic, payload, key) VALUES ('orders', '{"order": 17, "state": "paid"}', 'order ' || :k) RETURNING id;

--- insert_notify.sql
\set k random(1, 1000000)
WITH i AS (INSERT INTO raw_outbox (topic, payload, key) VALUES ('orders', '{"order": 17, "state": "paid"}', 'order ' || :k) RETURNING id)
SELECT id, pg_notify('raw_outbox', 'orders') FROM i;

--- pgmq_read.sql
WITH visible AS (
    SELECT msg_id FROM pgmq_queue WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT 100 FOR UPDATE SKIP LOCKED),
taken AS (
    UPDATE pgmq_queue q SET vt = clock_timestamp() + interval '30 s', read_ct = read_ct + 1
      FROM visible WHERE q.msg_id = visible.msg_id
    RETURNING q.msg_id, q.read_ct, q.enqueued_at, q.vt, q.message, q.headers)
SELECT array_agg(msg_id) AS ids, max(read_ct) AS attempt, count(message) FROM taken \gset
DELETE FROM pgmq_queue WHERE msg_id = ANY (:ids::bigint[]) RETURNING msg_id;

--- pgmq_send.sql
INSERT INTO pgmq_queue (vt, message, headers) VALUES (clock_timestamp(), '{"order": 17, "state": "paid"}', NULL) RETURNING msg_id;

--- skip_locked.sql
WITH taken AS (
    UPDATE raw_queue SET lease_until = clock_timestamp() + interval '30 s', attempt = attempt + 1
     WHERE id IN (SELECT id FROM raw_queue WHERE topic = 'orders' AND (lease_until IS NULL OR lease_until < clock_timestamp())
                   ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)
    RETURNING id, payload, attempt)
SELECT array_agg(id) AS ids, max(attempt) AS attempt, count(payload) FROM taken \gset
DELETE FROM raw_queue WHERE id = ANY (:ids::bigint[]);

--- take_400.sql
SELECT array_agg(id) AS ids, coalesce(max(fence), 0) AS fence, count(payload) FROM idem_outbox_take('orders', 400) \gset
SELECT idem_outbox_ack(:ids, :fence);
