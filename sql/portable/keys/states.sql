-- The states of a key: the values of the column `state`. The tables of an installation that had a CHECK instead are rewritten.
DO $$
DECLARE
    keys record;
BEGIN
    CREATE DOMAIN _idem_state AS text COLLATE "C" CHECK (VALUE IN ('p', 'c', 'r', 'd'));
    FOR keys IN SELECT c.relname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                 WHERE c.relnamespace = '@extschema@'::regnamespace AND c.relkind = 'r' AND a.attname = 'state' AND a.atttypid = '"char"'::regtype ORDER BY c.oid LOOP
        EXECUTE format('ALTER TABLE @extschema@.%I DROP CONSTRAINT IF EXISTS %I, ALTER state TYPE @extschema@._idem_state', keys.name, keys.name || '_state_check');
    END LOOP;
EXCEPTION WHEN duplicate_object THEN -- a later installation
END
$$;
COMMENT ON DOMAIN _idem_state IS 'Internal: p: in progress (leased), c: completed, r: released, d: in doubt.';
