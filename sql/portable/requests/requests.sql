-- What is signed: extension/src/requests/request_message.hpp.

-- An object or array as it is signed: the server writes JSON strings as RFC 8785 does. 54000: nested too deep.
CREATE FUNCTION _idem_signed(given jsonb, depth integer) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    signed text;
BEGIN
    IF depth > 100 THEN
        RAISE program_limit_exceeded USING MESSAGE = 'the request is nested too deep',
            DETAIL = format('Objects and arrays must not be nested more than %s deep.', 100);
    ELSIF jsonb_typeof(given) = 'object' THEN
        SELECT '{' || coalesce(string_agg(to_json(m.key)::text || ':' || CASE jsonb_typeof(m.value)
                WHEN 'number' THEN trim_scale(m.value::numeric)::text
                WHEN 'object' THEN _idem_signed(m.value, depth + 1)
                WHEN 'array' THEN _idem_signed(m.value, depth + 1)
                ELSE m.value::text END, ',' ORDER BY convert_to(m.key, 'UTF8')), '') || '}' INTO signed
          FROM jsonb_each(given) m;
    ELSE
        SELECT '[' || coalesce(string_agg(CASE jsonb_typeof(e.value)
                WHEN 'number' THEN trim_scale(e.value::numeric)::text
                WHEN 'object' THEN _idem_signed(e.value, depth + 1)
                WHEN 'array' THEN _idem_signed(e.value, depth + 1)
                ELSE e.value::text END, ',' ORDER BY e.place), '') || ']' INTO signed
          FROM jsonb_array_elements(given) WITH ORDINALITY AS e (value, place);
    END IF;
    RETURN signed;
END
$$;

CREATE FUNCTION _idem_request_too_large() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE program_limit_exceeded USING MESSAGE = 'the request is too large', DETAIL = format('What is signed must not have more than %s bytes.', 1048576);
END
$$;

-- Microseconds since 1970; NULL: infinite, or too far ahead to be written so.
CREATE FUNCTION _idem_signed_at(at timestamptz) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    since_2000 bigint := ('x' || encode(timestamptz_send(at), 'hex'))::bit(64)::bigint;
BEGIN
    RETURN CASE WHEN isfinite(at) AND since_2000 <= 9223372036854775807 - 946684800000000 THEN since_2000 + 946684800000000 END;
END
$$;

