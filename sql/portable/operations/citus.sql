-- Citus, where rows are spread over workers. Functions stay on the coordinator: Citus crashes when it runs some of them on workers.

-- Which of idem's tables are spread by key, and which are copied to every node. The others stay on the coordinator.
CREATE FUNCTION _idem_citus_tables(OUT name text, OUT is_spread boolean) RETURNS SETOF record LANGUAGE sql IMMUTABLE AS $$
    VALUES ('idem_keys', true), ('idem_tokens', true), ('idem_locks', true), ('idem_counters', true), ('idem_rates', true),
           ('idem_scopes', false), ('idem_machines', false), ('idem_token_secrets', false), ('idem_api_keys', false), ('idem_webhook_sources', false)
$$;

-- That this is a coordinator which has copies of reference tables: functions that read them are here alone.
CREATE FUNCTION _idem_citus_require() RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    is_known boolean;
    is_here  boolean;
BEGIN
    IF to_regproc('pg_catalog.create_distributed_table') IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'Citus is not installed in this database',
            HINT = 'CREATE EXTENSION citus on every node, then name the workers with citus_add_node() on the coordinator.';
    END IF;
    EXECUTE 'SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_node WHERE groupid = 0), coalesce((SELECT groupid = 0 FROM pg_catalog.pg_dist_local_group), true)'
       INTO is_known, is_here;
    IF NOT is_here THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'this is not the coordinator';
    ELSIF NOT is_known THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'the workers do not know the coordinator',
            HINT = 'SELECT citus_set_coordinator_host(''its host'', 5432)';
    END IF;
END
$$;

-- Makes _idem_is_distributed() true where the rows are on workers. Each run of the script that installs idem replaces that function with the one that
-- is false.
CREATE FUNCTION _idem_citus_note() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_spread CONSTANT boolean := _idem_citus_group('@extschema@.idem_keys') IS NOT NULL;
BEGIN
    IF is_spread <> _idem_is_distributed() THEN
        EXECUTE format('CREATE OR REPLACE FUNCTION @extschema@._idem_is_distributed() RETURNS boolean LANGUAGE sql IMMUTABLE AS %L', 'SELECT ' || is_spread);
    END IF;
END
$$;

