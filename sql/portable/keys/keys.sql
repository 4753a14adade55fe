-- Claims. The unique index decides who holds a key; an advisory lock on its hash only lets those who do not wait know that somebody has it.

-- What a claim came to: its outcome, when, and the key's row, if the outcome rests on one.
CREATE TYPE _idem_claimed AS (
    outcome idem_outcome,
    at      timestamptz,
    stored  idem_keys
);

-- Advisory locks are the database's, and each installation has locks of its own.
CREATE FUNCTION _idem_seed(space bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT space + ('idem_keys'::regclass::oid::bigint << 16)
$$;

-- What advisory locks stand for: names of different spaces do not share a lock. 8103: keys, 8104: idem_serialize, 8105: tokens, 8106: locks,
-- 8107: the queues for locks, 8108: changes of scopes.
CREATE FUNCTION _idem_hash(scope text, key text, space bigint DEFAULT 8103) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(key, hashtextextended(scope, _idem_seed(space)))
$$;

CREATE FUNCTION _idem_is_expired(stored idem_keys, at timestamptz, is_manual boolean) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT stored.expires_at <= at AND stored.state <> 'd' AND NOT (stored.state = 'p' AND (is_manual OR stored.lease_until > at))
$$;

-- Fingerprints of different versions of idem's algorithm cannot be compared.
CREATE FUNCTION _idem_differs(stored bytea, given bytea) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(stored <> given AND NOT (octet_length(stored) = 33 AND octet_length(given) = 33 AND get_byte(stored, 0) <= 15
                                             AND get_byte(given, 0) <= 15 AND get_byte(stored, 0) <> get_byte(given, 0)), false)
$$;

-- The state table of a key, as decide_claim in the C edition: the outcome of a claim that finds this row, and what it writes (none, restart, next_attempt,
-- renew, mark_in_doubt). is_own: this transaction has written the row. tests/vectors/claims.tsv has the table.
CREATE FUNCTION _idem_key_state(stored idem_keys, now timestamptz, is_own boolean, given bytea, caller text, is_manual boolean, is_leased boolean,
                                OUT outcome idem_outcome, OUT write text) LANGUAGE plpgsql IMMUTABLE INNER AS $$
DECLARE
    is_mine CONSTANT boolean := is_leased AND coalesce(stored.owner = caller COLLATE "C", false);
BEGIN
    write := 'none';
    IF _idem_is_expired(stored, now, is_manual) THEN
        outcome := 'acquired';
        write := 'restart';
    ELSIF is_own AND stored.state = 'c' AND stored.fence IS NULL THEN
        outcome := 'completed';
    -- A lease that is over may be another's: idem_release has given a claim that took it over back.
    ELSIF is_own AND stored.state = 'p' AND stored.lease_until > now AND NOT is_mine THEN
        outcome := 'in_flight';
    ELSIF _idem_differs(stored.fingerprint, given) THEN
        outcome := 'mismatch';
    ELSIF stored.state = 'c' THEN
        outcome := 'completed';
    ELSIF stored.state = 'r' THEN
        outcome := 'acquired';
        write := 'next_attempt';
    ELSIF stored.state = 'd' THEN
        outcome := 'in_doubt';
    ELSIF is_mine THEN
        outcome := 'acquired';
        write := 'renew';
    ELSIF stored.lease_until > now THEN
        outcome := 'in_flight';
    ELSIF is_manual THEN
        outcome := 'in_doubt';
        write := 'mark_in_doubt';
    ELSE
        outcome := 'taken_over';
        write := 'next_attempt';
    END IF;
END
$$;

-- Whether the present row of a key was written by this transaction.
CREATE FUNCTION _idem_wrote(wanted_scope text, wanted_key text) RETURNS boolean LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    version xid;
BEGIN
    IF _idem_is_distributed() THEN
        RETURN _idem_has_noted(8103, wanted_scope, wanted_key);
    END IF;
    SELECT k.xmin INTO version FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
    -- The numbers of subtransactions take longer to compare.
    RETURN coalesce(version = pg_current_xact_id_if_assigned()::xid OR _idem_is_own(version), false);
END
$$;

-- Whether a transaction that is open seems to change or hold the row of a key. Only how to wait may rest on it.
CREATE FUNCTION _idem_is_being_changed(wanted_scope text, wanted_key text) RETURNS boolean LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    IF _idem_is_distributed() THEN
        RETURN false;
    END IF;
    RETURN coalesce(_idem_is_open((SELECT k.xmax FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C")), false);
END
$$;

-- Lets waits for locks end at the time given, in this subtransaction. The caller's own lock_timeout holds if it is shorter.
CREATE FUNCTION _idem_limit_lock_wait(wait_until timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    present CONSTANT bigint := (SELECT s.setting FROM pg_settings s WHERE s.name = 'lock_timeout');
    ms      CONSTANT numeric := CASE WHEN isfinite(wait_until) THEN ceil(greatest(extract(epoch FROM wait_until - clock_timestamp()) * 1000, 1)::numeric) END;
BEGIN
    IF ms <= 2147483647 AND (present = 0 OR present > ms) THEN
        PERFORM set_config('lock_timeout', ms::text, true);
    END IF;
END
$$;

-- Waits until nobody has the key's hint, or until the time given. Real waits for a lock: deadlocks are detected, and the caller's own lock_timeout
-- holds if it is shorter. The hint is given back with the subtransaction, or kept, if the caller wants to insert a row and still sees none: of many that
-- wait, the next gets it. A caller that does not insert shares the lock with others of its kind (_idem_is_claimed). A lock of the session would outlive
-- a cancel that comes as it is granted.
CREATE FUNCTION _idem_await(wanted_scope text, wanted_key text, wait_until timestamptz, inserts boolean) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own CONSTANT text := current_setting('lock_timeout');
BEGIN
    PERFORM _idem_limit_lock_wait(wait_until);
    IF inserts THEN
        PERFORM pg_advisory_xact_lock(_idem_hash(wanted_scope, wanted_key));
        PERFORM FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
        IF NOT FOUND THEN
            PERFORM set_config('lock_timeout', own, true);
            RETURN;
        END IF;
    ELSE
        PERFORM pg_advisory_xact_lock_shared(_idem_hash(wanted_scope, wanted_key));
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'ID000';
EXCEPTION -- which undoes the setting, too
    WHEN SQLSTATE 'ID000' THEN
        NULL;
    WHEN lock_not_available THEN
        IF clock_timestamp() < wait_until THEN
            RAISE;
        END IF;
END
$$;

-- Whether the hint, which the caller could not acquire, is that of a session that claims the key. False: sessions that only wait for such a one held it.
CREATE FUNCTION _idem_is_claimed(hash bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_shared boolean;
BEGIN
    is_shared := pg_try_advisory_xact_lock_shared(hash);
    RAISE EXCEPTION USING ERRCODE = 'ID000';
EXCEPTION WHEN SQLSTATE 'ID000' THEN -- which gives the lock back
    RETURN NOT is_shared;
END
$$;

-- Whether the key is completed, or another caller's: nothing to change.
CREATE FUNCTION _idem_is_held(stored idem_keys, caller text, at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT stored.state = 'c' AND stored.expires_at > at OR stored.state = 'p' AND stored.lease_until > at AND stored.owner = caller COLLATE "C" IS NOT TRUE
$$;

-- The key's row, locked for a change; NULL: it could not be locked until the time given, or there is nothing to change. The lock is given back then: a
-- holder must be able to renew and complete.
CREATE FUNCTION _idem_await_row(wanted_scope text, wanted_key text, caller text, wait_until timestamptz) RETURNS idem_keys LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own    CONSTANT text := current_setting('lock_timeout');
    stored idem_keys;
BEGIN
    PERFORM _idem_limit_lock_wait(wait_until);
    SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C" FOR NO KEY UPDATE;
    IF _idem_is_held(stored, caller, clock_timestamp()) THEN
        RAISE EXCEPTION USING ERRCODE = 'ID000';
    END IF;
    PERFORM set_config('lock_timeout', own, true);
    RETURN stored;
EXCEPTION
    WHEN SQLSTATE 'ID000' THEN
        RETURN NULL;
    WHEN lock_not_available THEN
        IF clock_timestamp() < wait_until THEN
            RAISE;
        END IF;
        RETURN NULL;
END
$$;

-- Raises 40001 if there is a committed row of the key or token that the transaction's snapshot cannot show. A transaction that may commit one is waited
-- for until the time given; where the tables are distributed, to which no lock_timeout goes, only without end.
CREATE FUNCTION _idem_require_in_snapshot(keys regclass, wanted_scope text, wanted_key text, wait_until timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') OR current_setting('transaction_read_only')::boolean
       OR isfinite(wait_until) AND _idem_is_distributed() THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM _idem_limit_lock_wait(wait_until);
        EXECUTE format('INSERT INTO %s (created_at, expires_at, attempt, state, scope, key) VALUES (now(), now(), 1, ''c'', $1, $2) '
                       'ON CONFLICT (scope, key) DO NOTHING', keys) USING wanted_scope, wanted_key;
        RAISE EXCEPTION USING ERRCODE = 'ID000';
    EXCEPTION -- each undoes the setting, too
        WHEN SQLSTATE 'ID000' THEN
            NULL;
        WHEN lock_not_available THEN
            IF clock_timestamp() < wait_until THEN
                RAISE;
            END IF;
    END;
END
$$;

-- Takes the hints of keys that this transaction has claimed after it waited for their holders. A holder's row comes free a moment before its hint
-- does. Anybody else who has a hint waits for this transaction, and so must not be waited for.
CREATE FUNCTION _idem_take_hints(wanted_scope text, keys text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR attempt IN 1..4 LOOP
        keys := ARRAY(SELECT w.k FROM unnest(keys) AS w (k) WHERE NOT pg_try_advisory_xact_lock(_idem_hash(wanted_scope, w.k)));
        EXIT WHEN keys = '{}';
        PERFORM pg_sleep(0.001 * attempt);
    END LOOP;
END
$$;

-- The end of a span that starts again: as long after `now` as it was after the last start. In seconds: a day of an interval may have 23 hours.
CREATE FUNCTION _idem_moved(ends_at timestamptz, started_at timestamptz, now timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT ends_at + extract(epoch FROM now - started_at)::float8 * interval '1 s'
$$;

-- Lets claims that this transaction has just made count from now on, and returns that time: its INSERT has waited. This UPDATE does not: the rows and the
-- table are its own.
CREATE FUNCTION _idem_restart_keys(wanted_scope text, keys text[]) RETURNS timestamptz LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    now CONSTANT timestamptz := clock_timestamp();
BEGIN
    UPDATE ONLY idem_keys k SET created_at = now, expires_at = _idem_moved(k.expires_at, k.created_at, now), lease_until = _idem_moved(k.lease_until, k.created_at, now)
     WHERE k.scope = wanted_scope COLLATE "C" AND k.key = ANY (keys);
    RETURN now;
END
$$;

-- Inserts the row of a key. Returns when its lease ends, which is later than asked for if the INSERT has waited; infinity: it has none. NULL: there is a row.
-- The caller has the key's hint.
CREATE FUNCTION _idem_insert_key(wanted_scope text, wanted_key text, now timestamptz, until timestamptz, lease_until timestamptz, fence bigint, caller text,
                                 given bytea)
RETURNS timestamptz LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key, lease_until, fence, owner, fingerprint)
    VALUES (now, until, 1, CASE WHEN fence IS NULL THEN 'c' ELSE 'p' END, wanted_scope, wanted_key, lease_until, fence, caller, given)
    ON CONFLICT (scope, key) DO NOTHING;
    IF FOUND AND (_idem_is_distributed() OR _idem_has_waited(now)) THEN -- neither, as a rule: one expression
        IF _idem_is_distributed() THEN
            PERFORM _idem_note(8103, wanted_scope, ARRAY[wanted_key]);
        END IF;
        IF _idem_has_waited(now) THEN
            lease_until := _idem_moved(lease_until, now, _idem_restart_keys(wanted_scope, ARRAY[wanted_key]));
        END IF;
    END IF;
    RETURN CASE WHEN FOUND THEN coalesce(lease_until, 'infinity') END;
END
$$;

-- Locks the table of keys as a change of a row does, so that the change waits for no CREATE INDEX or REINDEX after it has read the clock. Citus would lock
-- it on every node.
CREATE FUNCTION _idem_enter_keys() RETURNS void LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    IF NOT _idem_is_distributed() THEN
        LOCK TABLE ONLY idem_keys IN ROW EXCLUSIVE MODE;
    END IF;
END
$$;

-- Writes the row of a key over the one that is there.
CREATE FUNCTION _idem_replace_key(stored idem_keys) RETURNS void LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    UPDATE ONLY idem_keys k SET created_at = stored.created_at, expires_at = stored.expires_at, attempt = stored.attempt, state = stored.state,
        lease_until = stored.lease_until, fence = stored.fence, completed_at = stored.completed_at, status_code = stored.status_code, response = stored.response,
        response_omitted = stored.response_omitted, steps = stored.steps, owner = stored.owner, fingerprint = stored.fingerprint
     WHERE k.scope = stored.scope COLLATE "C" AND k.key = stored.key COLLATE "C";
END
$$;

-- Notes the row that a claim without a lease replaces by the next attempt: _idem_withdraw writes it back. Where the tables are distributed, none is noted.
CREATE FUNCTION _idem_note_replaced(stored idem_keys) RETURNS void LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    IF NOT _idem_is_distributed() THEN
        DELETE FROM ONLY _idem_replaced_keys r WHERE r.scope = stored.scope AND r.key = stored.key; -- of an earlier transaction
        INSERT INTO _idem_replaced_keys SELECT stored.*;
    END IF;
END
$$;

-- Writes what _idem_key_state says to the row, which is locked, and returns it. ttl, lease: as in _idem_claim.
CREATE FUNCTION _idem_write_claim(stored idem_keys, write text, now timestamptz, ttl interval, lease interval, given bytea, caller text)
RETURNS idem_keys LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    IF write = 'mark_in_doubt' THEN
        stored.state := 'd';
    ELSE
        IF write = 'next_attempt' AND lease IS NULL THEN
            PERFORM _idem_note_replaced(stored);
        END IF;
        IF write = 'restart' THEN
            stored.attempt := 0;
            stored.status_code := NULL;
            stored.response := NULL;
            stored.response_omitted := NULL;
            stored.steps := NULL;
            stored.fingerprint := NULL;
        END IF;
        IF write <> 'renew' THEN
            stored.created_at := now;
            stored.expires_at := _idem_deadline(now, ttl, 'ttl');
            stored.attempt := stored.attempt + 1;
            stored.fence := CASE WHEN lease IS NOT NULL THEN _idem_next_fence(stored.fence) END;
            stored.completed_at := NULL;
            stored.fingerprint := coalesce(given, stored.fingerprint);
        END IF;
        stored.state := CASE WHEN lease IS NULL THEN 'c' ELSE 'p' END;
        stored.lease_until := CASE WHEN lease IS NOT NULL THEN _idem_deadline(now, lease, 'lease') END;
        stored.owner := caller;
        stored.fingerprint := coalesce(stored.fingerprint, given);
    END IF;
    PERFORM _idem_replace_key(stored);
    IF _idem_is_distributed() THEN
        PERFORM _idem_note(8103, stored.scope, ARRAY[stored.key]);
    END IF;
    RETURN stored;
END
$$;

-- Claims a key. ttl: NULL never expires; lease: NULL is for this transaction; waits: for an uncommitted holder without end; wait_until: for any
-- holder until then; NULL: not at all.
CREATE FUNCTION _idem_claim(function text, wanted_scope text, wanted_key text, given bytea, caller text, ttl interval, lease interval, is_manual boolean,
                            waits boolean, wait_until timestamptz)
RETURNS _idem_claimed LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    stored    idem_keys;
    claimed   _idem_claimed;
    now       timestamptz;
    decided   record;
    is_locked boolean := false; -- the row, so that it stays as it was read
    is_own    boolean;
    pause     float8 := 0.005;
    reads     integer := 0;
BEGIN
    LOOP
        IF NOT is_locked THEN
            SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
        END IF;
        now := clock_timestamp();
        IF stored.state = 'c' AND stored.expires_at > now AND (given IS NULL OR stored.fingerprint = given) THEN
            RETURN ROW('completed', now, stored)::_idem_claimed;
        ELSIF stored.key IS NULL THEN
            -- The holder of the hint may not have inserted its row yet. No call overtakes it: another one may have answered that the key is in flight.
            IF NOT pg_try_advisory_xact_lock(_idem_hash(wanted_scope, wanted_key)) THEN
                IF NOT waits AND (wait_until IS NULL OR now >= wait_until) THEN
                    IF reads < 4 AND NOT _idem_is_claimed(_idem_hash(wanted_scope, wanted_key)) THEN
                        reads := reads + 1;
                        PERFORM pg_sleep(0.001 * reads);
                        CONTINUE;
                    END IF;
                    -- Or it has found a row that neither this snapshot nor its own shows.
                    PERFORM _idem_require_in_snapshot('@extschema@.idem_keys', wanted_scope, wanted_key, now);
                    RETURN ROW('in_flight', now, NULL)::_idem_claimed;
                END IF;
                PERFORM _idem_await(wanted_scope, wanted_key, CASE WHEN waits THEN 'infinity' ELSE wait_until END, true);
                CONTINUE;
            END IF;
            PERFORM _idem_require_writable(function);
            IF lease IS NOT NULL THEN
                stored.lease_until := _idem_until(now, lease, 'lease');
                stored.fence := _idem_next_fence(0);
            END IF;
            stored.lease_until := _idem_insert_key(wanted_scope, wanted_key, now, _idem_until(now, ttl, 'ttl'), stored.lease_until, stored.fence, caller, given);
            IF stored.lease_until IS NOT NULL THEN
                stored.lease_until := CASE WHEN lease IS NOT NULL THEN stored.lease_until END;
                stored.attempt := 1;
                RETURN ROW('acquired', now, stored)::_idem_claimed;
            END IF;
            CONTINUE;
        END IF;

        is_own := stored.state IN ('p', 'c') AND NOT _idem_is_expired(stored, now, is_manual) AND _idem_wrote(wanted_scope, wanted_key);
        decided := _idem_key_state(stored, now, is_own, given, caller, is_manual, lease IS NOT NULL);
        claimed := ROW(decided.outcome, now, stored)::_idem_claimed;
        IF claimed.outcome IN ('completed', 'mismatch') OR claimed.outcome = 'in_flight' AND is_own THEN
            RETURN claimed;
        END IF;
        IF claimed.outcome IN ('in_flight', 'in_doubt') AND waits AND NOT is_locked AND NOT current_setting('transaction_read_only')::boolean THEN
            -- The key may have been completed, released or settled in a transaction that is still open. If it was not, the caller raises an error, which
            -- gives the lock back.
            PERFORM _idem_enter_keys();
            SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C" FOR NO KEY UPDATE;
            is_locked := stored.key IS NOT NULL;
            CONTINUE;
        END IF;
        IF claimed.outcome = 'in_flight' THEN
            IF wait_until IS NULL OR now >= wait_until THEN
                RETURN claimed;
            END IF;
            IF NOT current_setting('transaction_read_only')::boolean AND _idem_is_being_changed(wanted_scope, wanted_key) THEN
                stored := _idem_await_row(wanted_scope, wanted_key, caller, wait_until);
                is_locked := stored.key IS NOT NULL;
                CONTINUE WHEN is_locked OR clock_timestamp() > now + interval '5 ms';
            END IF;
            is_locked := false;
            PERFORM pg_sleep(least(pause, extract(epoch FROM least(wait_until, (claimed.stored).lease_until) - now) + 0.001));
            pause := least(pause * 2, 0.1);
            CONTINUE;
        END IF;
        IF claimed.outcome = 'in_doubt' AND (decided.write = 'none' OR waits OR current_setting('transaction_read_only')::boolean) THEN
            RETURN claimed;
        END IF;

        PERFORM _idem_require_writable(function);
        IF NOT is_locked THEN
            PERFORM _idem_enter_keys();
            IF waits THEN
                SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C" FOR NO KEY UPDATE;
            ELSIF now < wait_until THEN
                stored := _idem_await_row(wanted_scope, wanted_key, caller, wait_until);
            ELSE
                BEGIN
                    SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C" FOR NO KEY UPDATE SKIP LOCKED;
                    IF NOT FOUND AND EXISTS (SELECT FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C") THEN
                        RETURN ROW('in_flight', now, NULL)::_idem_claimed;
                    ELSIF _idem_is_held(stored, caller, clock_timestamp()) THEN
                        RAISE EXCEPTION USING ERRCODE = 'ID000';
                    END IF;
                EXCEPTION WHEN SQLSTATE 'ID000' THEN -- taken since it was read; its lock is given back
                    stored := NULL;
                END;
            END IF;
            is_locked := stored.key IS NOT NULL;
            CONTINUE;
        END IF;

        claimed.stored := _idem_write_claim(stored, decided.write, now, ttl, lease, given, caller);
        RETURN claimed;
    END LOOP;
END
$$;

-- ID005 for the outcomes that a boolean cannot tell.
CREATE FUNCTION _idem_raise_if_held(claimed _idem_claimed, key text) RETURNS void LANGUAGE plpgsql INNER AS $$
BEGIN
    IF claimed.outcome = 'in_doubt' THEN
        RAISE EXCEPTION USING ERRCODE = 'ID005', MESSAGE = format('key "%s" is in doubt', key),
            DETAIL = 'Its holder''s lease ran out before it completed, and the scope leaves the decision to an operator.',
            HINT = 'Settle it with idem_resolve or idem_forget.';
    ELSIF claimed.outcome = 'in_flight' THEN
        RAISE EXCEPTION USING ERRCODE = 'ID005', MESSAGE = format('key "%s" is in flight', key),
            DETAIL = format('Its holder''s lease ends at %s.', (claimed.stored).lease_until),
            HINT = 'Try again later, or use idem_begin or idem_try_claim, which answer instead.';
    END IF;
END
$$;

-- What the first statement of a call asks: what holds in the scope, and the key's row, if there is one. The planner puts it into the statement: PL/pgSQL prepares
-- every expression again in each transaction, so that one long statement is cheaper than several short ones. No row: one statement is not enough.
CREATE FUNCTION _idem_read_key(given_scope text, wanted_key text) RETURNS TABLE (scope text, ttl interval, keep_forever boolean, stored idem_keys)
LANGUAGE sql STABLE AS $$
    SELECT p.scope, p.ttl, p.keep_forever, k
      FROM _idem_scope_of(given_scope) p LEFT JOIN ONLY idem_keys k ON k.scope = p.scope COLLATE "C" AND k.key = wanted_key COLLATE "C"
$$;

-- Whether this call may insert the key that was not found: its hint is free, it is as long as it may be, and the transaction may write.
CREATE FUNCTION _idem_may_insert(wanted_scope text, wanted_key text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT octet_length(wanted_key) BETWEEN 1 AND 1024 AND NOT current_setting('transaction_read_only')::boolean
       AND pg_try_advisory_xact_lock(_idem_hash(wanted_scope, wanted_key))
$$;

-- A claim without a lease, with the function that messages name. waits: for a holder that has not committed; ID005 then instead of in_flight and in_doubt.
-- Most keys are new or completed: two statements, or one.
CREATE FUNCTION _idem_claim_outcome(function text, key text, ttl interval, scope text, waits boolean) RETURNS idem_outcome LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    space     text;
    retention interval;
    is_kept   boolean;
    is_absent boolean;
    is_done   boolean;
    now       timestamptz;
    policy    record;
    claimed   _idem_claimed;
BEGIN
    IF NOT _idem_is_distributed() THEN -- Citus plans no such function with a parameter
        SELECT l.scope, l.ttl, l.keep_forever, clock_timestamp(), (l.stored).key IS NULL, (l.stored).state = 'c' AND (l.stored).expires_at > clock_timestamp()
          INTO space, retention, is_kept, now, is_absent, is_done FROM _idem_read_key($4, $2) l;
        IF ttl IS NOT NULL THEN
            retention := _idem_retention(retention, is_kept, ttl);
        END IF;
        IF is_done THEN
            RETURN 'completed';
        ELSIF is_absent AND _idem_may_insert(space, key) THEN
            IF _idem_insert_key(space, key, now, _idem_until(now, retention, 'ttl'), NULL, NULL, NULL, NULL) IS NOT NULL THEN
                RETURN 'acquired';
            END IF;
        END IF;
    END IF;
    PERFORM _idem_check_key(key);
    policy := _idem_policy(scope);
    claimed := _idem_claim(function, policy.scope, key, NULL, NULL, _idem_retention(policy.ttl, policy.keep_forever, ttl), NULL, policy.is_manual, waits, NULL);
    IF waits THEN
        PERFORM _idem_raise_if_held(claimed, key);
    END IF;
    RETURN claimed.outcome;
END
$$;

-- --- Quick ways: one look, and one INSERT or UPDATE. PL/pgSQL sets up each expression again in each transaction, with every function that it names, called or
-- not. So expressions are few and short, and what is rarer is asked by others, or takes the other way. given_key, given_scope, given_ttl: arguments.

-- Of the scope: it has no family, and no setting refuses it.
PART is_plain AS $$
scope NOT LIKE '%/%' IS NOT FALSE AND current_setting('idem.require_registered_scope', true) IS NULL
$$;

-- Of a span: has days, hours and less. A day has 24 hours.
PART is_plain_span AS $$
(@1@ < '1000000 days' AND abs(date_part('day', @1@)) < 1000000 AND date_part('month', @1@) = 0 AND date_part('year', @1@) = 0)
$$;

PART after AS $$
timezone('UTC', timezone('UTC', now) + @1@)
$$;

PART of_scope AS $$
s.scope = coalesce(given_scope, '') COLLATE "C"
$$;

PART of_key AS $$
k.scope = coalesce(given_scope, '') COLLATE "C" AND k.key = given_key COLLATE "C"
$$;

-- Of the scope's row: as _idem_may_use.
PART is_granted AS $$
coalesce(s.owner::oid = 0 OR pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, s.owner::oid, 'USAGE'), true)
$$;

-- Sets `until`: when a key of a scope with a row, or with a ttl of the call's own, expires. Leaves the block if this needs the other way.
PART set_until AS $$
IF is_registered THEN
                SELECT CASE WHEN s.keep_forever THEN 'infinity' ELSE @after: coalesce(given_ttl, s.ttl, '24 hours')@ END INTO until FROM ONLY idem_scopes s
                 WHERE @of_scope@ AND @is_granted@ AND @is_plain_span: s.ttl@ IS NOT FALSE AND (given_ttl > '0' AND @is_plain_span: given_ttl@) IS NOT FALSE;
            ELSE
                until := CASE WHEN given_ttl > '0' AND @is_plain_span: given_ttl@ THEN @after: given_ttl@ END;
            END IF;
            EXIT quick WHEN until IS NULL
$$;

-- Of a key without a row: whether it and the scope are as long as they may be, the transaction may write, and nobody else claims it: takes its hint (_idem_hash).
PART may_insert AS $$
octet_length(coalesce(given_scope, '') || given_key) <= 255 AND given_key <> ''
            AND current_setting('transaction_read_only') = 'off' AND current_setting('idem.default_ttl', true) IS NULL
            AND pg_try_advisory_xact_lock(hashtextextended(given_key, hashtextextended(coalesce(given_scope, ''), 8103 + ('idem_keys'::regclass::oid::bigint << 16))))
$$;

-- No scope's row and no ttl says how long the key is kept.
PART is_common AS $$
NOT is_registered AND given_ttl IS NULL
$$;

-- As _idem_restart_keys, if the INSERT has waited.
PART restart AS $$
now := clock_timestamp();
            UPDATE ONLY idem_keys k SET created_at = now, expires_at = k.expires_at + extract(epoch FROM now - k.created_at)::float8 * interval '1 s',
                lease_until = k.lease_until + extract(epoch FROM now - k.created_at)::float8 * interval '1 s' WHERE @of_key@ @1@
$$;

-- A claim without a lease. 1: the answer for a key that is completed, 2: for a new one.
PART claim AS $$
<<quick>>
DECLARE
    given_key     ALIAS FOR $1;
    given_ttl     ALIAS FOR $2;
    given_scope   ALIAS FOR $3;
    now           timestamptz;
    until         timestamptz;
    is_registered boolean;
    is_done       boolean; -- NULL: there is no row
BEGIN
    IF NOT _idem_is_distributed() THEN -- Citus plans no such statement
        SELECT clock_timestamp(), EXISTS (SELECT FROM ONLY idem_scopes s WHERE @of_scope@),
               (SELECT k.state = 'c' AND k.expires_at > clock_timestamp() FROM ONLY idem_keys k WHERE @of_key@) INTO now, is_registered, is_done;
        IF is_done AND @is_common@ THEN
            RETURN @1@;
        ELSIF (is_done IS NULL AND @is_common@ AND @may_insert@) IS NOT TRUE THEN
            EXIT quick WHEN @is_common@;
            @set_until@;
            IF is_done THEN
                RETURN @1@;
            END IF;
            EXIT quick WHEN (is_done IS NULL AND @may_insert@) IS NOT TRUE;
        END IF;
        INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key)
        VALUES (now, coalesce(until, now + interval '24 hours'), 1, 'c', coalesce(given_scope, ''), given_key) ON CONFLICT (scope, key) DO NOTHING;
        IF FOUND AND clock_timestamp() <= now + interval '5 ms' THEN
            RETURN @2@;
        ELSIF FOUND THEN
            @restart@;
            RETURN @2@;
        END IF;
    END IF;
END
$$;

CREATE FUNCTION idem_claim LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
WHEN @is_plain@
@claim: NOT is_done | FOUND@
ELSE
    RETURN _idem_claim_outcome('idem_claim()', key, ttl, scope, true) IN ('acquired', 'taken_over');
$$;

CREATE FUNCTION idem_must_claim LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF _idem_claim_outcome('idem_must_claim()', key, ttl, scope, true) = 'completed' THEN
        RAISE EXCEPTION USING ERRCODE = 'ID006', MESSAGE = format('key "%s" was claimed before', key),
            DETAIL = 'Its work has committed, or this transaction has claimed it before.', HINT = 'Roll back; nothing is left to do.';
    END IF;
    RETURN true;
END
$$;

CREATE FUNCTION idem_try_claim LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
WHEN @is_plain@
@claim: 'completed' | 'acquired'@
ELSE
    RETURN _idem_claim_outcome('idem_try_claim()', key, ttl, scope, false);
$$;

-- Bytewise order, so that two calls reach their common keys, and the hints, in the same order. Those that are there already, or not quite, are claimed
-- singly.
CREATE FUNCTION idem_claim_many LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy    record;
    wanted    text;
    retention interval;
    claimed   _idem_claimed;
    granted   text[] := '{}';
    absent    text[];
    now       timestamptz;
    until     timestamptz;
BEGIN
    IF keys IS NULL THEN
        PERFORM _idem_null('keys');
    END IF;
    policy := _idem_policy(scope);
    retention := _idem_retention(policy.ttl, policy.keep_forever, idem_claim_many.ttl);
    FOREACH wanted IN ARRAY keys LOOP
        IF wanted IS NULL OR octet_length(wanted) NOT BETWEEN 1 AND 1024 THEN
            PERFORM _idem_check_key(wanted);
        END IF;
    END LOOP;
    IF NOT current_setting('transaction_read_only')::boolean THEN
        now := clock_timestamp();
        IF _idem_is_distributed() THEN -- Citus refuses the question within the INSERT
            until := _idem_deadline(now, retention, 'ttl');
            absent := ARRAY(SELECT u.k COLLATE "C" FROM unnest(keys) AS u (k)
                            EXCEPT SELECT s.key FROM ONLY idem_keys s WHERE s.scope = policy.scope AND s.key = ANY (keys) ORDER BY 1);
            WITH added AS (
                INSERT INTO idem_keys AS k (created_at, expires_at, attempt, state, scope, key)
                SELECT now, until, 1, 'c', policy.scope, w.k FROM unnest(absent) AS w (k)
                ON CONFLICT (scope, key) DO NOTHING RETURNING k.key)
            SELECT coalesce(array_agg(a.key), '{}') INTO granted FROM added a;
            PERFORM _idem_note(8103, policy.scope, granted);
        ELSE
            WITH added AS (
                INSERT INTO idem_keys AS k (created_at, expires_at, attempt, state, scope, key)
                SELECT now, _idem_deadline(now, retention, 'ttl'), 1, 'c', policy.scope, w.k
                  FROM (SELECT d.k FROM (SELECT DISTINCT u.k COLLATE "C" AS k FROM unnest(keys) AS u (k)) d
                         WHERE NOT EXISTS (SELECT FROM ONLY idem_keys s WHERE s.scope = policy.scope AND s.key = d.k)
                         ORDER BY d.k COLLATE "C" OFFSET 0) w
                 WHERE cardinality(keys) > 64 OR pg_try_advisory_xact_lock(_idem_hash(policy.scope, w.k)) IS NOT NULL
                ON CONFLICT (scope, key) DO NOTHING RETURNING k.key)
            SELECT coalesce(array_agg(a.key), '{}') INTO granted FROM added a;
        END IF;
        IF cardinality(keys) <= 64 THEN
            PERFORM _idem_take_hints(policy.scope, granted);
        END IF;
    END IF;
    IF cardinality(granted) < (SELECT count(DISTINCT u.k COLLATE "C") FROM unnest(keys) AS u (k)) THEN
        FOR wanted IN SELECT w.k FROM (SELECT DISTINCT u.k COLLATE "C" AS k FROM unnest(keys) AS u (k) EXCEPT SELECT g.k COLLATE "C" FROM unnest(granted) AS g (k)) w
                        LEFT JOIN ONLY idem_keys s ON s.scope = policy.scope AND s.key = w.k
                       WHERE s.key IS NULL OR s.state <> 'c' OR s.expires_at <= clock_timestamp()
                       ORDER BY w.k COLLATE "C" LOOP
            claimed := _idem_claim('idem_claim_many()', policy.scope, wanted, NULL, NULL, retention, NULL, policy.is_manual, true, NULL);
            IF claimed.outcome IN ('in_doubt', 'in_flight') THEN
                PERFORM _idem_raise_if_held(claimed, wanted);
            END IF;
            IF claimed.outcome IN ('acquired', 'taken_over') THEN
                granted := granted || wanted;
            END IF;
        END LOOP;
    END IF;
    -- They count from the end of its last wait. Many keys take their time without waiting: a thousandth of the retention is not worth a change of them all.
    IF clock_timestamp() > now + greatest(retention / 1000, interval '5 ms') AND granted <> '{}' AND retention IS NOT NULL THEN
        PERFORM _idem_restart_keys(policy.scope, granted);
    END IF;
    RETURN QUERY SELECT w.k FROM (SELECT DISTINCT ON (u.k COLLATE "C") u.k, u.place FROM unnest(keys) WITH ORDINALITY AS u (k, place) ORDER BY u.k COLLATE "C", u.place) w
                   JOIN unnest(granted) AS g (k) ON g.k COLLATE "C" = w.k ORDER BY w.place;
END
$$;

CREATE FUNCTION _idem_ticket(claimed _idem_claimed) RETURNS idem_ticket LANGUAGE plpgsql STABLE INNER AS $$
DECLARE
    stored idem_keys := claimed.stored;
BEGIN
    CASE
        WHEN claimed.outcome = 'completed' THEN
            RETURN ROW('completed', NULL, stored.attempt, NULL, stored.status_code, stored.response, stored.response_omitted IS NOT NULL, NULL, NULL)::idem_ticket;
        WHEN claimed.outcome IN ('acquired', 'taken_over') THEN
            RETURN ROW(claimed.outcome, stored.fence, stored.attempt, stored.lease_until, NULL, NULL, NULL, stored.steps, NULL)::idem_ticket;
        WHEN claimed.outcome = 'in_flight' AND stored.key IS NOT NULL THEN
            RETURN ROW('in_flight', NULL, stored.attempt, stored.lease_until, NULL, NULL, NULL, NULL,
                       least(ceil(greatest(extract(epoch FROM stored.lease_until - claimed.at) * 1000, 0)), 2147483647))::idem_ticket;
        WHEN claimed.outcome = 'in_doubt' THEN
            RETURN ROW('in_doubt', NULL, stored.attempt, stored.lease_until, NULL, NULL, NULL, NULL, NULL)::idem_ticket;
        ELSE
            RETURN ROW(claimed.outcome, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::idem_ticket;
    END CASE;
END
$$;

CREATE FUNCTION _idem_begin(key text, fingerprint bytea, ttl interval, lease interval, owner text, wait interval, scope text) RETURNS idem_ticket
LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    space       text;
    retention   interval;
    is_kept     boolean;
    is_absent   boolean;
    is_done     boolean;
    now         timestamptz;
    given       interval;
    lease_until timestamptz;
    next_fence  bigint;
    until       timestamptz;
    stored      idem_keys;
    policy      record;
BEGIN
    IF lease IS NOT NULL THEN
        given := _idem_lease(lease, 'lease');
    END IF;
    IF owner IS NOT NULL THEN
        PERFORM _idem_check_owner(owner);
    END IF;
    IF wait IS NOT NULL THEN
        until := _idem_wait_until(wait);
    END IF;
    IF NOT _idem_is_distributed() THEN -- as in _idem_claim_outcome
        SELECT l.scope, l.ttl, l.keep_forever, clock_timestamp(), (l.stored).key IS NULL,
               (l.stored).state = 'c' AND (l.stored).expires_at > clock_timestamp() AND ($2 IS NULL OR (l.stored).fingerprint = $2),
               (l.stored).attempt, (l.stored).status_code, (l.stored).response, (l.stored).response_omitted
          INTO space, retention, is_kept, now, is_absent, is_done, stored.attempt, stored.status_code, stored.response, stored.response_omitted
          FROM _idem_read_key($7, $1) l WHERE $2 IS NULL OR octet_length($2) BETWEEN 1 AND 255;
        IF ttl IS NOT NULL THEN
            retention := _idem_retention(retention, is_kept, ttl);
        END IF;
        IF is_done THEN
            RETURN ROW('completed', NULL, stored.attempt, NULL, stored.status_code, stored.response, stored.response_omitted IS NOT NULL, NULL, NULL)::idem_ticket;
        ELSIF is_absent AND _idem_may_insert(space, key) THEN
            IF given IS NOT NULL THEN
                lease_until := _idem_until(now, given, 'lease');
                next_fence := _idem_next_fence(0);
            END IF;
            lease_until := _idem_insert_key(space, key, now, _idem_until(now, retention, 'ttl'), lease_until, next_fence, owner, fingerprint);
            IF lease_until IS NOT NULL THEN
                RETURN ROW('acquired', next_fence, 1, CASE WHEN given IS NOT NULL THEN lease_until END, NULL, NULL, NULL, NULL, NULL)::idem_ticket;
            END IF;
        END IF;
    END IF;
    PERFORM _idem_check_key(key), _idem_check_fingerprint(fingerprint);
    policy := _idem_policy(scope);
    RETURN _idem_ticket(_idem_claim('idem_begin()', policy.scope, key, fingerprint, owner, _idem_retention(policy.ttl, policy.keep_forever, ttl), given,
                                    policy.is_manual, false, until));
END
$$;

CREATE FUNCTION idem_begin LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
WHEN @is_plain@ AND octet_length(fingerprint) = 33 IS NOT FALSE AND wait = '0' IS NOT FALSE
<<quick>>
DECLARE
    given_key     ALIAS FOR $1;
    given_ttl     ALIAS FOR $3;
    given_scope   ALIAS FOR $7;
    now           timestamptz;
    until         timestamptz;
    leased        timestamptz;
    is_registered boolean;
    is_done       boolean;
    attempts      integer;
    code          integer;
    body          jsonb;
    is_omitted    boolean;
    next_fence    bigint;
BEGIN
    IF NOT _idem_is_distributed() THEN
        SELECT clock_timestamp(), EXISTS (SELECT FROM ONLY idem_scopes s WHERE @of_scope@),
               k.state = 'c' AND k.expires_at > clock_timestamp() AND ($2 IS NULL OR k.fingerprint = $2),
               k.attempt, k.status_code, k.response, k.response_omitted IS NOT NULL
          INTO now, is_registered, is_done, attempts, code, body, is_omitted FROM (SELECT) w LEFT JOIN ONLY idem_keys k ON @of_key@;
        IF is_done AND @is_common@ AND $4 IS NULL AND $5 IS NULL THEN
            RETURN ROW('completed', NULL, attempts, NULL, code, body, is_omitted, NULL, NULL)::idem_ticket;
        ELSIF (attempts IS NULL AND @is_common@ AND $4 IS NULL AND $5 IS NULL AND @may_insert@) IS NOT TRUE THEN
            EXIT quick WHEN @is_common@ AND $4 IS NULL AND $5 IS NULL OR $5 = '';
            IF NOT (@is_common@) THEN
                @set_until@;
            END IF;
            IF $4 IS NOT NULL THEN
                EXIT quick WHEN NOT ($4 > '0' AND $4 <= '24 hours' AND date_part('day', $4) = 0 AND date_part('month', $4) = 0 AND current_setting('idem.max_lease', true) IS NULL);
                leased := now + $4;
                next_fence := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; -- as _idem_next_fence
            END IF;
            IF is_done THEN
                RETURN ROW('completed', NULL, attempts, NULL, code, body, is_omitted, NULL, NULL)::idem_ticket;
            END IF;
            EXIT quick WHEN (attempts IS NULL AND @may_insert@) IS NOT TRUE;
        END IF;
        INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key, lease_until, fence, owner, fingerprint)
        VALUES (now, coalesce(until, now + interval '24 hours'), 1, CASE WHEN leased IS NULL THEN 'c' ELSE 'p' END, coalesce(given_scope, ''), given_key, leased, next_fence, $5, $2)
        ON CONFLICT (scope, key) DO NOTHING;
        IF FOUND THEN
            IF clock_timestamp() > now + interval '5 ms' THEN
                @restart: RETURNING k.lease_until INTO leased@;
            END IF;
            RETURN ROW('acquired', next_fence, 1, leased, NULL, NULL, NULL, NULL, NULL)::idem_ticket;
        END IF;
    END IF;
END
ELSE
    RETURN _idem_begin(key, fingerprint, ttl, lease, owner, wait, scope);
$$;

-- --- What the holder of a key does with it. The fence decides. -----------------------------------------------------------------------

CREATE FUNCTION _idem_raise_stale(key text, has_fence boolean) RETURNS void LANGUAGE plpgsql INNER AS $$
BEGIN
    IF has_fence THEN
        RAISE EXCEPTION USING ERRCODE = 'ID001', MESSAGE = format('key "%s" is not held with this fence', key),
            DETAIL = 'It was taken over, settled, released, removed or found in doubt meanwhile, or never claimed.',
            HINT = 'Roll back; begin the key again to learn what became of it.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'ID001', MESSAGE = format('key "%s" was not claimed by this transaction', key),
        DETAIL = 'Without a fence, a response is attached to a claim of the same transaction.',
        HINT = 'Claim and complete in one transaction, on one connection; a leased key needs its fence. Is autocommit on?';
END
$$;

-- The scope and its policy, for a call with a key and its fence.
CREATE FUNCTION _idem_holder_policy(key text, fence bigint, scope text) RETURNS record LANGUAGE plpgsql STABLE INNER AS $$
DECLARE
    policy record;
BEGIN
    PERFORM _idem_check_key(key);
    policy := _idem_policy(scope);
    IF fence IS NULL THEN
        PERFORM _idem_null('fence');
    END IF;
    RETURN policy;
END
$$;

-- The key's row, locked until the transaction ends, if it is held with the fence. ID001 otherwise. `accepts`: the states in which the change is allowed.
CREATE FUNCTION _idem_held(wanted_scope text, wanted_key text, given bigint, accepts text[], function text) RETURNS idem_keys LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    stored idem_keys;
BEGIN
    SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
    IF stored.fence = given AND stored.state = ANY (accepts) THEN
        PERFORM _idem_require_writable(function);
    END IF;
    IF NOT current_setting('transaction_read_only')::boolean THEN
        PERFORM _idem_enter_keys();
        SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C" FOR NO KEY UPDATE;
    END IF;
    IF stored.fence = given AND stored.state = ANY (accepts) THEN
        RETURN stored;
    ELSIF stored.key IS NULL THEN
        PERFORM _idem_require_in_snapshot('@extschema@.idem_keys', wanted_scope, wanted_key, 'infinity');
    END IF;
    PERFORM _idem_raise_stale(wanted_key, true);
END
$$;

-- Lets the next caller have a key that is held: for other work, too, unless a step was made.
CREATE FUNCTION _idem_release(wanted_scope text, wanted_key text) RETURNS void LANGUAGE plpgsql VOLATILE INNER AS $$
BEGIN
    UPDATE ONLY idem_keys k SET state = 'r', lease_until = NULL, fingerprint = CASE WHEN k.steps IS NOT NULL THEN k.fingerprint END
     WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
END
$$;

CREATE FUNCTION idem_step LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
    stored idem_keys;
    before jsonb;
    after  jsonb;
BEGIN
    policy := _idem_holder_policy(key, fence, scope);
    PERFORM _idem_check_key(step, 'step');
    IF output = 'null' THEN
        PERFORM _idem_invalid('output must not be the JSON value null', 'Among the steps of a key, null says that a step is intended.',
            'For a step without output, give an empty object.');
    END IF;
    stored := _idem_held(policy.scope, key, fence, '{p}', 'idem_step()');
    before := stored.steps -> step;
    IF before IS NOT NULL AND (output IS NULL OR before = output) THEN
        RETURN false;
    END IF;
    IF before <> 'null' THEN
        RAISE EXCEPTION USING ERRCODE = 'ID001', MESSAGE = format('step "%s" of key "%s" is done with another output', step, key),
            HINT = 'Use the stored output, which the ticket and idem_lookup have in their steps.';
    END IF;
    after := coalesce(stored.steps, '{}') || jsonb_build_object(step, output);
    IF _idem_size(after) > policy.max_response_size THEN
        RAISE program_limit_exceeded USING MESSAGE = 'steps are too large',
            DETAIL = format('They would have %s bytes; the scope allows %s.', _idem_size(after), policy.max_response_size),
            HINT = 'Store less, or raise max_response_size of the scope, or the setting idem.max_response_size.';
    END IF;
    UPDATE ONLY idem_keys k SET steps = after WHERE k.scope = policy.scope AND k.key = $1 COLLATE "C";
    RETURN true;
END
$$;

CREATE FUNCTION idem_renew LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
    span   interval;
    until  timestamptz;
BEGIN
    policy := _idem_holder_policy(key, fence, scope);
    span := CASE WHEN lease IS NULL THEN policy.lease ELSE _idem_lease(lease, 'lease') END;
    PERFORM _idem_held(policy.scope, key, fence, '{p}', 'idem_renew()');
    until := _idem_deadline(clock_timestamp(), span, 'lease');
    UPDATE ONLY idem_keys k SET lease_until = until WHERE k.scope = policy.scope AND k.key = $1 COLLATE "C";
    RETURN until;
END
$$;

-- Gives back a claim of this transaction without a lease: the key is as before the claim. A first attempt had no row, or an expired one.
CREATE FUNCTION _idem_withdraw(wanted_scope text, wanted_key text, is_manual boolean) RETURNS void LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    stored idem_keys;
    before idem_keys;
BEGIN
    SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
    IF stored.state = 'c' AND stored.fence IS NULL AND stored.completed_at IS NULL AND _idem_wrote(wanted_scope, wanted_key) THEN
        PERFORM _idem_require_writable('idem_release()');
    ELSE
        RAISE EXCEPTION USING ERRCODE = 'ID001', MESSAGE = format('key "%s" is no open claim of this transaction', wanted_key),
            DETAIL = 'Without a fence, a claim without a lease is given back, by the transaction that made it and before a call completes it.',
            HINT = 'A leased key needs its fence. Is autocommit on?';
    END IF;
    IF stored.attempt > 1 AND _idem_is_distributed() THEN
        before := stored;
        before.attempt := stored.attempt - 1;
        before.state := 'r';
    ELSIF stored.attempt > 1 THEN
        DELETE FROM ONLY _idem_replaced_keys r WHERE r.scope = wanted_scope COLLATE "C" AND r.key = wanted_key COLLATE "C" RETURNING * INTO before;
    END IF;
    IF before.key IS NULL OR _idem_is_expired(before, clock_timestamp(), is_manual) THEN
        DELETE FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
    ELSE
        PERFORM _idem_replace_key(before);
    END IF;
END
$$;

CREATE FUNCTION idem_release LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
BEGIN
    IF fence IS NULL THEN
        PERFORM _idem_check_key(key);
        policy := _idem_policy(scope);
        PERFORM _idem_withdraw(policy.scope, key, policy.is_manual);
        RETURN true;
    END IF;
    policy := _idem_holder_policy(key, fence, scope);
    PERFORM _idem_held(policy.scope, key, fence, '{p}', 'idem_release()');
    PERFORM _idem_release(policy.scope, key);
    RETURN true;
END
$$;

-- Of a response as it is stored, in bytes.
CREATE FUNCTION _idem_size(body jsonb) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT pg_column_size(CASE jsonb_typeof(body) WHEN 'object' THEN body || '{}' ELSE body || '[]' END) - 4
$$;

CREATE FUNCTION _idem_same_response(stored idem_keys, body jsonb, code integer, is_stored boolean) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT stored.status_code IS NOT DISTINCT FROM code
       AND CASE WHEN stored.response_omitted IS NOT NULL THEN NOT is_stored ELSE is_stored AND stored.response IS NOT DISTINCT FROM body END
$$;

-- Completes a key. `fallback`: what to store when the response is too large; without a response, the caller omits it. Returns whether the response is stored.
CREATE FUNCTION _idem_complete(function text, policy_scope text, most integer, wanted_key text, body jsonb, code integer, given bigint, fallback jsonb)
RETURNS boolean LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    stored    idem_keys;
    size      integer := _idem_size(body);
    is_stored boolean := CASE WHEN body IS NULL THEN fallback IS NULL ELSE size <= most END;
    now       timestamptz := clock_timestamp();
BEGIN
    IF given IS NULL AND is_stored AND NOT _idem_is_distributed() AND NOT current_setting('transaction_read_only')::boolean THEN
        -- Most are claims of this transaction outside of its subtransactions.
        UPDATE ONLY idem_keys k SET
            expires_at = _idem_moved(k.expires_at, coalesce(k.completed_at, k.created_at), now), completed_at = now,
            status_code = code, response = body, response_omitted = NULL
         WHERE k.scope = policy_scope AND k.key = wanted_key COLLATE "C" AND k.state = 'c' AND k.fence IS NULL AND k.xmin = pg_current_xact_id_if_assigned()::xid;
        IF FOUND THEN
            RETURN true;
        END IF;
    END IF;
    SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = policy_scope AND k.key = wanted_key COLLATE "C";
    IF given IS NULL THEN
        IF stored.state = 'c' AND stored.fence IS NULL AND _idem_wrote(policy_scope, wanted_key) THEN
            NULL; -- the claim of this transaction
        ELSE
            PERFORM _idem_raise_stale(wanted_key, false);
        END IF;
    ELSE
        IF stored.fence = given AND stored.state = 'c' AND _idem_same_response(stored, body, code, is_stored) THEN
            RETURN is_stored;
        ELSIF NOT current_setting('transaction_read_only')::boolean THEN
            PERFORM _idem_enter_keys();
            SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = policy_scope AND k.key = wanted_key COLLATE "C" FOR NO KEY UPDATE;
        END IF;
        IF stored.fence = given AND stored.state = 'c' AND _idem_same_response(stored, body, code, is_stored) THEN
            RETURN is_stored;
        ELSIF stored.fence = given AND stored.state IN ('p', 'd') THEN
            NULL; -- held
        ELSE
            IF stored.key IS NULL THEN
                PERFORM _idem_require_in_snapshot('@extschema@.idem_keys', policy_scope, wanted_key, 'infinity');
            END IF;
            PERFORM _idem_raise_stale(wanted_key, true);
        END IF;
    END IF;
    PERFORM _idem_require_writable(function);
    now := clock_timestamp();
    IF NOT is_stored THEN
        body := CASE WHEN _idem_size(fallback) <= most THEN fallback END;
    END IF;
    UPDATE ONLY idem_keys k SET
        expires_at = _idem_moved(k.expires_at, coalesce(k.completed_at, k.created_at), now), completed_at = now, state = 'c', lease_until = NULL,
        status_code = code, response = body, response_omitted = CASE WHEN NOT is_stored THEN true END
     WHERE k.scope = policy_scope AND k.key = wanted_key COLLATE "C";
    IF size > most THEN
        RAISE WARNING USING ERRCODE = 'program_limit_exceeded', MESSAGE = 'response was not stored',
            DETAIL = format('It has %s bytes; the scope allows %s.', size, most),
            HINT = 'Raise max_response_size of the scope, or the setting idem.max_response_size.';
    END IF;
    RETURN is_stored;
END
$$;

CREATE FUNCTION _idem_complete_response(key text, response jsonb, status_code integer, fence bigint, scope text) RETURNS boolean LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    policy record;
    space  text;
    most   integer;
BEGIN
    IF NOT _idem_is_distributed() THEN -- Citus plans no such function with a parameter
        SELECT p.scope, p.max_response_size INTO space, most FROM _idem_scope_of($5) p;
    END IF;
    IF space IS NULL OR key IS NULL OR octet_length(key) NOT BETWEEN 1 AND 1024 THEN
        PERFORM _idem_check_key(key);
        policy := _idem_policy(scope);
        space := policy.scope;
        most := policy.max_response_size;
    END IF;
    RETURN _idem_complete('idem_complete()', space, most, key, response, status_code, fence, NULL);
END
$$;

-- Most are claims of this transaction outside of its subtransactions, with a response that is small, also if it is compressed.
CREATE FUNCTION idem_complete LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
WHEN fence IS NULL AND @is_plain@ AND pg_column_size(response) < 4000 IS NOT FALSE AND current_setting('transaction_read_only') = 'off'
    AND current_setting('idem.max_response_size', true) IS NULL
DECLARE
    given_key   ALIAS FOR $1;
    given_scope ALIAS FOR $5;
    now         timestamptz;
BEGIN
    IF NOT _idem_is_distributed() THEN
        now := clock_timestamp();
        UPDATE ONLY idem_keys k SET expires_at = k.expires_at + extract(epoch FROM now - coalesce(k.completed_at, k.created_at))::float8 * interval '1 s',
            completed_at = now, status_code = $3, response = $2, response_omitted = NULL
         WHERE @of_key@ AND k.state = 'c' AND k.fence IS NULL AND k.xmin = pg_current_xact_id_if_assigned()::xid
           AND NOT EXISTS (SELECT FROM ONLY idem_scopes s WHERE @of_scope@ AND (s.max_response_size IS NOT NULL OR s.owner IS NOT NULL));
        IF FOUND THEN
            RETURN FOUND;
        END IF;
    END IF;
END
ELSE
    RETURN _idem_complete_response(key, response, status_code, fence, scope);
$$;

-- --- Questions ------------------------------------------------------------------------------------------------------------------------

-- The live key that the snapshot sees; no row: there is none.
CREATE FUNCTION _idem_live(wanted_scope text, wanted_key text, is_manual boolean) RETURNS SETOF idem_keys LANGUAGE plpgsql STABLE INNER AS $$
DECLARE
    stored idem_keys;
BEGIN
    SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
    IF FOUND AND NOT _idem_is_expired(stored, clock_timestamp(), is_manual) THEN
        RETURN NEXT stored;
    END IF;
END
$$;

CREATE FUNCTION idem_lookup LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
BEGIN
    PERFORM _idem_check_key(key);
    policy := _idem_policy(scope);
    RETURN QUERY SELECT CASE k.state WHEN 'p' THEN 'in_progress' WHEN 'c' THEN 'completed' WHEN 'r' THEN 'released' ELSE 'in_doubt' END,
            k.status_code, k.response, k.response_omitted IS NOT NULL, k.attempt, k.steps, k.created_at, k.expires_at, k.lease_until
        FROM _idem_live(policy.scope, $1 COLLATE "C", policy.is_manual) k;
END
$$;

CREATE FUNCTION idem_is_owner LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
BEGIN
    PERFORM _idem_check_key(key);
    IF owner IS NULL THEN
        PERFORM _idem_null('owner');
    END IF;
    policy := _idem_policy(scope);
    RETURN EXISTS (SELECT FROM _idem_live(policy.scope, $1 COLLATE "C", policy.is_manual) k WHERE k.owner = $2 COLLATE "C");
END
$$;

CREATE FUNCTION idem_serialize LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
BEGIN
    PERFORM _idem_check_key(key);
    policy := _idem_policy(scope);
    PERFORM pg_advisory_xact_lock(_idem_hash(policy.scope, key, 8104));
    RETURN true;
END
$$;

-- --- Operators ------------------------------------------------------------------------------------------------------------------------

-- The key's row after all who hold it have ended, locked; NULL: there is none.
CREATE FUNCTION _idem_settled(function text, wanted_scope text, wanted_key text) RETURNS idem_keys LANGUAGE plpgsql VOLATILE INNER AS $$
DECLARE
    stored idem_keys;
BEGIN
    IF NOT current_setting('transaction_read_only')::boolean THEN
        -- A holder that has not committed is not to be seen. It has the hint, unless it came by another way. The hint is not kept: a call that finds it
        -- taken answers that the key is in flight.
        PERFORM _idem_await(wanted_scope, wanted_key, 'infinity', false);
        SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C" FOR UPDATE;
    ELSE
        SELECT * INTO stored FROM ONLY idem_keys k WHERE k.scope = wanted_scope COLLATE "C" AND k.key = wanted_key COLLATE "C";
    END IF;
    IF stored.key IS NULL THEN
        PERFORM _idem_require_in_snapshot('@extschema@.idem_keys', wanted_scope, wanted_key, 'infinity');
    END IF;
    RETURN stored;
END
$$;

CREATE FUNCTION idem_forget LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
    stored idem_keys;
BEGIN
    PERFORM _idem_check_key(key);
    policy := _idem_policy(scope);
    stored := _idem_settled('idem_forget()', policy.scope, key);
    IF stored.key IS NULL THEN
        RETURN false;
    END IF;
    PERFORM _idem_require_writable('idem_forget()');
    DELETE FROM ONLY idem_keys k WHERE k.scope = policy.scope AND k.key = $1 COLLATE "C";
    RETURN NOT _idem_is_expired(stored, clock_timestamp(), policy.is_manual);
END
$$;

CREATE FUNCTION idem_resolve LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
    stored idem_keys;
BEGIN
    PERFORM _idem_check_key(key);
    IF resolution IS NULL THEN
        PERFORM _idem_null('resolution');
    ELSIF resolution NOT IN ('completed', 'released') THEN
        PERFORM _idem_invalid(format('unknown resolution "%s"', resolution), hint => 'Use ''completed'' or ''released''.');
    ELSIF resolution = 'released' AND (response IS NOT NULL OR status_code IS NOT NULL) THEN
        PERFORM _idem_invalid('a released key has no response and no status code');
    END IF;
    policy := _idem_policy(scope);
    stored := _idem_settled('idem_resolve()', policy.scope, key);
    IF stored.key IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('there is no key "%s"', key);
    ELSIF stored.state IN ('c', 'r') THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('key "%s" is neither in doubt nor abandoned', key),
            DETAIL = format('It is %s.', CASE stored.state WHEN 'c' THEN 'completed' ELSE 'released' END);
    ELSIF stored.state = 'p' AND stored.lease_until > clock_timestamp() THEN
        RAISE EXCEPTION USING ERRCODE = 'ID005', MESSAGE = format('key "%s" is in flight', key),
            DETAIL = format('Its holder''s lease ends at %s.', stored.lease_until), HINT = 'Wait for the lease''s end, or use idem_forget.';
    END IF;
    PERFORM _idem_require_writable('idem_resolve()');
    -- The holder may still be running. The new fence makes its changes stale.
    stored.fence := _idem_next_fence(stored.fence);
    UPDATE ONLY idem_keys k SET fence = stored.fence WHERE k.scope = policy.scope AND k.key = $1 COLLATE "C";
    IF resolution = 'completed' THEN
        PERFORM _idem_complete('idem_resolve()', policy.scope, policy.max_response_size, key, response, status_code, stored.fence, NULL);
    ELSE
        PERFORM _idem_release(policy.scope, key);
    END IF;
END
$$;

CREATE FUNCTION idem_redact LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy record;
    stored idem_keys;
BEGIN
    PERFORM _idem_check_key(key);
    policy := _idem_policy(scope);
    stored := _idem_settled('idem_redact()', policy.scope, key);
    IF stored.state = 'c' AND (stored.response IS NOT NULL OR stored.steps IS NOT NULL) THEN
        PERFORM _idem_require_writable('idem_redact()');
        UPDATE ONLY idem_keys k SET response_omitted = CASE WHEN k.response IS NOT NULL THEN true ELSE k.response_omitted END, response = NULL, steps = NULL
         WHERE k.scope = policy.scope AND k.key = $1 COLLATE "C";
        RETURN true;
    END IF;
    RETURN false;
END
$$;
