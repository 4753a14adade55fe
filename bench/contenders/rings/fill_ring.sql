-- The keys numbered from `first` to `last`, into the open window.
CREATE PROCEDURE pg_temp.fill(first bigint, last bigint) LANGUAGE plpgsql AS $$
DECLARE
    size bigint;
BEGIN
    SET LOCAL synchronous_commit = off;
    WHILE first <= last LOOP
        size := least(last - first + 1, 100000);
        PERFORM count(*) FROM idem_claim_many(
            (SELECT array_agg(md5(n::text)::uuid::text) FROM generate_series(first, first + size - 1) AS n), scope => 'f');
        COMMIT;
        first := first + size;
    END LOOP;
END
$$;
CALL pg_temp.fill(:first, :last);
