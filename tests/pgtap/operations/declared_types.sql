-- plpgsql compiles a body once in a session. The types that it declares are looked up in the search_path of that moment. Its validator compiles for each role
-- that may call the function, without the path that the function sets. A type without a schema would be a caller's own, with the rights of the function's owner.
\ir ../include/helpers.psql
SELECT plan(2);
CREATE SCHEMA shells; -- a type of each name of the server's that nothing can be declared with
SELECT format('CREATE TYPE shells.%I', typname) FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typrelid = 0 AND typname NOT LIKE E'\\_%' \gexec
CREATE FUNCTION pg_temp.refusals(routines regnamespace) RETURNS text LANGUAGE plpgsql SET search_path = shells, pg_catalog AS $$
DECLARE
    routine pg_catalog.regprocedure;
    found   pg_catalog.text := '';
BEGIN
    FOR routine IN SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang AND l.lanname = 'plpgsql'
                    WHERE p.pronamespace = routines ORDER BY p.proname LOOP
        BEGIN
            PERFORM pg_catalog.plpgsql_validator(routine);
        EXCEPTION WHEN OTHERS THEN
            found := found || pg_catalog.format(E'%s: %s\n', routine, sqlerrm);
        END;
    END LOOP;
    RETURN found;
END $$;
CREATE SCHEMA careless;
SET check_function_bodies = off; -- which would compile it
CREATE FUNCTION careless.trap() RETURNS void LANGUAGE plpgsql AS $$ DECLARE v text; BEGIN END $$;
RESET check_function_bodies;
SELECT matches(pg_temp.refusals('careless'), 'type "text" is only a shell', 'a_type_without_its_schema_is_found');
SELECT is(pg_temp.refusals('idem'), '', 'every_declared_type_has_its_schema');
SET client_min_messages = warning;
DROP SCHEMA shells, careless CASCADE;
SELECT * FROM finish();
