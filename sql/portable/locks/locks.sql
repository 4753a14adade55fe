-- A waiter polls the row, with growing pauses. A call that asserts a fence locks the row FOR KEY SHARE until its transaction ends. A takeover and an
-- unlock lock it FOR UPDATE, and so wait for that end. A renewal does not.

-- When the row of a lock may be deleted: a day after its lease.
CREATE FUNCTION _idem_lock_expiry(now timestamptz, lease interval) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT _idem_deadline(now, least(lease, interval '2000000000 hours') + interval '24 hours', 'ttl')
$$;

-- The scope and its policy, for a call with a lock and its fence.
CREATE FUNCTION _idem_lock_policy(function text, name text, fence bigint, scope text) RETURNS record LANGUAGE plpgsql STABLE AS $$
DECLARE
    policy record;
BEGIN
    PERFORM _idem_check_key(name, 'name');
    IF fence IS NULL THEN
        PERFORM _idem_null('fence');
    END IF;
    policy := _idem_policy(scope);
    PERFORM _idem_require_writable(function);
    RETURN policy;
END
$$;

CREATE FUNCTION idem_lock LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    caller     CONSTANT text := $3;
    policy     record;
    lease      interval;
    wait_until timestamptz;
    stored     idem_locks;
    now        timestamptz;
    is_mine    boolean;
    is_locked  boolean := false;
    is_busy    boolean;
    pause      float8 := 0.002;
BEGIN
    PERFORM _idem_check_key(name, 'name');
    policy := _idem_policy($5);
    wait_until := _idem_wait_until($4);
    lease := CASE WHEN ttl IS NULL THEN policy.lease ELSE _idem_lease(ttl, 'ttl') END;
    PERFORM _idem_deadline(clock_timestamp(), lease, 'ttl');
    PERFORM _idem_require_writable('idem_lock()');
    LOOP
        IF NOT is_locked THEN
            SELECT * INTO stored FROM ONLY idem_locks k WHERE k.scope = policy.scope AND k.key = name COLLATE "C";
        END IF;
        now := clock_timestamp();
        is_mine := coalesce(stored.state = 'p' AND stored.owner = caller COLLATE "C", false);
        is_busy := coalesce(stored.state = 'p' AND stored.lease_until > now AND NOT is_mine, false);
        IF stored.key IS NULL THEN
            is_busy := NOT pg_try_advisory_xact_lock(_idem_hash(policy.scope, name, 8106));
            IF NOT is_busy THEN
                INSERT INTO idem_locks AS k (created_at, expires_at, attempt, state, scope, key, lease_until, fence, owner)
                VALUES (now, _idem_lock_expiry(now, lease), 1, 'p', policy.scope, name,
                        _idem_deadline(now, lease, 'ttl'), _idem_next_fence(0), caller)
                ON CONFLICT (scope, key) DO NOTHING RETURNING * INTO stored;
                IF FOUND THEN
                    RETURN stored.fence;
                END IF;
                CONTINUE;
            END IF;
        ELSIF NOT is_busy AND NOT is_locked THEN
            IF is_mine THEN
                SELECT * INTO stored FROM ONLY idem_locks k WHERE k.scope = policy.scope AND k.key = name COLLATE "C" FOR NO KEY UPDATE SKIP LOCKED;
            ELSIF stored.state = 'p' AND EXISTS (SELECT FROM ONLY idem_locks k WHERE k.scope = policy.scope AND k.key = name COLLATE "C" AND _idem_is_own(k.xmin)) THEN
                RETURN NULL;
            ELSE
                SELECT * INTO stored FROM ONLY idem_locks k WHERE k.scope = policy.scope AND k.key = name COLLATE "C" FOR UPDATE SKIP LOCKED;
            END IF;
            is_locked := FOUND;
            is_busy := NOT FOUND;
            CONTINUE WHEN is_locked;
        ELSIF NOT is_busy THEN
            UPDATE ONLY idem_locks k SET
                created_at = CASE WHEN is_mine THEN k.created_at ELSE now END,
                expires_at = _idem_lock_expiry(now, lease),
                attempt = CASE WHEN is_mine THEN k.attempt WHEN k.expires_at <= now THEN 1 ELSE k.attempt + 1 END,
                state = 'p', lease_until = _idem_deadline(now, lease, 'ttl'),
                fence = CASE WHEN is_mine THEN k.fence ELSE _idem_next_fence(k.fence) END, owner = caller
             WHERE k.scope = policy.scope AND k.key = name COLLATE "C"
            RETURNING * INTO stored;
            RETURN stored.fence;
        END IF;
        is_locked := false;
        IF wait_until IS NULL OR now >= wait_until THEN
            RETURN NULL;
        END IF;
        PERFORM pg_sleep(least(pause, extract(epoch FROM wait_until - now)));
        pause := least(pause * 1.5, 0.1);
    END LOOP;
END
$$;

CREATE FUNCTION idem_lock_renew LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy record;
    lease  interval;
    now    timestamptz;
BEGIN
    policy := _idem_lock_policy('idem_lock_renew()', name, $2, $4);
    lease := CASE WHEN ttl IS NULL THEN policy.lease ELSE _idem_lease(ttl, 'ttl') END;
    now := clock_timestamp();
    UPDATE ONLY idem_locks k SET lease_until = _idem_deadline(now, lease, 'ttl'),
        expires_at = _idem_lock_expiry(now, lease)
     WHERE k.scope = policy.scope AND k.key = name COLLATE "C" AND k.state = 'p' AND k.fence = $2;
    RETURN FOUND;
END
$$;

CREATE FUNCTION idem_unlock LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy record;
BEGIN
    policy := _idem_lock_policy('idem_unlock()', name, $2, $3);
    PERFORM FROM ONLY idem_locks k WHERE k.scope = policy.scope AND k.key = name COLLATE "C" AND k.state = 'p' AND k.fence = $2 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE ONLY idem_locks k SET state = 'r', lease_until = NULL WHERE k.scope = policy.scope AND k.key = name COLLATE "C";
    RETURN true;
END
$$;

CREATE FUNCTION idem_assert_fence LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy record;
BEGIN
    policy := _idem_lock_policy('idem_assert_fence()', name, $2, $3);
    PERFORM FROM ONLY idem_locks k WHERE k.scope = policy.scope AND k.key = name COLLATE "C" AND k.state = 'p' AND k.fence = $2 FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'ID001', MESSAGE = format('lock "%s" is not held with this fence', name),
            DETAIL = 'It was unlocked or taken over meanwhile, or never taken.', HINT = 'Roll back; another caller may be doing the work now.';
    END IF;
    RETURN true;
END
$$;
