-- Token buckets: extension/src/core/token_bucket.hpp. full_at is in nanoseconds since 2000, and so is all arithmetic here.
--
-- A call that is refused by what has committed writes nothing and locks nothing: what an open transaction has taken could not make room. All other
-- calls decide once more with the row locked, at the time when they have it, and again if the change has waited for the table: no unit is granted twice
-- however long they waited.
CREATE FUNCTION idem_allow LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    wanted    text COLLATE "C" := $1;
    units     bigint := coalesce($4, 1);
    space     text COLLATE "C";
    refill    bigint; -- of one unit
    capacity  bigint;
    stored    idem_rates;
    is_locked boolean := false;
    is_own    boolean := false; -- the row is this call's own by now: `stored` is what it was before
    now       timestamptz;
    present   bigint;
    debt_at   bigint; -- when the debt was computed
    before    bigint;
    after     bigint;
    expiry    timestamptz;
BEGIN
    IF wanted IS NULL OR octet_length(wanted) NOT BETWEEN 1 AND 1024 THEN
        PERFORM _idem_check_key(wanted, 'name');
    ELSIF $2 IS NULL THEN
        PERFORM _idem_null('rate');
    ELSIF $3 IS NULL THEN
        PERFORM _idem_null('burst');
    ELSIF $3 <= 0 THEN
        PERFORM _idem_invalid('burst must be positive');
    ELSIF NOT ($2 >= 1e-10 AND $2 <= 1e9) OR ceil(1e9 / greatest($2, 1e-10)) * $3 > 3.15576e18 THEN
        PERFORM _idem_invalid('rate is out of range', 'It is in units a second: more than 0, at most 1e9, and the burst must come back within 100 years.');
    ELSIF units <= 0 THEN
        PERFORM _idem_invalid('cost must be positive');
    ELSIF units > $3 THEN
        PERFORM _idem_invalid('cost must not be more than burst', format('A cost of %s would never be allowed by a burst of %s.', units, $3));
    END IF;
    space := (_idem_policy($5 COLLATE "C")).scope;
    PERFORM _idem_require_writable('idem_allow()');
    refill := ceil(1e9::float8 / $2)::bigint;
    capacity := refill * $3;
    LOOP
        IF is_locked AND NOT is_own THEN
            SELECT * INTO stored FROM ONLY idem_rates r WHERE r.scope = space AND r.key = wanted FOR NO KEY UPDATE;
        ELSIF NOT is_own THEN
            SELECT * INTO stored FROM ONLY idem_rates r WHERE r.scope = space AND r.key = wanted;
        END IF;
        now := clock_timestamp();
        present := ((extract(epoch FROM now) * 1000000)::bigint - 946684800000000) * 1000;
        before := present;
        IF stored.full_at IS NOT NULL THEN
            -- The debt counts for at most the present burst at the present rate. A clock that was set back does not change it.
            debt_at := ((extract(epoch FROM least(greatest(stored.as_of, now - interval '876600 hours'), now + interval '876600 hours')) * 1000000)::bigint
                        - 946684800000000) * 1000;
            before := greatest(present, least(debt_at, present) + least(greatest(stored.full_at, debt_at), debt_at + capacity) - debt_at);
        END IF;
        after := before + refill * units;
        allowed := after - present <= capacity;
        remaining := (capacity - (CASE WHEN allowed THEN after ELSE before END - present)) / refill;
        retry_after_ms := NULL;
        IF NOT allowed THEN
            retry_after_ms := least((after - present - capacity + 999999) / 1000000, 2147483647);
            IF stored.as_of <= now THEN
                RETURN;
            END IF;
            after := before; -- retry_after counts from a clock that was set back
        END IF;
        expiry := timestamptz '2000-01-01 00:00:00+00' + ((after + 999) / 1000) * interval '1 us';
        IF is_own OR is_locked AND stored.full_at IS NOT NULL THEN
            UPDATE ONLY idem_rates r SET expires_at = expiry, as_of = now, full_at = after WHERE r.scope = space AND r.key = wanted;
            EXIT WHEN is_own OR NOT _idem_has_waited(now);
            is_own := true;
        ELSIF stored.full_at IS NULL THEN
            INSERT INTO idem_rates (expires_at, as_of, full_at, scope, key) VALUES (expiry, now, after, space, wanted) ON CONFLICT (scope, key) DO NOTHING;
            EXIT WHEN FOUND AND NOT _idem_has_waited(now);
            is_own := FOUND;
        END IF;
        is_locked := true;
    END LOOP;
END
$$;
