-- As fill_idem_claim.sql does it: the batches are sorted.
CREATE PROCEDURE pg_temp.fill(first bigint, last bigint) LANGUAGE plpgsql AS $$
DECLARE
    size bigint;
BEGIN
    SET LOCAL synchronous_commit = off;
    WHILE first <= last LOOP
        size := least(last - first + 1, greatest(first / 10, 1000), 1000000);
        INSERT INTO raw_keys (scope, key, expires_at)
        SELECT '', md5(n::text)::uuid::text COLLATE "C" AS key, now() + interval '24 hours'
        FROM generate_series(first, first + size - 1) AS n
        ORDER BY key;
        COMMIT;
        first := first + size;
    END LOOP;
END
$$;
CALL pg_temp.fill(:first, :last);
