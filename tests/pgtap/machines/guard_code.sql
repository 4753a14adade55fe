-- The guard runs with other rights than the writer's, in one of the editions. Of a table whose owner is hostile it runs no code with them: no cast,
-- operator, domain or function. It reads columns that can hold states, and refuses all others.
\ir ../include/helpers.psql
SELECT plan(22);
SET client_min_messages = warning;
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_mallory;
CREATE ROLE tap_writer;
CREATE SCHEMA mallory AUTHORIZATION tap_mallory;
GRANT USAGE ON SCHEMA mallory TO public;
SELECT idem_grant('tap_mallory');
SELECT idem_machine_define(name, '{"initial": ["a"], "transitions": {"a": ["b"], "b": []}}') FROM unnest('{guarded:m,guarded:v}'::text[]) AS name;
SET LOCAL ROLE tap_mallory;

-- All her code counts as whom it runs. No error undoes what a sequence has counted.
CREATE SEQUENCE mallory.ran_as_owner;
CREATE SEQUENCE mallory.ran_as_writer;
GRANT ALL ON SEQUENCE mallory.ran_as_owner, mallory.ran_as_writer TO public;
CREATE FUNCTION mallory.run(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval(CASE WHEN current_user IN ('tap_mallory', 'tap_writer') THEN 'mallory.ran_as_writer' ELSE 'mallory.ran_as_owner' END);
    RETURN true;
END $$;
CREATE FUNCTION mallory.spring(text) RETURNS boolean LANGUAGE sql AS $$ SELECT mallory.run('domain') $$;
CREATE TYPE mallory.mood AS ENUM ('a', 'b');
CREATE TYPE mallory.pair AS (one text, two mallory.mood);
CREATE FUNCTION mallory.distance(one mallory.mood, other mallory.mood) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN length(mallory.run('range')::text); END $$;
CREATE TYPE mallory.span AS RANGE (subtype = mallory.mood, subtype_diff = mallory.distance);
CREATE DOMAIN mallory.word AS text CHECK (mallory.spring(VALUE));
CREATE DOMAIN mallory.mood_word AS mallory.mood CHECK (mallory.spring(VALUE::text));
-- Casts, for each type that a role can make, to what the guard could want.
DO $do$
DECLARE
    kind   text;
    target text;
BEGIN
    FOREACH kind IN ARRAY '{mood,pair,span}'::text[] LOOP
        FOREACH target IN ARRAY '{json,jsonb,text,varchar}'::text[] LOOP
            EXECUTE format('CREATE FUNCTION mallory.%1$s_to_%2$s(mallory.%1$s) RETURNS %2$s LANGUAGE plpgsql AS $f$ BEGIN PERFORM mallory.run(''cast to %2$s''); RETURN ''"b"''; END $f$', kind, target);
            EXECUTE format('CREATE CAST (mallory.%1$s AS %2$s) WITH FUNCTION mallory.%1$s_to_%2$s(mallory.%1$s) AS IMPLICIT', kind, target);
        END LOOP;
        EXECUTE format('CREATE FUNCTION mallory.equals(mallory.%1$s, mallory.%1$s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RETURN mallory.run(''operator''); END $f$', kind);
        EXECUTE format('CREATE OPERATOR mallory.= (LEFTARG = mallory.%1$s, RIGHTARG = mallory.%1$s, FUNCTION = mallory.equals)', kind);
        EXECUTE format('CREATE OPERATOR mallory.<> (LEFTARG = mallory.%1$s, RIGHTARG = mallory.%1$s, FUNCTION = mallory.equals)', kind);
    END LOOP;
END $do$;
CREATE FUNCTION pg_temp.guard(named text, argument text, logs text DEFAULT 'no log', events text DEFAULT 'INSERT OR UPDATE OR DELETE') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER guard AFTER %s ON %s FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard(''guarded:m'', %L, %L, ''valid'')', events, named, argument, logs);
END $$;

-- Functions in the place of columns: hers, and those of the server that call her casts.
CREATE TABLE mallory.bare (m mallory.mood, p mallory.pair, r mallory.span);
CREATE FUNCTION mallory.own(mallory.bare) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.run('function'); RETURN 'a'; END $$;
CREATE FUNCTION mallory.no_columns(operation text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    name   text;
    states text[];
BEGIN
    FOREACH name IN ARRAY '{to_jsonb,to_json,row_to_json,own,mallory.own,hstore,text,varchar,name,jsonb_build_object,jsonb_build_array,json_agg,concat,num_nulls,state,status,bare,"",m.p}'::text[] LOOP
        PERFORM pg_temp.guard('mallory.bare', name, 'log', operation);
        states := states || pg_temp.state_of(statement);
        DROP TRIGGER guard ON mallory.bare;
    END LOOP;
    RETURN (SELECT string_agg(DISTINCT s, ' ') FROM unnest(states) AS s);
END $$;
SELECT mallory.no_columns('INSERT', $$ INSERT INTO mallory.bare VALUES ('a', ('x', 'a'), '[a,b]') $$) AS no_column_inserted \gset
INSERT INTO mallory.bare VALUES ('a', ('x', 'a'), '[a,b]');
SELECT mallory.no_columns('UPDATE', 'UPDATE mallory.bare SET r = NULL') AS no_column_updated \gset
SELECT mallory.no_columns('DELETE', 'DELETE FROM mallory.bare') AS no_column_deleted \gset
CREATE TEMP TABLE bare (m mallory.mood);
INSERT INTO bare VALUES ('a');
SELECT pg_temp.guard('pg_temp.bare', 'to_jsonb');
SELECT pg_temp.state_of('DELETE FROM pg_temp.bare') AS no_column_of_a_temporary_table \gset

-- A column that was there when the machine was attached.
CREATE TABLE mallory.renamed (to_jsonb text, m mallory.mood);
SELECT idem.idem_machine_attach('mallory.renamed', 'to_jsonb', 'guarded:m');
INSERT INTO mallory.renamed VALUES ('a', 'a');
ALTER TABLE mallory.renamed RENAME to_jsonb TO s;
SELECT pg_temp.state_of('UPDATE mallory.renamed SET m = m') AS renamed \gset
ALTER TABLE mallory.renamed DROP s;
SELECT pg_temp.state_of('UPDATE mallory.renamed SET m = m') AS dropped \gset

-- Columns that hold no states, by names that the guard may know and others.
CREATE FUNCTION mallory.other_types() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    type   text;
    named  text;
    states text[];
BEGIN
    FOREACH type IN ARRAY '{mallory.pair,mallory.span,mallory.mood[],json,jsonb,integer,name,oid,tsvector}'::text[] LOOP
        FOREACH named IN ARRAY '{s,state,status}'::text[] LOOP
            EXECUTE format('CREATE TABLE mallory.odd (%I %s)', named, type);
            PERFORM pg_temp.guard('mallory.odd', named, 'log');
            states := states || pg_temp.state_of('INSERT INTO mallory.odd SELECT');
            DROP TABLE mallory.odd;
        END LOOP;
    END LOOP;
    RETURN (SELECT string_agg(DISTINCT s, ' ') FROM unnest(states) AS s);
END $$;
SELECT mallory.other_types() AS other_types \gset

-- States of her types are read by the server's own output functions, and so are keys.
CREATE TABLE mallory.moods (k mallory.mood, w mallory.word, r mallory.span, p mallory.pair, s mallory.mood, status mallory.mood_word, state mallory.word, PRIMARY KEY (k, w, r));
DO $do$
BEGIN
    EXECUTE 'CREATE TRIGGER guard_s AFTER INSERT OR UPDATE ON mallory.moods FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard(''guarded:m'', ''s'', ''log'', ''valid'')';
    EXECUTE 'CREATE TRIGGER guard_state AFTER INSERT OR UPDATE ON mallory.moods FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard(''guarded:m'', ''state'', ''log'', ''valid'')';
    EXECUTE 'CREATE TRIGGER guard_status AFTER INSERT OR UPDATE ON mallory.moods FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard(''guarded:m'', ''status'', ''log'', ''valid'')';
END $do$;

-- Triggers that the guard's function refuses, on what is no table.
CREATE VIEW mallory.states AS SELECT s FROM (VALUES (CASE WHEN mallory.run('view') THEN 'gone' END)) AS v (s);
DO $do$
BEGIN
    EXECUTE 'CREATE TRIGGER guard INSTEAD OF INSERT OR UPDATE ON mallory.states FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard(''guarded:v'', ''s'', ''no log'', ''valid'')';
END $do$;
GRANT ALL ON mallory.states TO public;
-- A writer with no right to idem at all.
GRANT INSERT, UPDATE, SELECT ON mallory.moods TO tap_writer;
RESET ROLE;
SELECT pg_temp.state_as('tap_writer', $$ INSERT INTO mallory.moods VALUES ('a', 'w', '[a,b]', ('x', 'a'), 'a', 'a', 'a') $$) AS written,
       pg_temp.state_as('tap_writer', $$ UPDATE mallory.moods SET s = 'b', status = 'b', state = 'b' $$) AS moved,
       pg_temp.state_as('tap_writer', $$ UPDATE mallory.moods SET s = 'a' $$) AS refused,
       pg_temp.state_as('tap_writer', $$ UPDATE mallory.moods SET status = 'a' $$) AS domain_refused,
       pg_temp.state_as('tap_writer', $$ UPDATE mallory.moods SET state = 'a' $$) AS text_refused,
       pg_temp.state_as('tap_writer', $$ SELECT idem.idem_version() $$) AS granted \gset
SELECT string_agg(DISTINCT by, ' ') AS logged_by, string_agg(format('%s %s>%s', state_column, from_state, to_state), ', ' ORDER BY at) AS logged,
       string_agg(DISTINCT (SELECT string_agg(k, ' ' ORDER BY k) FROM jsonb_object_keys(key) AS k) || ': ' || (key ->> 'w'), ', ') AS logged_key
  FROM idem_transition_log WHERE target = 'mallory.moods' \gset
SELECT pg_temp.state_of($$ SELECT idem_machine_define('guarded:v', '{"initial": ["a"], "transitions": {}, "states": ["a"]}') $$) AS redefined,
       pg_temp.state_of($$ SELECT idem_machine_drop('guarded:v') $$) AS machine_dropped \gset
SELECT has_function_privilege('tap_mallory', 'idem_state_guard()', 'EXECUTE') AS may_attach,
       (SELECT is_called FROM mallory.ran_as_owner) AS ran_as_owner, (SELECT is_called FROM mallory.ran_as_writer) AS ran_as_writer \gset
ROLLBACK;
SELECT pg_advisory_unlock(hashtext('idem pgtap grants'));

SELECT is(:'may_attach'::boolean, true, 'every_application_may_make_the_trigger');
SELECT is(:'no_column_inserted'::text, '42703', 'function_is_no_column_of_an_inserted_row');
SELECT is(:'no_column_updated'::text, '42703', 'nor_of_an_updated_one');
SELECT is(:'no_column_deleted'::text, '42703', 'nor_of_a_deleted_one');
SELECT is(:'no_column_of_a_temporary_table'::text, '42703', 'nor_of_a_temporary_table');
SELECT is(:'renamed'::text, '42703', 'nor_after_a_rename');
SELECT is(:'dropped'::text, '42703', 'nor_after_a_drop');
SELECT is(:'other_types'::text, '42804', 'columns_of_other_types_are_refused');
SELECT is(:'written'::text, 'ok', 'writer_without_a_grant_writes');
SELECT is(:'moved'::text, 'ok', 'and_moves');
SELECT is(:'refused'::text, 'ID003', 'enum_is_read_by_its_label_whatever_its_casts');
SELECT is(:'domain_refused'::text, 'ID003', 'so_is_a_domain_over_it');
SELECT is(:'text_refused'::text, 'ID003', 'and_a_domain_over_text');
SELECT is(:'granted'::text, '42501', 'the_writer_may_use_nothing_of_idem');
SELECT is(:'logged_by'::text, 'tap_writer', 'and_is_logged');
SELECT is(:'logged'::text, 's >a, state >a, status >a, s a>b, state a>b, status a>b', 'by_each_guard');
SELECT is(:'logged_key'::text, 'k r w: w', 'with_keys_of_any_types');
SELECT is(:'redefined'::text, 'ok', 'trigger_on_a_view_is_no_guard');
SELECT is(:'machine_dropped'::text, 'ok', 'and_does_not_keep_a_machine');
SELECT is(:'ran_as_owner'::boolean, false, 'none_of_her_code_ran_with_the_rights_of_idems_owner');
SELECT is(:'ran_as_writer'::boolean, true, 'her_code_is_armed');
SELECT is((SELECT count(*)::int FROM idem_machines WHERE name LIKE 'guarded:_'), 0, 'all_of_it_is_rolled_back');
SELECT * FROM finish();
