-- A version after this one, for the test of upgrades: with a function for applications, and a table that the library has no use for.
CREATE FUNCTION idem_of_tomorrow() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN 1;
COMMENT ON FUNCTION idem_of_tomorrow() IS 'Answers 1.';

CREATE TABLE idem_things_of_tomorrow (id bigint PRIMARY KEY);
COMMENT ON TABLE idem_things_of_tomorrow IS 'Nothing.';
COMMENT ON COLUMN idem_things_of_tomorrow.id IS 'A number.';
SELECT pg_catalog.pg_extension_config_dump('idem_things_of_tomorrow', '');

COMMENT ON FUNCTION idem_uuid_v7() IS 'A comment of tomorrow.';

SELECT idem_set_privileges();