-- The message, in the server's encoding. 54000; 22021 and 22P05: text without a form in UTF-8.
CREATE FUNCTION _idem_request_message(params jsonb, key_id text, micros bigint, nonce text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    most CONSTANT integer := 1048576;
    given   jsonb := params - '{}'::text[]; -- no change, but out of TOAST: its size is that of what it holds
    room    integer := most;
    message text;
    number  numeric;
BEGIN
    -- What is "1," in the message has 12 bytes in jsonb. Nothing has more for each byte.
    IF pg_column_size(given) > 8 * most OR octet_length(key_id) > most OR octet_length(nonce) > most THEN
        PERFORM _idem_request_too_large();
    ELSIF pg_column_size(given) > 2048 THEN
        -- A number of a few characters can be very long in plain decimal notation. A sender must not make the server write more than is used.
        FOR number IN
            SELECT n.value::numeric
              FROM jsonb_path_query(given, 'strict $.**{0 to 100} ? (@ >= 1e40 || @ <= -1e40 || @ < 1e-40 && @ > -1e-40 && @ != 0)') AS n (value)
        LOOP
            room := room - octet_length(trim_scale(number)::text);
            EXIT WHEN room < 0;
        END LOOP;
        IF room < 0 THEN
            PERFORM _idem_request_too_large();
        END IF;
    END IF;
    message := '["idem1",' || to_json(key_id)::text || ',' || micros || ',' || to_json(nonce)::text || ',' || _idem_signed(given, 1) || ']';
    IF octet_length(convert_to(message, 'UTF8')) > most THEN
        PERFORM _idem_request_too_large();
    END IF;
    RETURN message;
END
$$;

-- params, key_id, signed_at and nonce are not null, and params is an object.
CREATE FUNCTION _idem_check_request(params jsonb, key_id text, signed_at timestamptz, nonce text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF params IS NULL THEN
        PERFORM _idem_null('params');
    ELSIF jsonb_typeof(params) <> 'object' THEN
        PERFORM _idem_invalid('params must be a JSON object');
    ELSIF key_id IS NULL THEN
        PERFORM _idem_null('key_id');
    ELSIF signed_at IS NULL THEN
        PERFORM _idem_null('signed_at');
    ELSIF nonce IS NULL THEN
        PERFORM _idem_null('nonce');
    END IF;
END
$$;

CREATE FUNCTION idem_request_message LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _idem_check_request(params, key_id, signed_at, nonce);
    IF _idem_signed_at(signed_at) IS NULL THEN
        PERFORM _idem_invalid('signed_at is out of range');
    END IF;
    RETURN _idem_request_message(params, key_id, _idem_signed_at(signed_at), nonce);
END
$$;

-- A key of two parts, as idem_key makes it.
CREATE FUNCTION _idem_request_name(one text, other text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(replace(one, E'\\', E'\\\\'), ':', E'\\:') || ':' || replace(replace(other, E'\\', E'\\\\'), ':', E'\\:')
$$;

CREATE FUNCTION _idem_tolerance(given interval) RETURNS interval LANGUAGE plpgsql STABLE AS $$
DECLARE
    span interval;
BEGIN
    IF given IS NULL THEN
        RETURN interval '5 min';
    END IF;
    span := _idem_positive_span(given, 'tolerance');
    IF span > interval '168 hours' THEN
        PERFORM _idem_invalid('tolerance must not be longer than 7 days');
    END IF;
    RETURN span;
END
$$;

CREATE FUNCTION idem_verify_request LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    signer     text COLLATE "C" := $3;
    given      text COLLATE "C" := $2;
    once       text COLLATE "C" := $5;
    name       text COLLATE "C";
    allowed    interval;
    policy     record;
    now        timestamptz;
    message    bytea;
    stored     record;
    is_known   boolean := false;
    is_genuine boolean := false;
    claimed    _idem_claimed;
BEGIN
    IF $1 IS NULL OR jsonb_typeof($1) <> 'object' THEN
        PERFORM _idem_check_request($1, signer, $4, once);
    ELSIF given IS NULL THEN
        PERFORM _idem_null('signature');
    ELSIF signer IS NULL OR $4 IS NULL OR once IS NULL THEN
        PERFORM _idem_check_request($1, signer, $4, once);
    END IF;
    allowed := _idem_tolerance($6);
    policy := _idem_policy(coalesce($7, 'nonce') COLLATE "C");
    IF given !~ '^[0-9A-Fa-f]{64}$' OR _idem_signed_at($4) IS NULL OR once = '' THEN
        RETURN 'invalid';
    END IF;
    now := clock_timestamp();
    BEGIN
        message := convert_to(_idem_request_message($1, signer, _idem_signed_at($4), once), 'UTF8');
    EXCEPTION WHEN program_limit_exceeded OR character_not_in_repertoire OR untranslatable_character THEN
        RETURN 'invalid';
    END;
    FOR stored IN SELECT a.key_id, a.secret, octet_length(a.secret) > 64 AS is_damaged FROM ONLY idem_api_keys a
                   WHERE a.key_id = signer AND a.expires_at > now OR octet_length(a.secret) > 64
                   ORDER BY octet_length(a.secret) > 64 DESC, a.key_id LOOP
        IF stored.is_damaged THEN
            RAISE data_corrupted USING MESSAGE = format('a secret of API key "%s" is damaged', stored.key_id),
                HINT = 'Drop it with idem_api_key_drop, and set it again.';
        END IF;
        is_known := true;
        is_genuine := _idem_same_mac(_idem_hmac(stored.secret, message), decode(given, 'hex')) OR is_genuine;
    END LOOP;
    IF NOT is_known THEN -- an unknown key id takes as long as a known one
        PERFORM _idem_same_mac(_idem_hmac(decode(repeat('00', 32), 'hex'), message), decode(given, 'hex'));
    END IF;
    name := _idem_request_name(signer, once);
    IF NOT is_genuine OR octet_length(name) > 1024 THEN
        RETURN 'invalid';
    ELSIF $4 NOT BETWEEN now - allowed AND now + allowed THEN
        RETURN 'stale';
    END IF;
    -- A request can be accepted until its time of signing plus the tolerance. That is at most twice the tolerance from now, and the nonce is
    -- retained for longer. A call that has waited for another claim of the nonce may find that claim expired, but then the request is stale.
    claimed := _idem_claim('idem_verify_request()', policy.scope, name, NULL, NULL,
        CASE WHEN NOT policy.keep_forever THEN 2 * allowed + interval '1 s' END, NULL, false, true, NULL);
    IF claimed.outcome IN ('in_doubt', 'in_flight') THEN
        PERFORM _idem_raise_if_held(claimed, name);
    ELSIF claimed.outcome NOT IN ('acquired', 'taken_over') THEN
        RETURN 'replayed';
    END IF;
    now := clock_timestamp();
    RETURN CASE WHEN $4 BETWEEN now - allowed AND now + allowed THEN 'accepted' ELSE 'stale' END::idem_request_outcome;
END
$$;

-- --- Secrets: a name has one without an end; its earlier ones verify for as long as the operator has chosen ----------------------------

CREATE FUNCTION _idem_check_secret_name(given text, argument text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF given IS NULL THEN
        PERFORM _idem_null(argument);
    ELSIF octet_length(given) NOT BETWEEN 1 AND 255 THEN
        PERFORM _idem_invalid(format('%s must have from 1 to %s bytes', argument, 255));
    END IF;
END
$$;

-- The key of HMAC as it is stored: one that is too long as its SHA-256, which has the same MACs.
CREATE FUNCTION _idem_stored_secret(given bytea, least_bytes integer) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(given) NOT BETWEEN least_bytes AND 1024 THEN
        PERFORM _idem_invalid(format('secret must have from %s to %s bytes', least_bytes, 1024), hint => 'Make one of 32 random bytes.');
    END IF;
    RETURN CASE WHEN octet_length(given) > 64 THEN sha256(given) ELSE given END;
END
$$;

-- How long the secrets that are replaced still verify.
CREATE FUNCTION _idem_keep_old(given interval) RETURNS interval LANGUAGE plpgsql STABLE AS $$
DECLARE
    span interval := _idem_span(coalesce(given, '0'), 'keep_old');
BEGIN
    IF span < interval '0' THEN
        PERFORM _idem_invalid('keep_old must not be negative');
    END IF;
    PERFORM _idem_deadline(clock_timestamp(), span, 'keep_old');
    RETURN span;
END
$$;

CREATE FUNCTION idem_api_key_set LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    signer    text COLLATE "C" := $1;
    bytes     bytea;
    kept      interval;
    now       timestamptz;
    old_until timestamptz;
BEGIN
    PERFORM _idem_check_secret_name(signer, 'key_id');
    IF $2 IS NULL THEN
        PERFORM _idem_null('secret');
    END IF;
    bytes := _idem_stored_secret($2, 16);
    kept := _idem_keep_old($3);
    PERFORM _idem_require_writable('idem_api_key_set()');
    PERFORM _idem_require_fresh_snapshots('idem_api_key_set()');
    LOCK TABLE ONLY idem_api_keys IN SHARE ROW EXCLUSIVE MODE;
    now := clock_timestamp();
    old_until := _idem_deadline(now, kept, 'keep_old');
    DELETE FROM ONLY idem_api_keys a
     WHERE a.key_id = signer AND (old_until <= now OR a.expires_at <= now OR octet_length(a.secret) > 64 OR a.secret = bytes);
    UPDATE ONLY idem_api_keys a SET expires_at = old_until WHERE a.key_id = signer AND a.expires_at > old_until;
    INSERT INTO idem_api_keys (key_id, created_at, expires_at, secret) VALUES (signer, now, 'infinity', bytes);
END
$$;

CREATE FUNCTION idem_api_key_drop LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    signer text COLLATE "C" := $1;
BEGIN
    PERFORM _idem_check_secret_name(signer, 'key_id');
    PERFORM _idem_require_writable('idem_api_key_drop()');
    PERFORM _idem_require_fresh_snapshots('idem_api_key_drop()');
    LOCK TABLE ONLY idem_api_keys IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM ONLY idem_api_keys a WHERE a.key_id = signer;
    RETURN FOUND;
END
$$;
