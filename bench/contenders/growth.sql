--- fill_idem_claim.sql
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

--- fill_raw_on_conflict.sql
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

--- idem_claim.sql
SELECT idem_claim(md5(:n)::uuid::text);

--- idem_lookup.sql
-- \gset fails when there is no row.
SELECT status_code, response FROM idem_lookup(md5(:n)::uuid::text) \gset

--- raw_on_conflict.sql
INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', md5(:n)::uuid::text, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;

--- raw_select.sql
-- \gset fails when there is no row.
SELECT status_code, response FROM raw_keys
WHERE scope = '' AND key = md5(:n)::uuid::text AND expires_at > now() \gset
