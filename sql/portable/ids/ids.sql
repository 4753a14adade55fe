-- Ids are numbers of a sequence that follows the clock: milliseconds since 2024-01-01 times 4096. Where it lags behind, one session moves it
-- ahead, and keeps the others from drawing meanwhile. Both locks end within the expression that takes them, or where its error is caught.
CREATE SEQUENCE idem_ids MINVALUE 0 START 0;
COMMENT ON SEQUENCE idem_ids IS 'The last number of idem_next_id, without the node: milliseconds since 2024-01-01 UTC times 4096, and more if a millisecond was asked for more.';

CREATE FUNCTION idem_next_id LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    lock   CONSTANT bigint := hashtextextended('idem_ids', 'idem_ids'::regclass::oid::bigint);
    node   bigint := _idem_setting('node_id', '0')::integer;
    now    bigint;
    number bigint;
    moves  boolean; -- the sequence ahead, with the lock for it
BEGIN
    PERFORM _idem_require_writable('idem_next_id()');
    IF node NOT BETWEEN 0 AND 1023 THEN
        PERFORM _idem_invalid(format('%s is outside the valid range for parameter "idem.node_id" (0 .. 1023)', node));
    END IF;
    LOOP
        now := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1704067200000;
        BEGIN
            moves := false;
            number := CASE WHEN pg_try_advisory_lock_shared(lock) THEN (ARRAY[nextval('idem_ids'), pg_advisory_unlock_shared(lock)::integer])[1] END;
            IF number < now << 12 THEN
                moves := true;
                number := CASE WHEN pg_try_advisory_lock(lock)
                               THEN (ARRAY[setval('idem_ids', greatest(nextval('idem_ids'), now << 12)), pg_advisory_unlock(lock)::integer])[1] END;
            END IF;
        EXCEPTION WHEN OTHERS OR query_canceled THEN -- a full lock table, or no transaction ids
            PERFORM CASE WHEN moves THEN pg_advisory_unlock(lock) ELSE pg_advisory_unlock_shared(lock) END;
            RAISE;
        END;
        EXIT WHEN number >= 0;
        PERFORM pg_sleep(0.0002);
    END LOOP;
    IF number >> 12 >= 1::bigint << 41 THEN
        RAISE sequence_generator_limit_exceeded USING MESSAGE = 'the ids of idem_next_id are used up';
    END IF;
    RETURN ((number >> 12) << 22) | (node << 12) | (number & 4095);
END
$$;

CREATE FUNCTION idem_id_parts LANGUAGE plpgsql AS $$
BEGIN
    IF id IS NULL THEN
        PERFORM _idem_null('id');
    ELSIF id < 0 THEN
        PERFORM _idem_invalid('id must not be negative');
    END IF;
    at := timestamptz '2024-01-01 00:00:00+00' + (id >> 22) / 1000 * interval '1 s' + (id >> 22) % 1000 * interval '1 ms';
    node := (id >> 12) & 1023;
    seq := id & 4095;
END
$$;

-- The twelve bits behind the milliseconds are their fraction, as RFC 9562 allows (6.2, method 3).
CREATE FUNCTION idem_uuid_v7 LANGUAGE plpgsql AS $$
DECLARE
    micros bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000);
    random bytea := uuid_send(gen_random_uuid());
BEGIN
    RETURN encode(substr(int8send(micros / 1000), 3) || substr(int4send((7 << 12) | (micros % 1000 * 4096 / 1000)::integer), 3) || substr(random, 9), 'hex')::uuid;
END
$$;
