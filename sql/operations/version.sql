-- What is installed.

-- The body is parsed when it is created, so it does not depend on the caller's search_path. It needs no library, so it also works
-- where the library cannot be loaded.
CREATE FUNCTION idem_version(OUT edition text, OUT version text, OUT server text)
RETURNS record LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT 'c', e.extversion, current_setting('server_version') FROM pg_extension e WHERE e.extname = 'idem';
END;
COMMENT ON FUNCTION idem_version() IS
'The edition (c: the extension in C++), the version of the extension in this database, and the version of the server. idem_health compares the version of the extension with that of the library.';
