CREATE FUNCTION idem_version LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT 'portable', '@version@', current_setting('server_version') $$;
