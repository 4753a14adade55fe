-- What an older installation has otherwise. Tables and types that it lacks are made as in a new one.
DO $$
DECLARE
    keys record;
BEGIN
    IF to_regclass('@extschema@.idem_scopes') IS NULL THEN -- new
        RETURN;
    END IF;
    -- Only what is missing: each statement waits for the transactions that use the table, and lets no call in.
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('@extschema@.idem_scopes') AND a.attname = 'echo_key') THEN
        ALTER TABLE idem_scopes
            ADD COLUMN ignored_methods text[],
            ADD COLUMN key_syntax text CHECK (key_syntax IN ('string_or_bare', 'string', 'opaque')),
            ADD COLUMN compare text CHECK (compare IN ('bytes', 'json')),
            ADD COLUMN fingerprint_of text[] CHECK (fingerprint_of OPERATOR(pg_catalog.<@) '{method,route,body}' AND fingerprint_of OPERATOR(pg_catalog.<>) '{}'),
            ADD COLUMN error_format text CHECK (error_format IN ('problem', 'stripe', 'acp', 'ucp')),
            ADD COLUMN echo_key boolean;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('@extschema@.idem_http_answer') AND a.attname = 'code') THEN
        ALTER TYPE idem_http_answer ADD ATTRIBUTE code text, ADD ATTRIBUTE retryable boolean;
    END IF;
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('@extschema@.idem_rings') AND a.attname = 'window') THEN
        ALTER VIEW idem_rings RENAME COLUMN "window" TO number;
    END IF;
    -- Tables whose states had a CHECK are rewritten.
    FOR keys IN SELECT c.relname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                 WHERE c.relnamespace = '@extschema@'::regnamespace AND c.relkind = 'r' AND a.attname = 'state' AND a.atttypid = '"char"'::regtype ORDER BY c.oid LOOP
        EXECUTE format('ALTER TABLE @extschema@.%I DROP CONSTRAINT IF EXISTS %I, ALTER state TYPE @extschema@._idem_state', keys.name, keys.name || '_state_check');
    END LOOP;
END
$$;
