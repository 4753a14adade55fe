-- Tokens are texts as those of the C edition (extension/src/core/token.hpp), signed with this database's secrets.

CREATE FUNCTION _idem_token_mac(secret bytea, head bytea, scope text, subject text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    space bytea := convert_to(scope, 'UTF8');
    who   bytea := convert_to(subject, 'UTF8');
BEGIN
    RETURN _idem_hmac(secret, head || int4send(octet_length(space)) || space || int4send(octet_length(who)) || who);
END
$$;

CREATE FUNCTION _idem_token_secret_damaged(key_id integer) RETURNS bytea LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE data_corrupted USING MESSAGE = format('secret %s of idem_token_secrets is damaged', key_id), HINT = 'Delete the row; its tokens are lost.';
END
$$;

-- The secrets of this database: each verifies what it could have signed before its successor was known to all.
CREATE FUNCTION _idem_token_secrets(OUT key_id integer, OUT secret bytea, OUT max_expiry timestamptz) RETURNS SETOF record LANGUAGE sql VOLATILE AS $$
    SELECT s.key_id, CASE WHEN octet_length(s.secret) = 32 THEN s.secret ELSE _idem_token_secret_damaged(s.key_id) END, lag(s.created_at) OVER newest_first + interval '192 hours'
      FROM ONLY idem_token_secrets s
     WHERE s.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    WINDOW newest_first AS (ORDER BY s.key_id DESC, s.created_at DESC)
     ORDER BY s.key_id DESC, s.created_at DESC
$$;

CREATE FUNCTION _idem_token_secret_create(always boolean, revoke boolean, function text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    here CONSTANT oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    now  timestamptz;
    newest integer;
    doomed record;
    verifies_until timestamptz := 'infinity';
BEGIN
    PERFORM _idem_require_writable(function);
    LOCK TABLE ONLY idem_token_secrets IN SHARE ROW EXCLUSIVE MODE;
    IF NOT always AND EXISTS (SELECT FROM _idem_token_secrets()) THEN
        RETURN;
    END IF;
    SELECT max(s.key_id) INTO newest FROM ONLY idem_token_secrets s;
    IF newest = 2147483647 THEN
        RAISE sequence_generator_limit_exceeded USING MESSAGE = 'the key ids of idem_token_secrets are used up';
    END IF;
    now := clock_timestamp();
    FOR doomed IN SELECT s.ctid, s.database, s.created_at FROM ONLY idem_token_secrets s ORDER BY s.key_id DESC, s.created_at DESC LOOP
        IF revoke OR doomed.database <> here OR verifies_until < now THEN
            DELETE FROM ONLY idem_token_secrets s WHERE s.ctid = doomed.ctid;
        END IF;
        IF doomed.database = here THEN
            verifies_until := doomed.created_at + interval '192 hours';
        END IF;
    END LOOP;
    INSERT INTO idem_token_secrets (key_id, database, created_at, secret) VALUES (coalesce(newest, 0) + 1, here, now, _idem_random());
END
$$;

CREATE FUNCTION idem_token_rotate_secret LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM _idem_require_fresh_snapshots('idem_token_rotate_secret()');
    PERFORM _idem_token_secret_create(true, coalesce(revoke, false), 'idem_token_rotate_secret()');
END
$$;

CREATE FUNCTION idem_token_issue LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy  record;
    span    interval := interval '30 min';
    signing record;
    head    bytea;
    until   timestamptz;
BEGIN
    IF ttl IS NOT NULL THEN
        span := _idem_positive_span(ttl, 'ttl');
        IF span > interval '168 hours' THEN
            PERFORM _idem_invalid('ttl must not be longer than 7 days');
        END IF;
    END IF;
    policy := _idem_policy(scope);
    SELECT * INTO signing FROM _idem_token_secrets() LIMIT 1;
    IF NOT FOUND THEN
        PERFORM _idem_token_secret_create(false, false, 'idem_token_issue()');
        SELECT * INTO signing FROM _idem_token_secrets() LIMIT 1;
    END IF;
    until := _idem_deadline(clock_timestamp(), span, 'ttl');
    head := '\x01'::bytea || int4send(signing.key_id) || timestamptz_send(until) || substr(_idem_random(), 1, 16);
    RETURN _idem_base64url(head || _idem_token_mac(signing.secret, head, policy.scope, coalesce(subject, '')));
END
$$;

CREATE FUNCTION idem_token_redeem LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    policy record;
    bytes  bytea;
    head   bytea;
    limit_of_secret timestamptz;
    micros bigint;
    until  timestamptz;
    now    timestamptz;
    name   text;
BEGIN
    IF token IS NULL THEN
        PERFORM _idem_null('token');
    END IF;
    policy := _idem_policy(idem_token_redeem.scope);
    bytes := _idem_from_base64url(token, 61);
    IF bytes IS NULL OR get_byte(bytes, 0) <> 1 THEN
        RETURN 'invalid';
    END IF;
    head := substr(bytes, 1, 29);
    SELECT coalesce(s.max_expiry, 'infinity') INTO limit_of_secret FROM _idem_token_secrets() s
     WHERE int4send(s.key_id) = substr(bytes, 2, 4)
       AND _idem_same_mac(_idem_token_mac(s.secret, head, policy.scope, coalesce(subject, '')), substr(bytes, 30)) LIMIT 1;
    IF NOT FOUND THEN
        RETURN 'invalid';
    END IF;
    micros := ('x' || encode(substr(bytes, 6, 8), 'hex'))::bit(64)::bigint;
    until := timestamptz '2000-01-01 00:00:00+00' + micros / 1000000 * interval '1 s' + micros % 1000000 * interval '1 us';
    IF until > limit_of_secret THEN
        RETURN 'invalid';
    END IF;
    now := clock_timestamp();
    IF until <= now THEN
        RETURN 'expired';
    END IF;
    name := _idem_base64url(substr(bytes, 6, 24));
    IF EXISTS (SELECT FROM ONLY idem_tokens t WHERE t.scope = policy.scope AND t.key = name) THEN
        RETURN 'duplicate';
    END IF;
    PERFORM _idem_require_writable('idem_token_redeem()');
    IF NOT pg_try_advisory_xact_lock(_idem_hash(policy.scope, name, 8105)) THEN
        PERFORM _idem_require_in_snapshot('@extschema@.idem_tokens', policy.scope, name, now);
        RETURN 'in_flight';
    END IF;
    INSERT INTO idem_tokens (created_at, expires_at, attempt, state, scope, key)
    VALUES (now, until + interval '24 hours', 1, 'c', policy.scope, name) ON CONFLICT (scope, key) DO NOTHING;
    RETURN CASE WHEN NOT FOUND THEN 'duplicate' WHEN until <= clock_timestamp() THEN 'expired' ELSE 'accepted' END::idem_token_outcome;
END
$$;
