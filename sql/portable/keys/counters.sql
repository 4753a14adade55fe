CREATE FUNCTION idem_hit LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy record;
    span   interval;
    now    timestamptz;
    until  timestamptz;
    counted bigint;
    ends   timestamptz;
BEGIN
    PERFORM _idem_check_key(idem_hit.key);
    policy := _idem_policy(idem_hit.scope);
    span := _idem_retention(policy.ttl, policy.keep_forever, idem_hit.ttl);
    now := clock_timestamp();
    until := _idem_deadline(now, span, 'ttl');
    PERFORM _idem_require_writable('idem_hit()');
    INSERT INTO idem_counters AS c (expires_at, hits, scope, key) VALUES (until, 1, policy.scope, idem_hit.key)
    ON CONFLICT (scope, key) DO UPDATE SET hits = CASE WHEN c.expires_at > now THEN c.hits + 1 ELSE 1 END,
        expires_at = CASE WHEN c.expires_at > now THEN c.expires_at ELSE until END
    RETURNING hits, expires_at INTO counted, ends;
    IF _idem_has_waited(now) THEN -- the window may be over, or have begun before the wait; the row is this transaction's now
        now := clock_timestamp();
        IF counted = 1 OR ends <= now THEN
            counted := 1;
            UPDATE ONLY idem_counters c SET hits = 1, expires_at = _idem_deadline(now, span, 'ttl')
             WHERE c.scope = policy.scope AND c.key = idem_hit.key COLLATE "C";
        END IF;
    END IF;
    RETURN counted;
END
$$;

CREATE FUNCTION idem_hits LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy record;
BEGIN
    PERFORM _idem_check_key(idem_hits.key);
    policy := _idem_policy(idem_hits.scope);
    RETURN QUERY SELECT c.hits, c.expires_at FROM ONLY idem_counters c
                  WHERE c.scope = policy.scope AND c.key = idem_hits.key COLLATE "C" AND c.expires_at > clock_timestamp();
END
$$;
