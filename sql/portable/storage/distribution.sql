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

-- Guards without a trigger: Citus takes none on tables whose rows are on workers. Rows of tables that were dropped stay until the next change.
CREATE TABLE _idem_citus_guards (
    target      regclass NOT NULL,
    column_name name NOT NULL,
    machine     text, -- NULL: the column is a version
    is_valid    boolean NOT NULL,
    PRIMARY KEY (target, column_name)
);
COMMENT ON TABLE _idem_citus_guards IS 'Internal: state machines and versions of distributed tables, for idem_transition and optimistic_update. Nothing else goes by them.';
SELECT pg_catalog.pg_extension_config_dump('_idem_citus_guards', '');

-- Whether Citus keeps the table's rows on other nodes. It knows others, too, which stay here and take triggers.
CREATE FUNCTION _idem_is_on_workers(target regclass) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    is_away boolean;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT partmethod <> ''n'' OR repmodel = ''t'' OR colocationid <> 0 FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1'
           INTO is_away USING target;
    END IF;
    RETURN is_away IS TRUE;
END
$$;

CREATE FUNCTION _idem_citus_guards_of(target regclass, OUT column_name name, OUT machine text, OUT is_valid boolean)
RETURNS SETOF record LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    IF _idem_is_on_workers($1) THEN
        RETURN QUERY SELECT g.column_name, g.machine, g.is_valid FROM _idem_citus_guards g WHERE g.target = $1 ORDER BY g.column_name;
    END IF;
END
$$;

-- Records a guard as it is now; is_valid NULL: takes it away. The caller needs what the trigger would need.
CREATE FUNCTION _idem_citus_guard(target regclass, column_name name, machine text, is_valid boolean)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    caller CONSTANT name := _idem_caller();
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = $1 AND (pg_has_role(caller, c.relowner, 'USAGE')
                                                               OR $4 IS NOT NULL AND has_table_privilege(caller, c.oid, 'TRIGGER'))) THEN
        PERFORM _idem_deny($1, 'must be owner of');
    END IF;
    DELETE FROM ONLY _idem_citus_guards g WHERE g.target = $1 AND g.column_name = $2 OR NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = g.target);
    IF $4 IS NOT NULL THEN
        INSERT INTO _idem_citus_guards AS g (target, column_name, machine, is_valid) VALUES ($1, $2, $3, $4);
    END IF;
END
$$;

-- The call that does so, for functions that execute as their callers.
CREATE FUNCTION _idem_citus_guard_statement(target regclass, column_name name, machine text, is_valid boolean) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN format('SELECT %s._idem_citus_guard(%s::pg_catalog.oid, %L, %L, %L)',
                  (SELECT p.pronamespace::regnamespace FROM pg_proc p WHERE p.oid = '_idem_citus_guard'::regproc), target::oid, column_name, machine, is_valid);
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
