-- A schema "squatted" that another role made first: its idem_version() notes each role that calls it, and says that idem is newer than a package.
CREATE ROLE squatter;
CREATE SCHEMA squatted AUTHORIZATION squatter;
SET ROLE squatter;
CREATE TABLE squatted.callers (name name);
CREATE FUNCTION squatted.note() RETURNS text LANGUAGE sql AS $$ INSERT INTO squatted.callers VALUES (current_user) RETURNING '' $$;
CREATE FUNCTION squatted.idem_version(OUT edition text, OUT version text, OUT server text) LANGUAGE sql AS $$ SELECT 'portable', '9.0.0', squatted.note() $$;
RESET ROLE;