-- Spreads or copies a table, and removes the rows that the coordinator had.
CREATE FUNCTION _idem_citus_place(target regclass, call text, arguments text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own CONSTANT text := current_setting('client_min_messages');
BEGIN
    -- Citus tells that the rows have to be removed, which is done here.
    PERFORM set_config('client_min_messages', 'warning', true);
    EXECUTE 'SELECT pg_catalog.' || call USING target, arguments[1], arguments[2]::integer;
    EXECUTE 'SELECT pg_catalog.truncate_local_data_after_distributing_table($1)' USING target;
    PERFORM set_config('client_min_messages', own, true);
END
$$;

CREATE FUNCTION idem_citus_distribute(shard_count integer DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
    own_ddl  text;
    own_mode text;
    member   record;
    changed  boolean := false;
BEGIN
    PERFORM _idem_citus_require();
    IF shard_count NOT BETWEEN 1 AND 64000 THEN
        PERFORM _idem_invalid(format('shard_count must be from 1 to 64000, not %s', shard_count));
    END IF;
    own_ddl := current_setting('citus.enable_ddl_propagation');
    own_mode := current_setting('citus.multi_shard_modify_mode');
    PERFORM set_config('citus.enable_ddl_propagation', 'off', true), set_config('citus.multi_shard_modify_mode', 'sequential', true);
    FOR member IN SELECT t.name, t.is_spread, ('@extschema@.' || t.name)::regclass AS target FROM _idem_citus_tables() t
                   WHERE _idem_citus_group(('@extschema@.' || t.name)::regclass) IS NULL LOOP
        changed := true;
        IF NOT member.is_spread THEN
            PERFORM _idem_citus_place(member.target, 'create_reference_table($1)', '{}');
        ELSIF member.name = 'idem_keys' THEN
            PERFORM _idem_citus_place(member.target, 'create_distributed_table($1, ''key'', colocate_with => $2, shard_count => $3)',
                                      ARRAY['none', coalesce(shard_count::text, current_setting('citus.shard_count'))]);
        ELSE
            PERFORM _idem_citus_place(member.target, 'create_distributed_table($1, ''key'', colocate_with => $2)', ARRAY['@extschema@.idem_keys']);
        END IF;
    END LOOP;
    PERFORM _idem_citus_note();
    PERFORM set_config('citus.enable_ddl_propagation', own_ddl, true), set_config('citus.multi_shard_modify_mode', own_mode, true);
    RETURN changed;
END
$$;
COMMENT ON FUNCTION idem_citus_distribute(integer) IS
'Of the portable edition alone: spreads keys, tokens, locks, counters and rates over the workers of a Citus cluster, by key, and copies scopes, machines, secrets and webhook sources to every node. Rows that are there already move. shard_count: NULL is citus.shard_count. To be called by the owner of idem''s tables on the coordinator, again after an upgrade. True: something changed. 55000: Citus is not installed in this database, this is not the coordinator, or citus_set_coordinator_host() was not called; 22023: shard_count is not 1 to 64000.';

CREATE FUNCTION idem_citus_colocate(target regclass, key_column name) RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
    groups  CONSTANT integer := _idem_citus_group('@extschema@.idem_keys');
    present CONSTANT integer := _idem_citus_group(target);
    part    record;
    lacking text;
BEGIN
    IF target IS NULL THEN
        PERFORM _idem_null('target');
    ELSIF key_column IS NULL THEN
        PERFORM _idem_null('key_column');
    END IF;
    PERFORM _idem_citus_require();
    IF groups IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'idem''s tables are not distributed', HINT = 'Call idem_citus_distribute() first.';
    END IF;
    SELECT a.attnum, a.atttypid, a.attcollation INTO part
      FROM pg_attribute a WHERE a.attrelid = target AND a.attname = key_column AND a.attnum > 0 AND NOT a.attisdropped;
    IF NOT FOUND THEN
        RAISE undefined_column USING MESSAGE = format('column "%s" of table "%s" does not exist', key_column, target);
    ELSIF part.atttypid <> 'text'::regtype OR part.attcollation <> '"C"'::regcollation THEN
        RAISE datatype_mismatch USING MESSAGE = format('column "%s" of table "%s" is not text with the collation "C"', key_column, target),
            DETAIL = 'Only then are rows with the same key on the same worker.',
            HINT = format('ALTER TABLE %s ALTER COLUMN %I TYPE text COLLATE "C"', target, key_column);
    END IF;
    IF present IS NOT NULL THEN
        IF present = groups THEN
            RETURN false;
        END IF;
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" is distributed in another way', target),
            HINT = 'Undo it with undistribute_table(), then call idem_citus_colocate() again.';
    END IF;
    IF EXISTS (SELECT FROM idem_guards g WHERE g.target = $1) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" has guards', target), DETAIL = 'Citus takes no triggers on a distributed table.',
            HINT = 'Call idem_machine_detach and optimistic_disable first, idem_machine_attach and optimistic_enable again afterwards.';
    END IF;
    SELECT string_agg(format('"%s"', i.indexrelid::regclass), ', ' ORDER BY i.indexrelid::regclass::text) INTO lacking
      FROM pg_index i WHERE i.indrelid = target AND (i.indisunique OR i.indisexclusion) AND part.attnum <> ALL (i.indkey::smallint[]);
    IF lacking IS NOT NULL THEN
        RAISE invalid_table_definition USING MESSAGE = format('unique indexes of table "%s" lack the column "%s"', target, key_column),
            DETAIL = format('They are %s. A worker can keep values unique among its own rows only.', lacking),
            HINT = format('Add the column to each of them, as in PRIMARY KEY (%I, id), or drop them.', key_column);
    END IF;
    PERFORM _idem_citus_place(target, format('create_distributed_table($1, %L, colocate_with => $2)', key_column), ARRAY['@extschema@.idem_keys']);
    RETURN true;
END
$$;
COMMENT ON FUNCTION idem_citus_colocate(regclass, name) IS
'Of the portable edition alone: spreads a table of yours over the workers of a Citus cluster by the column that has idem''s key, so that a claim and the rows that it guards are on one worker and commit in one COMMIT. The column is text with the collation "C" (42804), and in every unique index (42P16). For operators who own the table, on the coordinator. True: it is distributed now; false: it was already. 55000: idem''s tables are not distributed, or this one is in another way, or it has guards, which are triggers; 42703: no such column.';

SELECT _idem_citus_note();
