-- Where the tables of keys are distributed tables of Citus, a row's xmin is a number of its worker's. What this transaction has written is noted in a
-- setting, which ends with it and goes back with its savepoints. A note is a MAC: what a session may set, it cannot forge.

-- Replaced when the tables are distributed.
CREATE FUNCTION _idem_is_distributed() RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT false
$$;

-- The group of tables whose rows of the same key are on the same worker. NULL: Citus does not know the table, or is not here.
CREATE FUNCTION _idem_citus_group(target regclass) RETURNS integer LANGUAGE plpgsql STABLE AS $$
DECLARE
    number integer;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT colocationid FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1' INTO number USING target;
    END IF;
    RETURN number;
END
$$;

CREATE FUNCTION _idem_note_secret() RETURNS bytea LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    secret bytea := (SELECT s.secret FROM _idem_token_secrets() s LIMIT 1);
BEGIN
    IF secret IS NULL THEN
        PERFORM _idem_token_secret_create(false, false, 'the claim of a key');
        secret := (SELECT s.secret FROM _idem_token_secrets() s LIMIT 1);
    END IF;
    RETURN secret;
END
$$;

-- `space`: as of _idem_hash.
CREATE FUNCTION _idem_note_of(secret bytea, space integer, scope text, key text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN encode(substr(_idem_hmac(secret, convert_to(format('%s %s %s %s', pg_current_xact_id(), space, idem_key(scope, key), now()), 'UTF8')), 1, 16), 'hex');
END
$$;

CREATE FUNCTION _idem_note(space integer, scope text, keys text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    secret CONSTANT bytea := _idem_note_secret();
BEGIN
    PERFORM set_config('idem._written', concat(current_setting('idem._written', true),
                       (SELECT string_agg(_idem_note_of(secret, space, scope, w.k), '') FROM unnest(keys) AS w (k))), true);
END
$$;

CREATE FUNCTION _idem_has_noted(space integer, scope text, key text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    noted CONSTANT text := coalesce(current_setting('idem._written', true), '');
BEGIN
    RETURN noted <> '' AND position(_idem_note_of(_idem_note_secret(), space, scope, key) IN noted) > 0;
END
$$;
