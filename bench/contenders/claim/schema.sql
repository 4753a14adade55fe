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
