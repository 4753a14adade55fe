-- Outbox: messages that commit with the business rows. They are given out to relays until one of the relays acknowledges them.

-- The only index is the primary key: a relay reads a topic in the order of ids. Leases are in idem_outbox_leases, so giving a message out
-- does not change its row.
CREATE TABLE idem_outbox (
    id          bigint  NOT NULL,
    due_at      timestamptz,
    returned_by bigint,
    failures    integer NOT NULL DEFAULT 0,
    topic       text COLLATE "C" NOT NULL,
    key         text COLLATE "C",
    payload     jsonb   NOT NULL,
    headers     jsonb,
    PRIMARY KEY (topic, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
COMMENT ON TABLE idem_outbox IS
'Messages that are not acknowledged yet. The extension''s owner may read it; change it only by the functions. User triggers and row-level security on it have no effect on the functions.';
COMMENT ON COLUMN idem_outbox.id IS 'A number of idem_next_id, drawn when the message was published; idem_id_parts shows the time. Messages of a topic are given out in this order.';
COMMENT ON COLUMN idem_outbox.due_at IS 'The message is not given out before this time; NULL: it may be given out at once.';
COMMENT ON COLUMN idem_outbox.returned_by IS 'Fence of the last lease that ended without an acknowledgement of the message: no lease up to this one holds it any more.';
COMMENT ON COLUMN idem_outbox.failures IS 'How often the message was given out without success.';
COMMENT ON COLUMN idem_outbox.topic IS 'The name that relays take by; 1 to 255 bytes.';
COMMENT ON COLUMN idem_outbox.key IS 'Messages of a topic with the same key are given out one after the other; NULL: in any order. At most 1024 bytes.';
COMMENT ON COLUMN idem_outbox.payload IS 'The message.';
COMMENT ON COLUMN idem_outbox.headers IS 'Further fields from the publisher.';

CREATE TABLE idem_outbox_leases (
    fence       bigint      NOT NULL,
    lease_until timestamptz NOT NULL,
    part        integer     NOT NULL,
    topic       text COLLATE "C" NOT NULL,
    ids         bigint[]    NOT NULL,
    key_hashes  bigint[]    NOT NULL,
    PRIMARY KEY (fence, part)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX ON idem_outbox_leases (topic, fence); -- a relay reads the leases of its own topic
ALTER TABLE idem_outbox_leases ALTER topic SET STORAGE PLAIN, ALTER ids SET STORAGE PLAIN, ALTER key_hashes SET STORAGE PLAIN;
COMMENT ON TABLE idem_outbox_leases IS
'Leases of relays: one row for each 400 messages that a call of idem_outbox_take gave out. A row is never updated; idem_outbox_renew replaces it. It is deleted with the last of its messages. Not dumped: after a restore, the messages are given out again.';
COMMENT ON COLUMN idem_outbox_leases.fence IS 'The fencing token of the batch.';
COMMENT ON COLUMN idem_outbox_leases.lease_until IS 'When the lease ends. After that, the next relay takes its messages back.';
COMMENT ON COLUMN idem_outbox_leases.part IS 'The first of the numbers of this part of the batch, from 0. A part has one number for each message, so parts do not overlap.';
COMMENT ON COLUMN idem_outbox_leases.topic IS 'The topic of the messages.';
COMMENT ON COLUMN idem_outbox_leases.ids IS 'The ids of the messages, at most 400. Messages that were acknowledged or given back since are still listed.';
COMMENT ON COLUMN idem_outbox_leases.key_hashes IS 'Hashes of the messages'' keys, in the order of ids; 0: no key.';

CREATE TABLE idem_outbox_parked (
    id          bigint      PRIMARY KEY,
    parked_at   timestamptz NOT NULL,
    returned_by bigint      NOT NULL,
    failures    integer     NOT NULL,
    cause       text COLLATE "C" NOT NULL,
    topic       text COLLATE "C" NOT NULL,
    key         text COLLATE "C",
    payload     jsonb       NOT NULL,
    headers     jsonb
);
COMMENT ON TABLE idem_outbox_parked IS
'Dead letters: messages that failed idem.outbox_max_attempts times. Read the view idem_dead_letters; idem_outbox_retry and idem_outbox_discard remove rows.';
COMMENT ON COLUMN idem_outbox_parked.id IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.parked_at IS 'When the message was parked.';
COMMENT ON COLUMN idem_outbox_parked.returned_by IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.failures IS 'How often the message was given out without success.';
COMMENT ON COLUMN idem_outbox_parked.cause IS 'How the last attempt ended: nacked, or lapsed (the lease ran out without an answer).';
COMMENT ON COLUMN idem_outbox_parked.topic IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.key IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.payload IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.headers IS 'As in idem_outbox.';

-- Leases are not dumped: after a restore, the messages are given out again.
SELECT pg_catalog.pg_extension_config_dump('idem_outbox', '');
SELECT pg_catalog.pg_extension_config_dump('idem_outbox_parked', '');

CREATE FUNCTION idem_publish(topic text, payload jsonb, key text DEFAULT NULL, headers jsonb DEFAULT NULL, delay interval DEFAULT NULL,
                             dedup_id text DEFAULT NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_publish(text, jsonb, text, jsonb, interval, text) IS
'Publishes a message in this transaction: relays can take it after the commit, and a rollback undoes it. Returns its id, a number of idem_next_id.
key: messages of the topic with the same key are given out in the order of their ids, each one only after the one before is acknowledged or parked. delay: the message is not given out before that time has passed, counted from the call; later messages of its key wait for it.
dedup_id: if a message of the topic with this dedup_id was published before, and that has committed, the call publishes nothing and returns that message''s id. It claims the key idem_key(topic, dedup_id) in scope ''outbox''. The scope''s ttl says how long the dedup_id is remembered, and the id is the key''s response; if that response was removed, the call returns NULL. Waits for a transaction that is publishing the same dedup_id.
The commit wakes relays by NOTIFY idem_outbox, with the topic as payload, unless idem.outbox_notify is off. A transaction that publishes cannot be prepared (0A000: NOTIFY), unless idem.outbox_notify is off in it. The same is true of idem_outbox_retry, and of idem_outbox_nack without a rest.
Errors: 22004 topic or payload is null; 22023 topic empty or over 255 bytes, key empty or over 1024 bytes, delay negative or infinite, dedup_id empty or, with the topic, over 1024 bytes; 25006 in a read-only transaction; with dedup_id also those of idem_claim.';

CREATE FUNCTION idem_publish_many(topic text, messages jsonb)
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_publish_many(text, jsonb) IS
'Publishes many messages of one topic as idem_publish does, in the order of the array, with one NOTIFY. Returns their ids, in the same order.
messages: an array of objects with the members payload (required; any JSON value), key, headers, delay (a string, such as "5 min"), dedup_id. If a dedup_id occurs twice in one call, only the first of these messages is published.
Errors: 22004 topic or messages is null; 22023 messages is not such an array, and as idem_publish; 22007 or 22008 a delay that is not an interval. After an error nothing is published.';

CREATE FUNCTION idem_outbox_take(topic text, max_messages integer DEFAULT 100, lease interval DEFAULT NULL, OUT id bigint, OUT topic text,
                                 OUT key text, OUT payload jsonb, OUT headers jsonb, OUT attempt integer, OUT fence bigint)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION idem_outbox_take(text, integer, interval) IS
'Takes up to max_messages messages of the topic, oldest first, and leases them, counted from now. Until then no other relay gets them. Commit, then send them, and report with idem_outbox_ack or idem_outbox_nack and this fence what became of them. attempt is 1 the first time.
Returns at most one message of each key, and none while another one of that key is leased, or waits for its next attempt. Messages of leases that ran out are taken back first; that counts as a failure. Never waits for another transaction''s end. Sees what has committed by now, in every isolation level. Writes nothing if there is nothing to give out or to take back.
lease: how long it lasts (default: idem.default_lease). NULL for max_messages: the default.
Errors: 22004 topic is null; 22023 topic empty or over 255 bytes, max_messages not from 1 to 10000, lease not positive or over idem.max_lease; 25006 in a read-only transaction.';

CREATE FUNCTION idem_outbox_ack(ids bigint[], fence bigint)
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_ack(bigint[], bigint) IS
'Acknowledges delivered messages: deletes those that idem_outbox_take gave out with this fence, and returns how many. Messages are not counted if they were acknowledged or given back before, if they are of another batch, or if another relay has taken them back after the lease ran out. While a lease that ran out is not taken back, its messages can still be acknowledged.
Waits for another transaction that acknowledges messages of the same batch. Errors: 22004 ids, one of them, or fence is null; 25006 in a read-only transaction; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_outbox_nack(ids bigint[], fence bigint, retry_after interval DEFAULT NULL)
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_nack(bigint[], bigint, interval) IS
'Gives back messages that could not be delivered, and returns how many. Each of them has failed once more. It is given out again after retry_after (0: at once; NULL: 1 s, doubled with each failure, at most 5 min). After idem.outbox_max_attempts failures it is parked, and no longer holds up its key.
Errors: 22004 ids, one of them, or fence is null; 22023 retry_after negative or infinite; the others as idem_outbox_ack.';

CREATE FUNCTION idem_outbox_renew(ids bigint[], fence bigint, lease interval DEFAULT NULL)
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_renew(bigint[], bigint, interval) IS
'Extends the lease of messages, for a relay that needs more time, and returns how many it extended. Their new lease is counted from now. lease: how long it lasts (default: idem.default_lease). The call extends only messages that idem_outbox_take gave out with this fence, and that are neither acknowledged nor given back. The other messages of the batch keep the end of their lease. A lease that ran out but was not taken back is renewed, too.
Waits for another transaction that acknowledges messages of the same batch. Errors: 22004 ids, one of them, or fence is null; 22023 lease not positive, or over idem.max_lease; 25006 in a read-only transaction; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_outbox_retry(ids bigint[])
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_retry(bigint[]) IS
'Puts dead letters back into the outbox, as if they had never failed, and returns how many. They keep their ids, so they precede later messages of their key that are still in the outbox. Operators. Errors: 22004 ids or one of them is null; 25006 in a read-only transaction.';

CREATE FUNCTION idem_outbox_discard(ids bigint[])
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_discard(bigint[]) IS
'Deletes dead letters, and returns how many. Operators. Errors: as idem_outbox_retry.';

-- The bodies are parsed when they are created, so their names refer to this schema, whatever the schema's name.
CREATE FUNCTION idem_outbox_backlog(OUT topic text, OUT ready bigint, OUT delayed bigint, OUT leased bigint, OUT parked bigint, OUT oldest timestamptz)
RETURNS SETOF record LANGUAGE sql VOLATILE PARALLEL SAFE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH held AS (
        SELECT l.topic, listed.id, max(l.fence) AS fence
          FROM ONLY idem_outbox_leases l, unnest(l.ids) AS listed (id)
         WHERE l.lease_until > clock_timestamp()
         GROUP BY l.topic, listed.id
    ), message AS (
        SELECT m.topic, m.id, CASE WHEN h.fence > coalesce(m.returned_by, 0) THEN 'leased'
                                   WHEN m.due_at > clock_timestamp() THEN 'delayed'
                                   ELSE 'ready' END AS state
          FROM ONLY idem_outbox m LEFT JOIN held h ON h.topic = m.topic AND h.id = m.id
        UNION ALL
        SELECT p.topic, NULL, 'parked' FROM ONLY idem_outbox_parked p
    )
    SELECT m.topic, count(*) FILTER (WHERE m.state = 'ready'), count(*) FILTER (WHERE m.state = 'delayed'),
           count(*) FILTER (WHERE m.state = 'leased'), count(*) FILTER (WHERE m.state = 'parked'),
           CASE WHEN min(m.id) IS NOT NULL THEN (idem_id_parts(min(m.id))).at END
      FROM message m
     GROUP BY m.topic
     ORDER BY m.topic;
END;
COMMENT ON FUNCTION idem_outbox_backlog() IS
'Counts the waiting messages of each topic. ready: can be given out (some may wait for an earlier message of their key). delayed: has a delay, or rests after a failure. leased: is with a relay. parked: is a dead letter. oldest: when the oldest message that is not a dead letter was published. Reads the whole outbox: for dashboards, once a minute. Operators.';

CREATE FUNCTION idem_outbox_dead_letters(OUT id bigint, OUT topic text, OUT key text, OUT payload jsonb, OUT headers jsonb, OUT attempts integer,
                                         OUT cause text, OUT published_at timestamptz, OUT parked_at timestamptz)
RETURNS SETOF record LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT p.id, p.topic, p.key, p.payload, p.headers, p.failures, p.cause, (idem_id_parts(p.id)).at, p.parked_at
      FROM ONLY idem_outbox_parked p
     ORDER BY p.id;
END;
COMMENT ON FUNCTION idem_outbox_dead_letters() IS 'Internal: the rows of the view idem_dead_letters. Operators.';

CREATE VIEW idem_dead_letters AS
    SELECT id, topic, key, payload, headers, attempts, cause, published_at, parked_at FROM idem_outbox_dead_letters();
COMMENT ON VIEW idem_dead_letters IS
'Dead letters: messages that failed idem.outbox_max_attempts times. They are not given out until idem_outbox_retry puts them back, and hold no other message up. Operators.';
COMMENT ON COLUMN idem_dead_letters.id IS 'The message''s id, as idem_outbox_retry and idem_outbox_discard take it.';
COMMENT ON COLUMN idem_dead_letters.topic IS 'The topic.';
COMMENT ON COLUMN idem_dead_letters.key IS 'The key; NULL: none.';
COMMENT ON COLUMN idem_dead_letters.payload IS 'The message.';
COMMENT ON COLUMN idem_dead_letters.headers IS 'Further fields from the publisher.';
COMMENT ON COLUMN idem_dead_letters.attempts IS 'How often the message was given out.';
COMMENT ON COLUMN idem_dead_letters.cause IS 'How the last attempt ended: nacked, or lapsed (the lease ran out without an answer).';
COMMENT ON COLUMN idem_dead_letters.published_at IS 'When the message was published, according to its id.';
COMMENT ON COLUMN idem_dead_letters.parked_at IS 'When the message was parked.';
