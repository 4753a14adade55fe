-- Functions in public with the names of the server's. Most have exactly the types that a driver sends, so an unqualified call finds them although
-- pg_catalog comes first; those of set_config and to_regprocedure with text need a search_path that names public before pg_catalog.
DO $do$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY['set_config(varchar, varchar, boolean) RETURNS text', 'set_config(text, varchar, boolean) RETURNS text',
        'set_config(text, text, boolean) RETURNS text', 'to_regprocedure(varchar) RETURNS regprocedure', 'to_regprocedure(text) RETURNS regprocedure',
        'to_jsonb(text[]) RETURNS jsonb', 'jsonb_object_agg(text, jsonb) RETURNS jsonb', 'jsonb_agg(text) RETURNS jsonb',
        'unnest(text[]) RETURNS SETOF text', 'unnest(bigint[]) RETURNS SETOF bigint'] LOOP
        EXECUTE format('CREATE FUNCTION public.%s LANGUAGE plpgsql AS $$ BEGIN RAISE %L; END $$', each, 'trapped by ' || each);
    END LOOP;
END
$do$;
