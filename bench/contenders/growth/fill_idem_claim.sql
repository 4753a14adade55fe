-- The keys numbered from `first` to `last`, as they would have come one by one: each in its place among those before it. A batch is at
-- most a tenth of what is there, for a greater one would fill the pages of the index as a sorted table does.
CREATE PROCEDURE pg_temp.fill(first bigint, last bigint) LANGUAGE plpgsql AS $$
DECLARE
    size bigint;
BEGIN
    SET LOCAL synchronous_commit = off;
    WHILE first <= last LOOP
        size := least(last - first + 1, greatest(first / 10, 1000), 1000000);
        PERFORM count(*) FROM idem_claim_many(
            (SELECT array_agg(md5(n::text)::uuid::text) FROM generate_series(first, first + size - 1) AS n));
        COMMIT;
        first := first + size;
    END LOOP;
END
$$;
CALL pg_temp.fill(:first, :last);
