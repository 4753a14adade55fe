-- The first of those that wait polls the row for the end of a lease, with growing pauses; the others queue behind it. A call that asserts a fence locks
-- the row FOR KEY SHARE until its transaction ends. A takeover and an unlock lock it FOR UPDATE, and so wait for that end. A renewal does not.

-- When the row of a lock may be deleted: a day after its lease.
CREATE FUNCTION _idem_lock_expiry(now timestamptz, lease interval) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT _idem_deadline(now, least(lease, interval '2000000000 hours') + interval '24 hours', 'lease')
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

-- Whether the present row of a lock was written by this transaction.
CREATE FUNCTION _idem_wrote_lock(wanted_scope text, name text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF _idem_is_distributed() THEN
        RETURN _idem_has_noted(8106, wanted_scope, name);
    END IF;
    RETURN coalesce(_idem_is_own((SELECT k.xmin FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C")), false);
END
$$;

-- Whether a transaction that is open seems to change or hold the row of a lock. Only how to wait may rest on it.
CREATE FUNCTION _idem_lock_is_being_changed(wanted_scope text, name text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF _idem_is_distributed() THEN
        RETURN false;
    END IF;
    RETURN coalesce(_idem_is_open((SELECT k.xmax FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C")), false);
END
$$;

-- Takes the lock, or returns NULL: it is held, and no lease is waited for. `waits`: for transactions. What this call has locked stays locked,
-- whatever it returns.
CREATE FUNCTION _idem_try_lock(wanted_scope text, name text, caller text, lease interval, waits boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    stored     idem_locks;
    now        timestamptz;
    is_mine    boolean;
    is_locked  boolean := false;
    has_waited boolean := false;
BEGIN
    LOOP
        IF NOT is_locked THEN
            SELECT * INTO stored FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C";
        END IF;
        now := clock_timestamp();
        is_mine := coalesce(stored.state = 'p' AND stored.owner = caller COLLATE "C", false);
        IF stored.key IS NULL THEN
            IF waits THEN
                PERFORM pg_advisory_xact_lock(_idem_hash(wanted_scope, name, 8106));
                now := clock_timestamp();
            ELSIF NOT pg_try_advisory_xact_lock(_idem_hash(wanted_scope, name, 8106)) THEN
                RETURN NULL;
            END IF;
            INSERT INTO idem_locks AS k (created_at, expires_at, attempt, state, scope, key, lease_until, fence, owner)
            VALUES (now, _idem_lock_expiry(now, lease), 1, 'p', wanted_scope, name,
                    _idem_deadline(now, lease, 'lease'), _idem_next_fence(0), caller)
            ON CONFLICT (scope, key) DO NOTHING RETURNING k.fence INTO stored.fence;
            EXIT WHEN FOUND;
            CONTINUE;
        ELSIF stored.state = 'p' AND NOT is_mine AND (stored.lease_until > now OR NOT is_locked AND _idem_wrote_lock(wanted_scope, name)) THEN
            IF waits AND NOT has_waited AND _idem_lock_is_being_changed(wanted_scope, name) THEN
                -- It may have been renewed or freed there.
                PERFORM FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C" FOR SHARE;
                has_waited := true;
                CONTINUE;
            END IF;
            RETURN NULL;
        ELSIF is_locked THEN
            IF NOT is_mine THEN
                stored.created_at := now;
                stored.attempt := CASE WHEN stored.expires_at <= now THEN 1 ELSE stored.attempt + 1 END;
                stored.fence := _idem_next_fence(stored.fence);
            END IF;
            stored.expires_at := _idem_lock_expiry(now, lease);
            stored.lease_until := _idem_deadline(now, lease, 'lease');
            UPDATE ONLY idem_locks k SET created_at = stored.created_at, expires_at = stored.expires_at, attempt = stored.attempt, state = 'p',
                lease_until = stored.lease_until, fence = stored.fence, owner = caller
             WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C";
            EXIT;
        ELSIF waits AND is_mine THEN
            SELECT * INTO stored FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C" FOR NO KEY UPDATE;
        ELSIF waits THEN
            SELECT * INTO stored FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C" FOR UPDATE;
        ELSIF is_mine THEN
            SELECT * INTO stored FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C" FOR NO KEY UPDATE SKIP LOCKED;
        ELSE
            SELECT * INTO stored FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C" FOR UPDATE SKIP LOCKED;
        END IF;
        is_locked := FOUND;
        IF NOT is_locked AND NOT waits THEN
            RETURN NULL;
        END IF;
    END LOOP;
    IF _idem_is_distributed() THEN
        PERFORM _idem_note(8106, wanted_scope, ARRAY[name]);
    END IF;
    IF _idem_has_waited(now) THEN -- which this UPDATE does not: the row and the table are this transaction's
        now := clock_timestamp();
        UPDATE ONLY idem_locks k SET expires_at = _idem_lock_expiry(now, lease), lease_until = _idem_deadline(now, lease, 'lease')
         WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C";
    END IF;
    RETURN stored.fence;
END
$$;

-- Raises 40001 if the lock was taken or freed after the transaction's snapshot, which cannot show it. The row's lock is given back.
CREATE FUNCTION _idem_require_current_lock(wanted_scope text, name text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM ONLY idem_locks k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = name COLLATE "C" FOR KEY SHARE SKIP LOCKED;
    RAISE EXCEPTION USING ERRCODE = 'ID000';
EXCEPTION WHEN SQLSTATE 'ID000' THEN
    NULL;
END
$$;

-- Takes the lock when it is this call's turn. The queue is an advisory lock: it is kept to the transaction's end by a call that got the lock, so that
-- the next one waits for that transaction, and given back by one that did not. An attempt is undone before the lease is waited for, or else its
-- holder could not renew it.
CREATE FUNCTION _idem_lock_in_turn(wanted_scope text, name text, caller text, lease interval, wait_until timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own     CONSTANT text := current_setting('lock_timeout');
    fence   bigint;
    pause   float8 := 0.002;
BEGIN
    PERFORM _idem_limit_lock_wait(wait_until);
    PERFORM pg_advisory_xact_lock(_idem_hash(wanted_scope, name, 8107));
    LOOP
        BEGIN
            PERFORM _idem_limit_lock_wait(wait_until);
            fence := _idem_try_lock(wanted_scope, name, caller, lease, true);
            IF fence IS NOT NULL THEN
                PERFORM set_config('lock_timeout', own, true);
                RETURN fence;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'ID000';
        EXCEPTION WHEN SQLSTATE 'ID000' THEN
            NULL;
        END;
        IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
            PERFORM _idem_require_current_lock(wanted_scope, name);
        END IF;
        IF clock_timestamp() >= wait_until THEN
            RAISE lock_not_available; -- which undoes the setting, and leaves the queue
        END IF;
        PERFORM pg_sleep(greatest(least(pause, extract(epoch FROM wait_until - clock_timestamp())), 0));
        pause := least(pause * 1.5, 0.1);
    END LOOP;
EXCEPTION WHEN lock_not_available THEN
    IF clock_timestamp() < wait_until THEN
        RAISE; -- the caller's own lock_timeout
    END IF;
    RETURN NULL;
END
$$;

-- A call that does not wait does not overtake those that do, but for the holder, for whose release they wait.
CREATE FUNCTION idem_lock LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy     record;
    length     interval;
    wait_until timestamptz;
    queue      bigint;
    taken      bigint;
    is_first   boolean; -- nobody waits for the lock, or it is the owner's that asks
BEGIN
    PERFORM _idem_check_key(name, 'name'), _idem_check_owner($3);
    policy := _idem_policy($5);
    wait_until := _idem_wait_until($4);
    length := CASE WHEN $2 IS NULL THEN policy.lease ELSE _idem_lease($2, 'lease') END;
    PERFORM _idem_deadline(clock_timestamp(), length, 'lease');
    PERFORM _idem_require_writable('idem_lock()');
    queue := _idem_hash(policy.scope, name, 8107);
    is_first := coalesce((CASE WHEN pg_try_advisory_lock_shared(queue) THEN pg_advisory_unlock_shared(queue) END), false);
    IF NOT is_first THEN
        is_first := EXISTS (SELECT FROM ONLY idem_locks k
                             WHERE k.scope = policy.scope AND k.key = name COLLATE "C" AND k.state = 'p' AND k.owner = $3 COLLATE "C");
    END IF;
    IF is_first THEN
        -- The lock on a row that is not acquired is released: its holder must be able to renew.
        BEGIN
            taken := _idem_try_lock(policy.scope, name, $3, length, false);
            IF taken IS NOT NULL THEN
                RETURN taken;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'ID000';
        EXCEPTION WHEN SQLSTATE 'ID000' THEN
            NULL;
        END;
    END IF;
    IF _idem_wrote_lock(policy.scope, name) THEN
        PERFORM FROM ONLY idem_locks k WHERE k.scope = policy.scope AND k.key = name COLLATE "C" AND k.state = 'p';
        IF FOUND THEN
            RETURN NULL; -- this transaction has it, under another owner's name, and nobody else can free it
        END IF;
    END IF;
    IF wait_until IS NOT NULL THEN
        RETURN _idem_lock_in_turn(policy.scope, name, $3, length, wait_until);
    ELSIF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        PERFORM _idem_require_current_lock(policy.scope, name);
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION idem_lock_renew LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy record;
    length interval;
    now    timestamptz;
    until  timestamptz;
    expiry timestamptz;
    is_own boolean := false;
BEGIN
    policy := _idem_lock_policy('idem_lock_renew()', name, $2, $4);
    length := CASE WHEN $3 IS NULL THEN policy.lease ELSE _idem_lease($3, 'lease') END;
    LOOP
        now := clock_timestamp();
        until := _idem_deadline(now, length, 'lease');
        expiry := _idem_lock_expiry(now, length);
        UPDATE ONLY idem_locks k SET lease_until = until, expires_at = expiry
         WHERE k.scope = policy.scope AND k.key = name COLLATE "C" AND k.state = 'p' AND k.fence = $2;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
        -- A second UPDATE does not wait: the row and the table are this transaction's.
        EXIT WHEN is_own OR NOT _idem_has_waited(now);
        is_own := true;
    END LOOP;
    RETURN true;
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
