-- Outbox: messages that commit with the business rows, and are handed to relays until one of them acknowledges them.

-- The only index is the primary key: a relay reads a topic in the order of ids, and what becomes of a message while it is out is
-- in idem_outbox_leases, not here.
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
'Messages that are not acknowledged yet. For the extension''s owner to read; change it only by the functions. User triggers and row-level security on it have no effect on them.';
COMMENT ON COLUMN idem_outbox.id IS 'A number of idem_next_id, drawn when the message was published: idem_id_parts tells when. Messages of a topic are given out in this order.';
COMMENT ON COLUMN idem_outbox.due_at IS 'Not to be given out before; NULL: at once.';
COMMENT ON COLUMN idem_outbox.returned_by IS 'Fence of the last lease that ended without its acknowledgement: no lease up to this one holds it any more.';
COMMENT ON COLUMN idem_outbox.failures IS 'How often it was given out without success.';
COMMENT ON COLUMN idem_outbox.topic IS 'What relays ask for; 1 to 255 bytes.';
COMMENT ON COLUMN idem_outbox.key IS 'Messages of a topic with the same key are given out one after the other; NULL: in any order. At most 1024 bytes.';
COMMENT ON COLUMN idem_outbox.payload IS 'The message.';
COMMENT ON COLUMN idem_outbox.headers IS 'Further fields of the publisher''s.';

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
'Batches that relays have: one row for each 400 messages that a call of idem_outbox_take gave out, never updated, deleted with the last of its messages; idem_outbox_renew replaces it. Not dumped: what was given out is given out again after a restore.';
COMMENT ON COLUMN idem_outbox_leases.fence IS 'Fencing token of the batch.';
COMMENT ON COLUMN idem_outbox_leases.lease_until IS 'From when on the next relay takes its messages back.';
COMMENT ON COLUMN idem_outbox_leases.part IS 'Which part of the batch: parts have as many numbers as messages, this is the first.';
COMMENT ON COLUMN idem_outbox_leases.topic IS 'The topic of its messages.';
COMMENT ON COLUMN idem_outbox_leases.ids IS 'Its messages, at most 400; those that were acknowledged or given back since are still named.';
COMMENT ON COLUMN idem_outbox_leases.key_hashes IS 'Hashes of their keys, in the same order; 0: no key.';

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
'Dead letters: messages that failed idem.outbox_max_attempts times. Read the view idem_dead_letters; idem_outbox_retry and idem_outbox_discard take them out.';
COMMENT ON COLUMN idem_outbox_parked.id IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.parked_at IS 'When it was parked.';
COMMENT ON COLUMN idem_outbox_parked.returned_by IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.failures IS 'How often it was given out without success.';
COMMENT ON COLUMN idem_outbox_parked.cause IS 'How the last attempt ended: nacked, or lapsed (nobody answered before the lease ran out).';
COMMENT ON COLUMN idem_outbox_parked.topic IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.key IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.payload IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.headers IS 'As in idem_outbox.';

-- Leases are not: after a restore the messages are given out again.
SELECT pg_catalog.pg_extension_config_dump('idem_outbox', '');
SELECT pg_catalog.pg_extension_config_dump('idem_outbox_parked', '');

