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
