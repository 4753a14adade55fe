--- schema.sql
CREATE FUNCTION claim_once(new_key text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO raw_keys (scope, key, expires_at)
    VALUES ('', new_key, now() + interval '24 hours')
    ON CONFLICT (scope, key) DO NOTHING;
    RETURN FOUND;
END
$$;

-- The INSERT needs no ON CONFLICT, for everybody takes the lock first.
CREATE FUNCTION claim_under_lock(new_key text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(new_key, 0));
    PERFORM 1 FROM raw_keys WHERE scope = '' AND key = new_key;
    IF FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO raw_keys (scope, key, expires_at) VALUES ('', new_key, now() + interval '24 hours');
    RETURN true;
END
$$;

--- advisory_lock.sql
-- Callers of one key queue up before they read. Two keys of one hash wait for each other, and that is all.
SELECT claim_under_lock(:key);

--- idem_claim.sql
SELECT idem_claim(:key);

--- merge.sql
-- The command tag (MERGE 1 or MERGE 0) is the answer.
MERGE INTO raw_keys AS k USING (VALUES ('', :key::text)) AS c (scope, key) ON k.scope = c.scope AND k.key = c.key
WHEN NOT MATCHED THEN INSERT (scope, key, expires_at) VALUES (c.scope, c.key, now() + interval '24 hours');

--- plpgsql.sql
-- A function of one's own, as teams keep one.
SELECT claim_once(:key);

--- portable.sql
SELECT portable.idem_claim(:key);

--- raw_leanest.sql
INSERT INTO leanest_keys (key) VALUES (:key) ON CONFLICT (key) DO NOTHING;

--- raw_on_conflict.sql
-- The command tag (INSERT 0 1 or INSERT 0 0) is the answer.
INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', :key, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;

--- redis.txt
# Atomic and one round trip, but no part of the transaction that the claim is for: a rollback leaves the key behind.
SET {key} 1 NX EX 86400
