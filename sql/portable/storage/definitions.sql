-- Nothing is kept in the memory of sessions, so nothing has to be told to them.
OMIT idem_definitions_changed;
OMIT idem_definitions_truncated;
OMIT idem_token_secrets_changed;
OMIT idem_api_keys_changed;
OMIT idem_webhook_sources_changed;

-- HMAC-SHA256 (RFC 2104).
CREATE FUNCTION _idem_hmac(secret bytea, message bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    inner_pad bytea := CASE WHEN octet_length(secret) > 64 THEN sha256(secret) ELSE secret END;
    outer_pad bytea;
BEGIN
    inner_pad := inner_pad || decode(repeat('00', 64 - octet_length(inner_pad)), 'hex');
    outer_pad := inner_pad;
    FOR i IN 0..63 LOOP
        outer_pad := set_byte(outer_pad, i, get_byte(inner_pad, i) # 92);
        inner_pad := set_byte(inner_pad, i, get_byte(inner_pad, i) # 54);
    END LOOP;
    RETURN sha256(outer_pad || sha256(inner_pad || message));
END
$$;

-- Whether two MACs are the same, in a time that does not tell where they differ: what is compared are hashes that nobody can foretell.
CREATE FUNCTION _idem_same_mac(one bytea, other bytea) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    salt bytea := uuid_send(gen_random_uuid());
BEGIN
    RETURN sha256(salt || one) = sha256(salt || other);
END
$$;

-- 32 bytes that nobody can foretell.
CREATE FUNCTION _idem_random() RETURNS bytea LANGUAGE sql VOLATILE AS $$
    SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
$$;

CREATE FUNCTION _idem_base64url(bytes bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT rtrim(translate(encode(bytes, 'base64'), E'+/\n', '-_'), '=')
$$;

-- NULL for what _idem_base64url does not write.
CREATE FUNCTION _idem_from_base64url(encoded text, size integer) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bytes bytea;
BEGIN
    IF octet_length(encoded) <> (size * 8 + 5) / 6 OR encoded ~ '[^A-Za-z0-9_-]' THEN
        RETURN NULL;
    END IF;
    bytes := decode(translate(encoded, '-_', '+/') || repeat('=', (3 - size % 3) % 3), 'base64');
    RETURN CASE WHEN _idem_base64url(bytes) = encoded THEN bytes END;
END
$$;
