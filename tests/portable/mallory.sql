-- All that an ordinary role can put in the way of functions that run with another role's rights. Whatever of it runs records whose rights it has, in a
-- table and, as an error undoes that, in sequences.
SET client_min_messages = error;
CREATE SCHEMA IF NOT EXISTS lair;
GRANT USAGE ON SCHEMA lair TO public;
CREATE TABLE IF NOT EXISTS lair.ran (by name, what text);
GRANT ALL ON lair.ran TO public;
CREATE SEQUENCE IF NOT EXISTS lair.own;
CREATE SEQUENCE IF NOT EXISTS lair.stolen;
GRANT ALL ON SEQUENCE lair.own, lair.stolen TO public;
CREATE OR REPLACE FUNCTION lair.run(what text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM nextval(CASE current_user WHEN 'mallory' THEN 'lair.own' ELSE 'lair.stolen' END);
    INSERT INTO lair.ran VALUES (current_user, what);
    RETURN true;
END $$;

-- Operators, and functions that are more exact than the server's own: format(text, text) before format(text, VARIADIC "any"). In idem's schema, if she may.
DO $do$
DECLARE
    type     text;
    place    text;
    operator text;
    call     text[];
BEGIN
    FOREACH place IN ARRAY '{lair,idem}'::text[] LOOP
        CONTINUE WHEN NOT has_schema_privilege(place, 'CREATE');
        FOREACH type IN ARRAY '{text,int8,int4,timestamptz,jsonb,oid,name}'::text[] LOOP
            EXECUTE format('CREATE OR REPLACE FUNCTION lair.%I(%2$s, %2$s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RETURN lair.run(''operator''); END $f$', 'op_' || type, type);
            FOREACH operator IN ARRAY '{=,<>,<,<=,>,>=,+,-,||}'::text[] LOOP
                IF to_regoperator(format('%s.%s(%s,%3$s)', place, operator, type)) IS NULL THEN
                    EXECUTE format('CREATE OPERATOR %s.%s (LEFTARG = %3$s, RIGHTARG = %3$s, FUNCTION = lair.%4$I)', place, operator, type, 'op_' || type);
                END IF;
            END LOOP;
        END LOOP;
        FOREACH call SLICE 1 IN ARRAY ARRAY[
            ['format', 'text, text', 'text'], ['format', 'text, text, text', 'text'], ['format', 'text, int4', 'text'], ['format', 'text, int8', 'text'],
            ['concat', 'text', 'text'], ['concat', 'text, text', 'text'], ['jsonb_build_object', 'text, text', 'jsonb'], ['num_nulls', 'text', 'int4'],
            ['now', '', 'timestamptz'], ['clock_timestamp', '', 'timestamptz'], ['current_setting', 'text, bool', 'text'],
            ['hashtextextended', 'text, int8', 'int8'], ['pg_try_advisory_xact_lock', 'int8', 'bool']] LOOP
            EXECUTE format('CREATE OR REPLACE FUNCTION %s.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', place, call[1], call[2], call[3],
                           format('BEGIN PERFORM lair.run(%L); RETURN NULL; END', 'overload'));
        END LOOP;
    END LOOP;
END $do$;

-- Domains of the names of the server's types, which check their values.
CREATE FUNCTION pg_temp.spring(what pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN lair.run(what); END';
DO $do$
DECLARE
    type pg_catalog.text;
BEGIN
    FOREACH type IN ARRAY '{text,timestamptz,interval,int4,int8,jsonb,bytea,bool,oid,name,regclass}'::pg_catalog.text[] LOOP
        EXECUTE format('CREATE DOMAIN pg_temp.%1$I AS pg_catalog.%1$I CHECK (pg_temp.spring(%1$L))', type);
    END LOOP;
END $do$;
-- A type with casts to each type that a function takes.
CREATE TYPE pg_temp.mood AS ENUM ('a');
CREATE TYPE pg_temp.pair AS (a pg_temp.mood);
CREATE TYPE pg_temp.span AS RANGE (SUBTYPE = pg_temp.mood);
DO $do$
DECLARE
    type pg_catalog.text;
    made pg_catalog.text;
BEGIN
    FOREACH made IN ARRAY '{mood,pair,span}'::pg_catalog.text[] LOOP
        FOREACH type IN ARRAY '{text,json,jsonb,interval,bytea,int4,int8,bool,oid}'::pg_catalog.text[] LOOP
            EXECUTE format('CREATE FUNCTION pg_temp.%1$s_to_%2$s(pg_temp.%1$s) RETURNS pg_catalog.%2$s LANGUAGE plpgsql AS $f$ BEGIN PERFORM lair.run(''cast to %2$s''); RETURN NULL; END $f$', made, type);
            EXECUTE format('CREATE CAST (pg_temp.%1$s AS pg_catalog.%2$s) WITH FUNCTION pg_temp.%1$s_to_%2$s(pg_temp.%1$s) AS IMPLICIT', made, type);
        END LOOP;
    END LOOP;
END $do$;
-- Tables of the names of idem's and the catalog's.
CREATE TEMP VIEW idem_keys AS SELECT lair.run('view');
CREATE TEMP VIEW idem_scopes AS SELECT lair.run('view');
CREATE TEMP VIEW pg_namespace AS SELECT lair.run('view');
CREATE TEMP VIEW pg_proc AS SELECT lair.run('view');
