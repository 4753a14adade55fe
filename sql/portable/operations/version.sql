CREATE FUNCTION idem_version LANGUAGE sql AS $$ SELECT 'portable', '@version@', current_setting('server_version') $$;
