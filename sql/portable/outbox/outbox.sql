-- The outbox. Tables, leases and fences mean what extension/src/outbox/outbox.hpp says, but a lease is invisible until its transaction commits.
--
-- Messages. A take locks the rows of the messages that it gives out; other takes skip locked rows. Then it chooses again with a new snapshot. A row
-- that could be locked is in nobody's uncommitted lease, and the new snapshot sees all committed ones. If a locked message is not chosen again, the
-- take gives its locks back, which a subtransaction holds, and starts over.
--
-- Keys. Another message of the key may be out in a transaction whose rows are invisible. Rows cannot tell that without waiting. A take therefore
-- locks the hash of each key of which it gives out a message, until its transaction ends, and leaves out keys that it cannot lock. These locks can
-- only keep messages back: the rows decide which lease holds a message.
--
-- Snapshots. REPEATABLE READ and SERIALIZABLE have no new snapshot. A take then gives out messages only if no transaction has committed since its
-- snapshot was taken, and raises 40001 otherwise.
--
-- Only a transaction that has locked a lease's row, in an earlier statement, changes messages that the lease holds.

-- --- Arguments ------------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION _idem_outbox_topic(topic text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _idem_check_name(topic, 'topic', 'topic', 'topic', 255);
    RETURN topic;
END
$$;

-- In one dimension, from 1 on.
CREATE FUNCTION _idem_outbox_ids(ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    IF ids IS NULL THEN
        PERFORM _idem_null('ids');
    END IF;
    IF array_ndims(ids) > 1 OR array_lower(ids, 1) <> 1 THEN
        ids := ARRAY(SELECT unnest(ids));
    END IF;
    IF array_position(ids, NULL) IS NOT NULL THEN
        PERFORM _idem_null('id');
    END IF;
    RETURN ids;
END
$$;

-- When a delay from now on is over; NULL: there is none. Called once to check the delay, and once where it begins: within the INSERT, which has waited then.
CREATE FUNCTION _idem_outbox_due(delay interval) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    span interval := _idem_span(delay, 'delay');
BEGIN
    IF span < interval '0' THEN
        PERFORM _idem_invalid('delay must not be negative');
    END IF;
    RETURN CASE WHEN span > interval '0' THEN _idem_deadline(clock_timestamp(), span, 'delay') END;
END
$$;

CREATE FUNCTION _idem_outbox_dedup_key(topic text, dedup_id text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    key text := _idem_pair(topic, dedup_id);
BEGIN
    IF dedup_id = '' THEN
        PERFORM _idem_invalid('dedup_id must not be empty');
    END IF;
    PERFORM _idem_check_key(key, 'topic with dedup_id');
    RETURN key;
END
$$;

-- A value that the C edition would not let anybody set has no effect, as if it had been set before that edition was loaded.
CREATE FUNCTION _idem_outbox_max_attempts() RETURNS integer LANGUAGE plpgsql STABLE AS $$
DECLARE
    most integer := _idem_setting('outbox_max_attempts', '16')::integer;
BEGIN
    IF most < 1 THEN
        RAISE WARNING USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('%s is outside the valid range for parameter "idem.outbox_max_attempts" (1 .. 2147483647)', most);
        RETURN 16;
    END IF;
    RETURN most;
END
$$;

-- Wakes relays when this transaction commits.
CREATE FUNCTION _idem_outbox_wake(topic text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _idem_setting('outbox_notify', 'on')::boolean THEN
        PERFORM pg_notify('idem_outbox', topic);
    END IF;
END
$$;

-- --- Publishing -----------------------------------------------------------------------------------------------------------------------

-- The id that a claim of a dedup_id has as its response; NULL: it was removed.
CREATE FUNCTION _idem_outbox_stored_id(response jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(response) = 'number' THEN (response #>> '{}')::numeric::bigint END
$$;

CREATE FUNCTION idem_publish LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    dedup text COLLATE "C";
    stored jsonb;
    fresh bigint;
BEGIN
    IF $1 IS NULL OR octet_length($1) NOT BETWEEN 1 AND 255 THEN
        PERFORM _idem_outbox_topic($1);
    ELSIF $2 IS NULL THEN
        PERFORM _idem_null('payload');
    ELSIF octet_length($3) NOT BETWEEN 1 AND 1024 THEN
        PERFORM _idem_check_key($3);
    END IF;
    IF $5 IS NOT NULL THEN
        PERFORM _idem_outbox_due($5);
    END IF;
    IF $6 IS NOT NULL THEN
        dedup := _idem_outbox_dedup_key($1, $6);
    END IF;
    IF current_setting('transaction_read_only')::boolean THEN
        PERFORM _idem_require_writable('idem_publish()');
    END IF;
    IF dedup IS NOT NULL AND _idem_claim_outcome('idem_publish()', dedup, NULL, 'outbox', true) = 'completed' THEN
        SELECT k.response INTO stored FROM ONLY idem_keys k WHERE k.scope = 'outbox' AND k.key = dedup;
        RETURN _idem_outbox_stored_id(stored);
    END IF;
    fresh := idem_next_id();
    INSERT INTO idem_outbox (id, due_at, topic, key, payload, headers)
    VALUES (fresh, CASE WHEN $5 IS NOT NULL THEN _idem_outbox_due($5) END, $1, $3, $2, $4);
    PERFORM _idem_outbox_wake($1);
    IF dedup IS NOT NULL THEN
        PERFORM _idem_complete('idem_publish()', p.scope, p.max_response_size, dedup, to_jsonb(fresh), NULL, NULL, NULL)
           FROM _idem_policy('outbox') AS p;
    END IF;
    RETURN fresh;
END
$$;

CREATE FUNCTION _idem_outbox_malformed(number bigint, detail text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _idem_invalid('messages are malformed', CASE WHEN number = 0 THEN detail ELSE format('Message %s %s.', number, detail) END,
        'Give an array of objects, such as ''[{"payload": {"order": 7}, "key": "7", "headers": {}, "delay": "5 min", "dedup_id": "paid-7"}]'';'
        ' only payload is required.');
END
$$;

CREATE FUNCTION idem_publish_many LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    total   integer;
    ids     bigint[];
    delays  interval[];
    numbers integer[] := '{}'; -- of the messages with a dedup_id
    dedups  text[] COLLATE "C" := '{}'; -- their claims' keys
    granted text[] COLLATE "C" := '{}'; -- those of them that are new
    waits   boolean[]; -- for the id of an earlier message
    number  bigint; -- of the message before the member
    is_full boolean; -- whether that has a payload
    member  record;
    dedup   record;
BEGIN
    IF $1 IS NULL OR octet_length($1) NOT BETWEEN 1 AND 255 THEN
        PERFORM _idem_outbox_topic($1);
    ELSIF $2 IS NULL THEN
        PERFORM _idem_null('messages');
    ELSIF jsonb_typeof($2) <> 'array' THEN
        PERFORM _idem_outbox_malformed(0, 'They are not an array.');
    END IF;
    total := jsonb_array_length($2);
    FOR member IN SELECT e.number, jsonb_typeof(e.message) = 'object' AS is_object, e.message ? 'payload' AS has_payload,
                         m.name, jsonb_typeof(m.value) AS kind, CASE WHEN m.name IN ('key', 'delay', 'dedup_id') THEN m.value #>> '{}' END AS value
                    FROM jsonb_array_elements($2) WITH ORDINALITY AS e (message, number)
                    LEFT JOIN LATERAL jsonb_each(CASE WHEN jsonb_typeof(e.message) = 'object' THEN e.message ELSE '{}' END)
                         WITH ORDINALITY AS m (name, value, place) ON true
                   ORDER BY e.number, m.place LOOP
        IF number < member.number AND NOT is_full THEN
            PERFORM _idem_outbox_malformed(number, 'has no payload');
        END IF;
        number := member.number;
        is_full := member.has_payload;
        IF NOT member.is_object THEN
            PERFORM _idem_outbox_malformed(member.number, 'is not an object');
        ELSIF member.name NOT IN ('payload', 'key', 'headers', 'delay', 'dedup_id') THEN
            PERFORM _idem_outbox_malformed(member.number, format('has a member "%s"', member.name));
        ELSIF member.name IN ('key', 'delay', 'dedup_id') AND member.kind <> 'null' THEN
            IF member.kind <> 'string' THEN
                PERFORM _idem_outbox_malformed(member.number, format('has a "%s" that is not a string', member.name));
            ELSIF member.name = 'key' THEN
                PERFORM _idem_check_key(member.value);
            ELSIF member.name = 'delay' THEN
                delays[member.number] := member.value;
                PERFORM _idem_outbox_due(delays[member.number]);
            ELSE
                numbers := numbers || member.number::integer;
                dedups := dedups || _idem_outbox_dedup_key($1, member.value);
            END IF;
        END IF;
    END LOOP;
    IF NOT is_full THEN
        PERFORM _idem_outbox_malformed(number, 'has no payload');
    END IF;
    PERFORM _idem_require_writable('idem_publish_many()');

    waits := array_fill(false, ARRAY[total]);
    IF dedups <> '{}' THEN
        granted := ARRAY(SELECT idem_claim_many(dedups, NULL, 'outbox'));
        FOR dedup IN SELECT d.number FROM (SELECT u.number, u.key, min(u.number) OVER (PARTITION BY u.key COLLATE "C") AS first
                                             FROM unnest(numbers, dedups) AS u (number, key)) d
                      WHERE d.number > d.first OR d.key COLLATE "C" NOT IN (SELECT g.key COLLATE "C" FROM unnest(granted) AS g (key)) LOOP
            waits[dedup.number] := true;
        END LOOP;
    END IF;
    ids := array_fill(NULL::bigint, ARRAY[total]);
    FOR i IN 1..total LOOP
        IF NOT waits[i] THEN
            ids[i] := idem_next_id();
        END IF;
    END LOOP;
    INSERT INTO idem_outbox (id, due_at, topic, key, payload, headers)
    SELECT ids[e.number], CASE WHEN delays[e.number] IS NOT NULL THEN _idem_outbox_due(delays[e.number]) END, $1, e.message ->> 'key', e.message -> 'payload', nullif(e.message -> 'headers', 'null')
      FROM jsonb_array_elements($2) WITH ORDINALITY AS e (message, number)
     WHERE ids[e.number] IS NOT NULL;
    IF FOUND THEN
        PERFORM _idem_outbox_wake($1);
    END IF;
    IF dedups <> '{}' THEN
        FOR dedup IN SELECT d.number, d.first, k.response
                       FROM (SELECT u.number, u.key, min(u.number) OVER (PARTITION BY u.key COLLATE "C") AS first
                               FROM unnest(numbers, dedups) AS u (number, key)) d
                       LEFT JOIN ONLY idem_keys k ON k.scope = 'outbox' AND k.key = d.key COLLATE "C"
                      WHERE waits[d.number] LOOP
            ids[dedup.number] := CASE WHEN waits[dedup.first] THEN _idem_outbox_stored_id(dedup.response) ELSE ids[dedup.first] END;
        END LOOP;
        PERFORM _idem_complete('idem_publish_many()', p.scope, p.max_response_size, u.key, to_jsonb(ids[u.number]), NULL, NULL, NULL)
           FROM unnest(numbers, dedups) AS u (number, key), _idem_policy('outbox') AS p
          WHERE NOT waits[u.number];
    END IF;
    RETURN ids;
END
$$;

-- --- Taking ---------------------------------------------------------------------------------------------------------------------------

-- Records that the lease with this fence did not deliver the messages. Those that it holds are due again after `rest` (NULL: a rest that grows with
-- the failures), or parked. Returns their number. REQUIRES: an earlier statement has locked the lease's row.
CREATE FUNCTION _idem_outbox_return(wanted text, ids bigint[], given bigint, rest interval, cause text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    most        integer := _idem_outbox_max_attempts();
    now         timestamptz;
    least_id    bigint;
    greatest_id bigint;
    count       integer;
BEGIN
    LOCK TABLE ONLY idem_outbox IN ROW EXCLUSIVE MODE; -- as the UPDATE does, which then waits for no CREATE INDEX
    now := clock_timestamp();
    SELECT min(u.id), max(u.id) INTO least_id, greatest_id FROM unnest($2) AS u (id);
    WITH returned AS (
        UPDATE ONLY idem_outbox m
           SET returned_by = given, failures = m.failures + 1,
               due_at = CASE WHEN rest IS NULL THEN now + least(2 ^ greatest(least(m.failures, 20), 0), 300) * interval '1 s'
                             WHEN rest > interval '0' THEN _idem_deadline(now, rest, 'retry_after') END
         WHERE m.topic = wanted COLLATE "C" AND m.id BETWEEN least_id AND greatest_id AND m.id = ANY (ids)
           AND coalesce(m.returned_by, 0) < given AND m.failures < most - 1
        RETURNING m.id
    ), removed AS (
        DELETE FROM ONLY idem_outbox m
         WHERE m.topic = wanted COLLATE "C" AND m.id BETWEEN least_id AND greatest_id AND m.id = ANY (ids)
           AND coalesce(m.returned_by, 0) < given AND m.failures >= most - 1
        RETURNING m.*
    ), parked AS (
        INSERT INTO idem_outbox_parked (id, parked_at, returned_by, failures, cause, topic, key, payload, headers)
        SELECT r.id, now, given, least(r.failures::bigint + 1, 2147483647), $5, r.topic, r.key, r.payload, r.headers FROM removed r
    )
    SELECT (SELECT count(*) FROM returned) + (SELECT count(*) FROM removed) INTO count;
    RETURN count;
END
$$;

-- Ends leases that ran out, and returns the messages that they hold, about 10,000 at most. Skips leases that another transaction has locked.
CREATE FUNCTION _idem_outbox_lapse(wanted text, now timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    expired idem_outbox_leases[];
    lease   idem_outbox_leases;
BEGIN
    -- OFFSET 0: an index in the order of the window would read the leases of all topics. The topic, twice: so that each index that fits a lease of the
    -- join is a short way to it, whatever statistics say.
    SELECT array_agg(x.lease) INTO expired FROM (
        SELECT l AS lease
          FROM (SELECT d.fence, d.part, sum(cardinality(d.ids)) OVER (ORDER BY d.fence, d.part) - cardinality(d.ids) AS earlier
                  FROM (SELECT t.fence, t.part, t.ids FROM ONLY idem_outbox_leases t WHERE t.topic = wanted COLLATE "C" AND t.lease_until <= now OFFSET 0) d) e
          JOIN ONLY idem_outbox_leases l ON l.topic = wanted COLLATE "C" AND l.fence = e.fence AND l.part = e.part AND l.lease_until <= now
         WHERE e.earlier < 10000
           FOR UPDATE OF l SKIP LOCKED) x;
    IF expired IS NOT NULL THEN
        FOREACH lease IN ARRAY expired LOOP
            PERFORM _idem_outbox_return(wanted, lease.ids, lease.fence, '0', 'lapsed');
            DELETE FROM ONLY idem_outbox_leases l WHERE l.fence = lease.fence AND l.part = lease.part;
        END LOOP;
    END IF;
END
$$;

-- As in leases; 0: no key.
CREATE FUNCTION _idem_outbox_key_hash(key text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN key IS NULL THEN 0 ELSE coalesce(nullif(hashtextextended(key, 0), 0), 1) END
$$;

-- The messages that can be given out, and the hashes of their keys. It reads the topic's oldest messages with ids up to `last`: as many as leases list,
-- and `reach` more. is_all: there are no others. It is one statement, as leases and messages must be of one snapshot. It groups where it could join,
-- because plans may be older than the messages.
CREATE FUNCTION _idem_outbox_choose(wanted text, now timestamptz, reach bigint, last bigint,
                                    OUT ids bigint[], OUT key_hashes bigint[], OUT is_all boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    WITH listed AS MATERIALIZED (
        SELECT u.id, u.key_hash, max(l.fence) AS fence
          FROM ONLY idem_outbox_leases l, unnest(l.ids, l.key_hashes) AS u (id, key_hash)
         WHERE l.topic = wanted COLLATE "C"
         GROUP BY u.id, u.key_hash
    ), head AS MATERIALIZED (
        SELECT m.id, m.due_at, coalesce(m.returned_by, 0) AS returned_by, _idem_outbox_key_hash(m.key) AS key_hash
          FROM ONLY idem_outbox m
         WHERE m.topic = wanted COLLATE "C" AND m.id <= last
         ORDER BY m.id LIMIT reach + (SELECT count(*) FROM listed)
    ), first AS (
        SELECT * FROM head h WHERE h.key_hash = 0
        UNION ALL
        SELECT * FROM (SELECT DISTINCT ON (h.key_hash) * FROM head h WHERE h.key_hash <> 0 ORDER BY h.key_hash, h.id) k
    ), free AS MATERIALIZED (
        SELECT x.id, max(x.key_hash) AS key_hash
          FROM (SELECT f.id, f.due_at, f.returned_by, f.key_hash, NULL AS fence FROM first f
                UNION ALL
                SELECT l.id, NULL, NULL, NULL, l.fence FROM listed l) x
         GROUP BY x.id
        HAVING max(x.returned_by) >= coalesce(max(x.fence), 0) AND coalesce(max(x.due_at) <= now, true)
    ), later AS MATERIALIZED ( -- listed messages that come after a free one of their key, which was committed late
        SELECT x.id, x.fence, x.free
          FROM (SELECT y.id, y.fence, max(y.free) OVER (PARTITION BY y.key_hash) AS free
                  FROM (SELECT l.key_hash, l.id, l.fence, NULL AS free FROM listed l WHERE l.key_hash <> 0
                        UNION ALL
                        SELECT f.key_hash, NULL, NULL, f.id FROM free f WHERE f.key_hash <> 0) y) x
         WHERE x.id > x.free
    ), late AS (
        SELECT l.free
          FROM later l, LATERAL (SELECT FROM ONLY idem_outbox m
                                  WHERE m.topic = wanted COLLATE "C" AND m.id = l.id AND coalesce(m.returned_by, 0) < l.fence OFFSET 0) m
    )
    SELECT array_agg(f.id ORDER BY f.id), array_agg(f.key_hash ORDER BY f.id),
           (SELECT count(*) FROM head) < reach + (SELECT count(*) FROM listed)
      INTO ids, key_hashes, is_all
      FROM free f WHERE f.id NOT IN (SELECT t.free FROM late t);
END
$$;

-- Those of the messages whose keys can be locked now, with `room` keys at most, and those without a key.
CREATE FUNCTION _idem_outbox_lock_keys(wanted text, room integer, INOUT ids bigint[], INOUT key_hashes bigint[]) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    seed bigint := hashtextextended(wanted, _idem_seed(8111));
BEGIN
    SELECT coalesce(array_agg(x.id), '{}'), coalesce(array_agg(x.key_hash), '{}') INTO ids, key_hashes
      FROM (SELECT u.id, u.key_hash, count(*) FILTER (WHERE u.key_hash <> 0) OVER (ORDER BY u.place) AS nth
              FROM unnest($3, $4) WITH ORDINALITY AS u (id, key_hash, place)) x
     WHERE x.key_hash = 0 OR x.nth <= room AND pg_try_advisory_xact_lock(hashint8extended(x.key_hash, seed));
END
$$;

-- Inserts a batch in parts of 400 messages, and returns its fence and the (sub)transaction that inserted it. The fence is greater than `last`, and no
-- other batch has it. An uncommitted batch could have it, for whose end the insertion would wait: the lock on the fence's hash tells.
CREATE FUNCTION _idem_outbox_insert_leases(wanted text, batch_ids bigint[], batch_hashes bigint[], last bigint, span interval,
                                           OUT given bigint, OUT version xid)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    parts integer := (cardinality(batch_ids) + 399) / 400;
    added integer;
BEGIN
    given := last;
    LOOP
        given := _idem_next_fence(given);
        IF pg_try_advisory_xact_lock(hashint8extended(given, _idem_seed(8112)))
           AND NOT EXISTS (SELECT FROM ONLY idem_outbox_leases l WHERE l.fence = given) THEN
            WITH added AS (
                INSERT INTO idem_outbox_leases (fence, lease_until, part, topic, ids, key_hashes)
                SELECT given, _idem_deadline(clock_timestamp(), span, 'lease'), p.part, wanted,
                       batch_ids[p.part + 1 : p.part + 400], batch_hashes[p.part + 1 : p.part + 400]
                  FROM generate_series(0, cardinality(batch_ids) - 1, 400) AS p (part)
                ON CONFLICT (fence, part) DO NOTHING RETURNING xmin)
            SELECT count(*), min(a.xmin::text)::xid INTO added, version FROM added a;
            IF added = parts THEN
                RETURN;
            ELSIF added > 0 THEN
                RAISE SQLSTATE 'ID0TT';
            END IF;
        END IF;
    END LOOP;
END
$$;

-- 40001 if a transaction has committed since this one's snapshot was taken; otherwise the snapshot shows the present. `version`: a subtransaction
-- that began after all locks were taken.
CREATE FUNCTION _idem_outbox_require_present(version xid) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known pg_snapshot := pg_current_snapshot();
    next  bigint := pg_snapshot_xmax(known)::text::bigint;
    own   bigint := pg_current_xact_id()::text::bigint;
    until bigint := (own >> 32 << 32) | version::text::bigint;
BEGIN
    IF until < own THEN
        until := until + 4294967296;
    END IF;
    IF until - next > 10000
       OR EXISTS (SELECT FROM pg_snapshot_xip(known) AS x (number) WHERE pg_xact_status(x.number) = 'committed')
       OR EXISTS (SELECT FROM generate_series(next, until - 1) AS x (number) WHERE pg_xact_status(x.number::text::xid8) = 'committed') THEN
        RAISE serialization_failure USING MESSAGE = 'could not serialize access due to concurrent update',
            DETAIL = 'A transaction has committed since this one''s snapshot was taken, and may have taken the same messages.',
            HINT = 'Retry the transaction, or take messages in a READ COMMITTED transaction.';
    END IF;
END
$$;

-- Inserts a batch and returns its fence. Without a new snapshot it does so in a subtransaction, which is younger than all that could have committed.
CREATE FUNCTION _idem_outbox_lease(wanted text, ids bigint[], key_hashes bigint[], last bigint, span interval) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    inserted record;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RETURN (_idem_outbox_insert_leases(wanted, ids, key_hashes, last, span)).given;
    END IF;
    BEGIN
        inserted := _idem_outbox_insert_leases(wanted, ids, key_hashes, last, span);
    EXCEPTION WHEN SQLSTATE 'ID0TT' THEN
        RAISE;
    END;
    PERFORM _idem_outbox_require_present(inserted.version);
    RETURN inserted.given;
END
$$;

-- Up to 128 keys are locked singly, under a shared lock on the topic; for more, the topic alone. The server has room for some thousand locks.
CREATE FUNCTION _idem_outbox_take(asked text, max_messages integer, lease interval)
RETURNS TABLE (message bigint, of_topic text, of_key text, body jsonb, extra jsonb, nth integer, given bigint) LANGUAGE plpgsql VOLATILE ROWS 100 ENTRY AS $$
#variable_conflict use_column
DECLARE
    wanted     text COLLATE "C" := asked;
    most       integer := coalesce(max_messages, 100);
    span       interval;
    now        timestamptz;
    reach      bigint;
    chosen     record;
    tried      integer;
    room       integer; -- for keys
    is_wide    boolean; -- whether the topic is locked for all keys
    slice      bigint[];
    slice_keys bigint[];
    returned   bigint;
    got        bigint[];
    got_keys   bigint[];
    last       bigint; -- the greatest fence that returned one of them
    batch      bigint;
BEGIN
    IF wanted IS NULL OR octet_length(wanted) NOT BETWEEN 1 AND 255 THEN
        PERFORM _idem_outbox_topic(wanted);
    ELSIF most NOT BETWEEN 1 AND 10000 THEN
        PERFORM _idem_invalid(format('max_messages must be from 1 to %s', 10000));
    END IF;
    span := CASE WHEN lease IS NULL THEN _idem_default_lease() ELSE _idem_lease(lease, 'lease') END;
    PERFORM _idem_require_writable('idem_outbox_take()');
    now := clock_timestamp();
    PERFORM _idem_outbox_lapse(wanted, now);
    reach := most * 2 + 100;
    LOOP
        BEGIN
            LOOP
                chosen := _idem_outbox_choose(wanted, now, reach, 9223372036854775807);
                EXIT WHEN chosen.is_all OR cardinality(chosen.ids) >= most;
                reach := reach * 4;
            END LOOP;
            got := '{}';
            got_keys := '{}';
            last := 0;
            tried := 0;
            room := 128;
            is_wide := false;
            IF 0 <> ANY (chosen.key_hashes) THEN
                is_wide := most > 128 AND (SELECT count(*) > 128 FROM unnest(chosen.key_hashes[:most]) AS u (hash) WHERE u.hash <> 0)
                           AND pg_try_advisory_xact_lock(hashtextextended(wanted, _idem_seed(8110)));
                room := CASE WHEN is_wide OR pg_try_advisory_xact_lock_shared(hashtextextended(wanted, _idem_seed(8110))) THEN 128 ELSE 0 END;
            END IF;
            WHILE tried < cardinality(chosen.ids) AND cardinality(got) < most LOOP
                slice := chosen.ids[tried + 1 : tried + most - cardinality(got)];
                slice_keys := chosen.key_hashes[tried + 1 : tried + most - cardinality(got)];
                tried := tried + cardinality(slice);
                IF NOT is_wide AND 0 <> ANY (slice_keys) THEN
                    SELECT k.ids, k.key_hashes INTO slice, slice_keys FROM _idem_outbox_lock_keys(wanted, room, slice, slice_keys) AS k;
                    room := room - (SELECT count(*) FROM unnest(slice_keys) AS u (hash) WHERE u.hash <> 0);
                END IF;
                SELECT array_agg(x.id ORDER BY x.id), array_agg(x.key_hash ORDER BY x.id), max(x.returned_by) INTO slice, slice_keys, returned
                  FROM unnest(slice) AS u (id),
                       LATERAL (SELECT m.id, m.returned_by, _idem_outbox_key_hash(m.key) AS key_hash FROM ONLY idem_outbox m
                                 WHERE m.topic = wanted AND m.id = u.id AND (m.due_at IS NULL OR m.due_at <= now) FOR UPDATE SKIP LOCKED) x;
                got := got || slice;
                got_keys := got_keys || slice_keys;
                last := greatest(last, returned);
            END LOOP;
            IF cardinality(got) < most AND NOT chosen.is_all AND (room > 0 OR reach < 10000) THEN
                reach := reach * 4;
                RAISE SQLSTATE 'ID0TT';
            END IF;
            IF got = '{}' THEN
                RETURN;
            END IF;
            chosen := _idem_outbox_choose(wanted, now, 1000000000000, got[cardinality(got)]);
            IF EXISTS (SELECT FROM unnest(got) AS u (id) WHERE u.id NOT IN (SELECT unnest(chosen.ids))) THEN
                RAISE SQLSTATE 'ID0TT';
            END IF;
            batch := _idem_outbox_lease(wanted, got, got_keys, last, span);
            EXIT;
        EXCEPTION WHEN SQLSTATE 'ID0TT' THEN -- gives the locks back
            NULL;
        END;
    END LOOP;
    RETURN QUERY SELECT m.id, m.topic, m.key, m.payload, m.headers, least(m.failures::bigint + 1, 2147483647)::integer, batch
                   FROM unnest(got) AS u (id), LATERAL (SELECT * FROM ONLY idem_outbox m WHERE m.topic = wanted AND m.id = u.id OFFSET 0) m
                  ORDER BY u.id;
END
$$;

-- In SQL, because PL/pgSQL has no two arguments named topic. Statistics may be from when the outbox was empty. Plans that read by the index are good
-- at all times and for all arguments. The generic plan is kept, because planning costs more than a take.
CREATE FUNCTION idem_outbox_take LANGUAGE sql SECURITY DEFINER
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan BOUND
BEGIN ATOMIC
    SELECT * FROM _idem_outbox_take($1, $2, $3);
END;

-- --- What the relay does with a batch. The fence decides. ------------------------------------------------------------------------------

-- The first part of the batch with this fence that is not before part `start` and lists any of the messages, locked. Waits for other transactions that
-- settle or renew it. NULL: there is none.
CREATE FUNCTION _idem_outbox_part(given bigint, asked bigint[], start integer) RETURNS idem_outbox_leases LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    lease idem_outbox_leases;
BEGIN
    LOOP
        SELECT l.* INTO lease FROM ONLY idem_outbox_leases l
         WHERE l.fence = given
           AND l.part = (SELECT p.part FROM ONLY idem_outbox_leases p
                          WHERE p.fence = given AND p.part >= start AND EXISTS (SELECT FROM unnest(p.ids) AS u (id) WHERE u.id = ANY (asked))
                          ORDER BY p.part LIMIT 1)
           FOR UPDATE;
        EXIT WHEN FOUND;
        -- It was ended or renewed meanwhile, if there is one now: a renewal leaves parts from the same number on.
        PERFORM FROM ONLY idem_outbox_leases p
          WHERE p.fence = given AND p.part >= start AND EXISTS (SELECT FROM unnest(p.ids) AS u (id) WHERE u.id = ANY (asked));
        EXIT WHEN NOT FOUND;
    END LOOP;
    IF lease.fence IS NULL AND start = 0 AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
       AND given >= extract(epoch FROM transaction_timestamp()) * 1000000
       AND NOT EXISTS (SELECT FROM ONLY idem_outbox_leases l WHERE l.fence = given) THEN
        RAISE serialization_failure USING MESSAGE = 'could not serialize access due to concurrent update',
            DETAIL = 'The messages were taken after this transaction began, so it cannot see their lease.', HINT = 'Retry the transaction.';
    END IF;
    RETURN lease;
END
$$;

-- Locks the parts of the batch that list any of the messages, so that what begins in the first one does not wait for the others.
CREATE FUNCTION _idem_outbox_lock_parts(given bigint, asked bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM ONLY idem_outbox_leases l WHERE l.fence = given AND EXISTS (SELECT FROM unnest(l.ids) AS u (id) WHERE u.id = ANY (asked)) ORDER BY l.part FOR UPDATE;
END
$$;

-- Acknowledges those of the messages that the batch holds, or returns them. `settled`: their number.
CREATE FUNCTION _idem_outbox_settle(asked bigint[], given bigint, is_ack boolean, rest interval, OUT settled integer, OUT of_topic text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    lease  idem_outbox_leases;
    start  integer := 0;
    named  bigint[]; -- of the part, those that were asked for
    others bigint[];
    done   integer;
BEGIN
    settled := 0;
    IF NOT is_ack THEN
        PERFORM _idem_outbox_lock_parts(given, asked);
    END IF;
    WHILE settled < cardinality(asked) LOOP
        lease := _idem_outbox_part(given, asked, start);
        EXIT WHEN lease.fence IS NULL;
        start := lease.part + 1;
        of_topic := lease.topic;
        IF asked = lease.ids OR asked[start : start + cardinality(lease.ids) - 1] = lease.ids THEN
            named := lease.ids;
            others := '{}';
        ELSE
            SELECT coalesce(array_agg(x.id) FILTER (WHERE x.is_named), '{}'), coalesce(array_agg(x.id) FILTER (WHERE NOT x.is_named), '{}')
              INTO named, others
              FROM (SELECT u.id, u.id IN (SELECT unnest(asked)) AS is_named FROM unnest(lease.ids) AS u (id)) x;
        END IF;
        IF is_ack THEN
            DELETE FROM ONLY idem_outbox m
             WHERE m.topic = lease.topic AND m.id = ANY (named) AND coalesce(m.returned_by, 0) < given
               AND m.id BETWEEN (SELECT min(u.id) FROM unnest(named) AS u (id)) AND (SELECT max(u.id) FROM unnest(named) AS u (id));
            GET DIAGNOSTICS done = ROW_COUNT;
        ELSE
            done := _idem_outbox_return(lease.topic, named, given, rest, 'nacked');
        END IF;
        settled := settled + done;
        DELETE FROM ONLY idem_outbox_leases l
         WHERE l.fence = given AND l.part = lease.part
           AND NOT EXISTS (SELECT FROM unnest(others) AS u (id),
                                       LATERAL (SELECT FROM ONLY idem_outbox m
                                                 WHERE m.topic = lease.topic AND m.id = u.id AND coalesce(m.returned_by, 0) < given OFFSET 0) m);
    END LOOP;
END
$$;

CREATE FUNCTION idem_outbox_ack LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    asked bigint[] := _idem_outbox_ids(ids);
BEGIN
    IF fence IS NULL THEN
        PERFORM _idem_null('fence');
    END IF;
    PERFORM _idem_require_writable('idem_outbox_ack()');
    RETURN (_idem_outbox_settle(asked, fence, true, NULL)).settled;
END
$$;

CREATE FUNCTION idem_outbox_nack LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    asked bigint[] := _idem_outbox_ids(ids);
    rest  interval;
    done  record;
BEGIN
    IF fence IS NULL THEN
        PERFORM _idem_null('fence');
    END IF;
    IF retry_after IS NOT NULL THEN
        rest := _idem_span(retry_after, 'retry_after');
        IF rest < interval '0' THEN
            PERFORM _idem_invalid('retry_after must not be negative', hint => 'Use ''0'' for at once, NULL for a rest that grows with the failures.');
        END IF;
        PERFORM _idem_deadline(clock_timestamp(), rest, 'retry_after');
    END IF;
    PERFORM _idem_require_writable('idem_outbox_nack()');
    done := _idem_outbox_settle(asked, fence, false, rest);
    IF done.settled > 0 AND rest = interval '0' THEN
        PERFORM _idem_outbox_wake(done.of_topic);
    END IF;
    RETURN done.settled;
END
$$;

-- Replaces a part by two: the messages that are kept longer, and the others that it holds.
CREATE FUNCTION idem_outbox_renew LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    asked       bigint[] := _idem_outbox_ids($1);
    span        interval;
    part        idem_outbox_leases;
    start       integer := 0;
    kept        bigint[];
    kept_keys   bigint[];
    others      bigint[];
    others_keys bigint[];
    renewed     integer := 0;
BEGIN
    IF $2 IS NULL THEN
        PERFORM _idem_null('fence');
    END IF;
    span := CASE WHEN $3 IS NULL THEN _idem_default_lease() ELSE _idem_lease($3, 'lease') END;
    PERFORM _idem_require_writable('idem_outbox_renew()');
    PERFORM _idem_outbox_lock_parts($2, asked);
    WHILE renewed < cardinality(asked) LOOP
        part := _idem_outbox_part($2, asked, start);
        EXIT WHEN part.fence IS NULL;
        start := part.part + 1;
        SELECT array_agg(x.id ORDER BY x.place) FILTER (WHERE x.is_kept),
               array_agg(x.key_hash ORDER BY x.place) FILTER (WHERE x.is_kept),
               array_agg(x.id ORDER BY x.place) FILTER (WHERE NOT x.is_kept),
               array_agg(x.key_hash ORDER BY x.place) FILTER (WHERE NOT x.is_kept)
          INTO kept, kept_keys, others, others_keys
          FROM (SELECT u.*, u.id IN (SELECT unnest(asked)) AS is_kept
                  FROM unnest(part.ids, part.key_hashes) WITH ORDINALITY AS u (id, key_hash, place),
                       LATERAL (SELECT FROM ONLY idem_outbox m
                                 WHERE m.topic = part.topic AND m.id = u.id AND coalesce(m.returned_by, 0) < part.fence OFFSET 0) m) x;
        CONTINUE WHEN kept IS NULL;
        DELETE FROM ONLY idem_outbox_leases l WHERE l.fence = part.fence AND l.part = part.part;
        INSERT INTO idem_outbox_leases (fence, lease_until, part, topic, ids, key_hashes)
        VALUES (part.fence, _idem_deadline(clock_timestamp(), span, 'lease'), part.part, part.topic, kept, kept_keys);
        IF others IS NOT NULL THEN
            INSERT INTO idem_outbox_leases (fence, lease_until, part, topic, ids, key_hashes)
            VALUES (part.fence, part.lease_until, part.part + cardinality(kept), part.topic, others, others_keys);
        END IF;
        renewed := renewed + cardinality(kept);
    END LOOP;
    RETURN renewed;
END
$$;

-- --- Dead letters ---------------------------------------------------------------------------------------------------------------------

-- returned_by goes along, so that an old lease that still lists the message does not hold it.
CREATE FUNCTION idem_outbox_retry LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    asked     bigint[] := _idem_outbox_ids($1);
    published integer;
    topics    text[];
    topic     text;
BEGIN
    PERFORM _idem_require_writable('idem_outbox_retry()');
    WITH removed AS (
        DELETE FROM ONLY idem_outbox_parked p WHERE p.id = ANY (asked) RETURNING p.*
    ), published AS (
        INSERT INTO idem_outbox (id, returned_by, topic, key, payload, headers)
        SELECT r.id, r.returned_by, r.topic, r.key, r.payload, r.headers FROM removed r
    )
    SELECT count(*), coalesce(array_agg(DISTINCT r.topic), '{}') INTO published, topics FROM removed r;
    FOREACH topic IN ARRAY topics LOOP
        PERFORM _idem_outbox_wake(topic);
    END LOOP;
    RETURN published;
END
$$;

CREATE FUNCTION idem_outbox_discard LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    asked     bigint[] := _idem_outbox_ids($1);
    discarded integer;
BEGIN
    PERFORM _idem_require_writable('idem_outbox_discard()');
    DELETE FROM ONLY idem_outbox_parked p WHERE p.id = ANY (asked);
    GET DIAGNOSTICS discarded = ROW_COUNT;
    RETURN discarded;
END
$$;