CREATE FUNCTION idem_publish(topic text, payload jsonb, key text DEFAULT NULL, headers jsonb DEFAULT NULL, delay interval DEFAULT NULL,
                             dedup_id text DEFAULT NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_publish(text, jsonb, text, jsonb, interval, text) IS
'Puts a message into the outbox, in this transaction: it is there for relays when the transaction commits, and never was when it rolls back. Returns its id, a number of idem_next_id.
key: messages of the topic with the same key are given out in the order of their ids, the next one only when the one before is done with. delay: the message is not given out before that time has passed, counted from the call, and neither are later ones of its key.
dedup_id: if a message of the topic with this dedup_id was published before, and that has committed, publishes nothing and returns that message''s id. It is the claim of the key idem_key(topic, dedup_id) in scope ''outbox'', whose ttl says for how long, and whose response is the id; NULL is returned when that response was removed. Waits for a transaction that publishes the same dedup_id.
Commit wakes relays by NOTIFY idem_outbox with the topic, unless idem.outbox_notify is off. A transaction that publishes cannot be prepared (0A000: NOTIFY), unless idem.outbox_notify is off in it; the same is true of idem_outbox_retry, and of idem_outbox_nack without a rest.
Errors: 22004 topic or payload is null; 22023 topic empty or over 255 bytes, key empty or over 1024 bytes, delay negative or infinite, dedup_id empty or, with the topic, over 1024 bytes; 25006 in a read-only transaction; with dedup_id also those of idem_claim.';

CREATE FUNCTION idem_publish_many(topic text, messages jsonb)
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_publish_many(text, jsonb) IS
'Publishes many messages of a topic at once, as idem_publish does one, in their order, with one NOTIFY. Returns their ids, in the same order.
messages: an array of objects with the members payload (required; any JSON value), key, headers, delay (a string, such as "5 min"), dedup_id. The same dedup_id twice in one call is one message, the first.
Errors: 22004 topic or messages is null; 22023 messages is not such an array, and as idem_publish; 22007 a delay that is no interval; nothing is published then.';

CREATE FUNCTION idem_outbox_take(topic text, max_messages integer DEFAULT 100, lease interval DEFAULT '30 s', OUT id bigint, OUT topic text,
                                 OUT key text, OUT payload jsonb, OUT headers jsonb, OUT attempt integer, OUT fence bigint)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION idem_outbox_take(text, integer, interval) IS
'Gives out up to max_messages of the topic''s messages, oldest first, for as long as lease says (counted from now): until then nobody else gets them, and idem_outbox_ack or idem_outbox_nack with this fence say what became of them. Commit, and they are yours. attempt is 1 the first time.
Of each key at most one message, and none while another one of that key is out, or is waiting for its next attempt. Messages of leases that ran out are taken back first: that counts as a failure. Never waits for another transaction''s end; sees what has committed by now, in every isolation level; when there is nothing to give out or to take back, writes nothing.
NULL is the default of max_messages and lease.
Errors: 22004 topic is null; 22023 topic empty or over 255 bytes, max_messages not from 1 to 10000, lease not positive or over idem.max_lease; 25006 in a read-only transaction.';

CREATE FUNCTION idem_outbox_ack(ids bigint[], fence bigint)
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_ack(bigint[], bigint) IS
'The messages were delivered: deletes those that idem_outbox_take gave out with this fence, and returns how many. Less than were asked for: the others were acknowledged or given back before, are of another batch, or the lease ran out and another relay has taken them back. A lease that ran out but was not taken back still acknowledges.
Waits for another transaction that acknowledges messages of the same batch. Errors: 22004 ids, one of them, or fence is null; 25006 in a read-only transaction; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_outbox_nack(ids bigint[], fence bigint, retry_after interval DEFAULT NULL)
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_nack(bigint[], bigint, interval) IS
'The messages could not be delivered: gives them back, and returns how many. They count as failed once more and are given out again after retry_after (0: at once; NULL: 1 s, twice as much with each failure, at most 5 min); with idem.outbox_max_attempts failures they are parked, and no longer hold up their key.
Errors: 22004 ids, one of them, or fence is null; 22023 retry_after negative or infinite; the others as idem_outbox_ack.';

CREATE FUNCTION idem_outbox_renew(ids bigint[], fence bigint, lease interval)
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_renew(bigint[], bigint, interval) IS
'The relay needs more time: keeps those of the messages that idem_outbox_take gave out with this fence, and that are neither acknowledged nor given back, for as long as lease says (counted from now), and returns how many. The other messages of the batch keep the end of their lease. A lease that ran out but was not taken back is renewed, too.
Waits for another transaction that acknowledges messages of the same batch. Errors: 22004 ids, one of them, fence or lease is null; 22023 lease not positive, or over idem.max_lease; 25006 in a read-only transaction; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_outbox_retry(ids bigint[])
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_retry(bigint[]) IS
'Puts dead letters back into the outbox, as if they had never failed, and returns how many. They keep their ids: they come before later messages of their key that are still there. Operators. Errors: 22004 ids or one of them is null; 25006 in a read-only transaction.';

CREATE FUNCTION idem_outbox_discard(ids bigint[])
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_discard(bigint[]) IS
'Deletes dead letters, and returns how many. Operators. Errors: as idem_outbox_retry.';

-- The bodies are parsed here and now, so their names are those of this schema, whatever the schema's name.
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
'What waits in the outbox, by topic: messages that can be given out (some may wait for one before them of their key), those whose delay or rest after a failure is not over, those that relays have, dead letters, and when the oldest message that is no dead letter was published. Reads the whole outbox: for dashboards, once a minute. Operators.';

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
'Messages that failed idem.outbox_max_attempts times: they are given out no more, until idem_outbox_retry, and hold nothing up. Operators.';
COMMENT ON COLUMN idem_dead_letters.id IS 'What idem_outbox_retry and idem_outbox_discard take.';
COMMENT ON COLUMN idem_dead_letters.topic IS 'The topic.';
COMMENT ON COLUMN idem_dead_letters.key IS 'The key, if it has one.';
COMMENT ON COLUMN idem_dead_letters.payload IS 'The message.';
COMMENT ON COLUMN idem_dead_letters.headers IS 'Further fields of the publisher''s.';
COMMENT ON COLUMN idem_dead_letters.attempts IS 'How often it was given out.';
COMMENT ON COLUMN idem_dead_letters.cause IS 'How the last attempt ended: nacked, or lapsed (nobody answered before the lease ran out).';
COMMENT ON COLUMN idem_dead_letters.published_at IS 'When it was published, by its id.';
COMMENT ON COLUMN idem_dead_letters.parked_at IS 'When it was parked.';
