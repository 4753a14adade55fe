-- What an older installation has otherwise. Tables and types that it lacks are made as in a new one.
DO $$
BEGIN
    IF to_regclass('@extschema@.idem_scopes') IS NULL THEN -- new
        RETURN;
    END IF;
    ALTER TABLE idem_scopes
        ADD COLUMN IF NOT EXISTS ignored_methods text[],
        ADD COLUMN IF NOT EXISTS key_syntax text CHECK (key_syntax IN ('string_or_bare', 'string', 'opaque')),
        ADD COLUMN IF NOT EXISTS compare text CHECK (compare IN ('bytes', 'json')),
        ADD COLUMN IF NOT EXISTS fingerprint_of text[] CHECK (fingerprint_of OPERATOR(pg_catalog.<@) '{method,route,body}' AND fingerprint_of OPERATOR(pg_catalog.<>) '{}'),
        ADD COLUMN IF NOT EXISTS error_format text CHECK (error_format IN ('problem', 'stripe', 'acp', 'ucp')),
        ADD COLUMN IF NOT EXISTS echo_key boolean;
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('@extschema@.idem_http_answer') AND a.attname = 'code') THEN
        ALTER TYPE idem_http_answer ADD ATTRIBUTE code text, ADD ATTRIBUTE retryable boolean;
    END IF;
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('@extschema@.idem_rings') AND a.attname = 'window') THEN
        ALTER VIEW idem_rings RENAME COLUMN "window" TO number;
    END IF;
END
$$;
